//! What a worker does.

use std::{
    borrow::Cow, error::Error, fs::read_link, num::NonZeroUsize, pin::pin, sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use futures::future::{Either, select};
use loopwright_agent::AgentDefinition;
use loopwright_core::{
    AgentState, ApprovalDecision, Change, ChangeRecord, Clock as _, Edit, OnInterrupted, RunEnv,
    ToolOutput,
    messages::{Message, SectionName},
};
use loopwright_sessions::{
    ActionCx, AgentSession, AppendRequest, ChangeBatch, ContinueRun, DecideCall, SendMessage,
    SessionAction, SessionError, SessionFactory, SessionId, SessionRuntime, SessionStore,
    StoreError,
};
use loopwright_worker::{OnIdle, Worker, WorkerOptions};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{
    Failure,
    bank::Bank,
    clock::SlowClock,
    fleet::Crew,
    ledger::{Entry, Ledger},
    open::open,
    payer::{Payer, visit},
    saboteur::Saboteur,
    script::Script,
    task::{Decision, Interruption, Task, Work},
    watched::Watched,
};

/// Does a task, and notes how it ended. Tells whether it ended well.
pub async fn work(task: &Task, ledger: &Ledger) -> bool {
    let done = work_now(task, ledger).await;
    if let Err(error) = &done {
        ledger.note(&Entry::Refused { chain: chain(error.as_ref()) });
    }
    done.is_ok()
}

async fn work_now(task: &Task, ledger: &Ledger) -> Result<(), Failure> {
    let id = SessionId::new(task.session.clone())?;
    let slow = if let Work::Run { slow, .. } = task.work { slow } else { 0 };
    let clock = SlowClock::new(slow);
    let store = open(&task.url).await?;
    let saboteur = Saboteur { ledger: ledger.clone(), fault: task.fault, clock: clock.clone() };
    let store = Arc::new(Watched::new(store, saboteur));
    match &task.work {
        Work::Run { steps, interrupted, .. } => {
            let env = RunEnv { clock: Arc::new(clock), ..RunEnv::system() };
            let runtime = SessionRuntime::new(store, Script::noting(*steps, ledger.clone()))
                .with_env(env)
                .with_interrupted(interrupted.policy());
            let session = run(&runtime, &id, *interrupted).await?;
            ledger.note(&ended(&session));
            Ok(())
        }
        Work::Listen { steps } => {
            let runtime = SessionRuntime::new(store, Script::noting(*steps, ledger.clone()))
                .with_lease_ttl(LISTENS);
            let session = run(&runtime, &id, Interruption::Tell).await?;
            ledger.note(&ended(&session));
            Ok(())
        }
        Work::TakeOver { steps } => {
            let runtime = SessionRuntime::new(store, Script::noting(*steps, ledger.clone()))
                .with_lease_ttl(LISTENS);
            create_if_missing(&runtime, &id).await?;
            ledger.note(&ended(&runtime.execute(&id, &TakeOver).await?));
            Ok(())
        }
        Work::Serve { concurrency } => serve(&task.url, *concurrency, ledger).await,
        Work::Visit(what) => {
            let notes = ledger.clone();
            let payer = Payer::new(move |sum| notes.note(&Entry::Paid { sum }));
            let runtime =
                SessionRuntime::new(store, payer).with_interrupted(OnInterrupted::RequireApproval);
            Ok(visit(&runtime, &id, what).await?)
        }
        Work::Bank { visit: what, kill } => {
            let bank = Bank::open(ledger, &read_link("/proc/self/fd/1")?, *kill).await?;
            let runtime =
                SessionRuntime::new(store, bank).with_interrupted(OnInterrupted::RequireApproval);
            Ok(visit(&runtime, &id, what).await?)
        }
        Work::Race { by, marks } => {
            // All racers start at once.
            let _read = std::io::stdin().read_line(&mut String::new());
            race(&*store, &id, by, *marks, ledger).await
        }
    }
}

/// The lease of a worker that listens, which looks for control messages three times as often.
const LISTENS: Duration = Duration::from_millis(30);

fn ended(session: &AgentSession) -> Entry {
    let state = session.state();
    Entry::Ended { status: state.status().as_str().to_owned(), text: state.text() }
}

impl Interruption {
    fn policy(self) -> OnInterrupted {
        if self == Self::Tell {
            OnInterrupted::ReportUnknown
        } else {
            OnInterrupted::RequireApproval
        }
    }
}

/// Runs the agent from wherever the session stands.
async fn run(
    runtime: &SessionRuntime,
    id: &SessionId,
    interrupted: Interruption,
) -> Result<AgentSession, Failure> {
    let session = create_if_missing(runtime, id).await?;
    if let Interruption::Decided(decision) = interrupted {
        runtime.execute(id, &DecideCall { path: None, resolution: decision.resolution() }).await?;
    }
    let action: Box<dyn SessionAction> = match session.state().execution() {
        None => Box::new(SendMessage::text("go")),
        Some(_) => Box::new(ContinueRun),
    };
    Ok(runtime.execute(id, &*action).await?)
}

async fn create_if_missing(
    runtime: &SessionRuntime,
    id: &SessionId,
) -> Result<AgentSession, SessionError> {
    match runtime.session(id).await {
        Err(SessionError::Store(StoreError::NotFound(_))) => runtime.create(session(id)).await,
        found => found,
    }
}

/// Continues what a runner that was killed left, with the requests that it left, as workers do with a job.
struct TakeOver;

#[async_trait]
impl SessionAction for TakeOver {
    fn name(&self) -> Cow<'static, str> {
        "take_over".into()
    }

    async fn execute(
        &self,
        session: AgentSession,
        cx: &ActionCx<'_>,
    ) -> Result<AgentSession, SessionError> {
        cx.heed_earlier_requests();
        match session.state().execution() {
            None => SendMessage::text("go").execute(session, cx).await,
            Some(_) => ContinueRun.execute(session, cx).await,
        }
    }
}

/// Does jobs until there are none, or a signal says that this is to end.
async fn serve(url: &str, concurrency: NonZeroUsize, ledger: &Ledger) -> Result<(), Failure> {
    let options = WorkerOptions {
        concurrency,
        poll_interval: Duration::from_millis(20),
        on_idle: OnIdle::Exit,
        ..WorkerOptions::default()
    };
    let worker = Worker::new(open(url).await?, Crew::noting(ledger.clone()))?;
    let mut terminate = signal(SignalKind::terminate())?;
    let drain = CancellationToken::new();
    let told = async {
        terminate.recv().await;
        drain.cancel();
    };
    let worker = worker.with_options(options);
    let tally = match select(pin!(worker.run(&drain)), pin!(told)).await {
        Either::Left((tally, _)) => tally,
        Either::Right(((), working)) => working.await,
    };
    ledger.note(&Entry::Tallied(tally));
    Ok(())
}

/// Makes a session of this name that is not kept yet.
pub fn session(id: &SessionId) -> AgentSession {
    let now = SlowClock::default().now();
    let definition = AgentDefinition::new("survivor", "survives", "You survive.");
    SessionFactory::new().create_from(definition, AgentState::new(), id.clone(), now)
}

impl Decision {
    fn resolution(self) -> ApprovalDecision {
        match self {
            Self::Retry => ApprovalDecision::Approve,
            Self::Skip => ApprovalDecision::Deny { reason: "left out".to_owned() },
            Self::Done => ApprovalDecision::Answer(ToolOutput::text("was done")),
        }
    }
}

/// Reads the version and appends a mark on it, again and again, until so many marks were taken.
async fn race(
    store: &dyn SessionStore,
    id: &SessionId,
    by: &str,
    marks: u64,
    ledger: &Ledger,
) -> Result<(), Failure> {
    let mut taken = 0;
    while taken < marks {
        let header = store.header(id).await?.ok_or_else(|| StoreError::NotFound(id.clone()))?;
        let changes = [mark(by, taken)];
        let now = SlowClock::default().now();
        let batch = ChangeBatch { first: header.length, changes: &changes };
        match store.append(AppendRequest::new(id, header.version, batch, now)).await {
            Ok(version) => {
                ledger.note(&Entry::Won { by: by.to_owned(), version });
                taken += 1;
            }
            Err(StoreError::Conflict { .. }) => {}
            Err(StoreError::NotFound(_)) => {
                ledger.note(&Entry::Gone { by: by.to_owned() });
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn mark(by: &str, number: u64) -> ChangeRecord {
    let message = Message::user(format!("{by} {number}"));
    let edit = Edit::Append { section: SectionName::MESSAGES.into(), message };
    let at = SlowClock::default().now();
    ChangeRecord { at, change: Change::StateEdited { by: "race".into(), edit } }
}

fn chain(error: &(dyn Error + 'static)) -> Vec<String> {
    let mut chain = vec![error.to_string()];
    let mut next = error.source();
    while let Some(error) = next {
        chain.push(error.to_string());
        next = error.source();
    }
    chain
}
