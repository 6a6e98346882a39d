//! Calls of a server of the Model Context Protocol, one of which waits for the user, and one for the agent's model, which
//! the user has to allow: the process of the run is killed at every write, before and after it, and at every call, when
//! the server has its request and when it has taken effect. Every sum is paid, none twice, and the user and the model are
//! asked once, but for calls that a kill interrupted: whether these took effect is asked, and the user looks.

use std::{collections::BTreeSet, fs::File, sync::Arc};

use loopwright_core::{AgentState, ApprovalDecision, ExecutionStatus, PendingApproval, ToolOutput};
use loopwright_sessions::{SessionId, SessionRepository, SessionStore};
use loopwright_survival::{
    bank::{KillAtCall, SUMS, sum_of},
    ledger::Entry,
    open::open,
    task::{Fault, Side, Task, Visit, What, Work},
};
use serde_json::json;
use tokio::runtime::Builder;

use crate::{
    numbers::is_long,
    places::{Place, on_every_store},
    workers::{Notes, was_killed},
};

/// The process that is killed, and where.
#[derive(Clone, Copy, Debug)]
struct Kill {
    process: u64,
    at: At,
}

/// An instant within a process.
#[derive(Clone, Copy, Debug)]
enum At {
    Write(u64, Side),
    Call(u64, Side),
}

/// One run with all its processes, one of which is killed.
struct Case<'p> {
    place: &'p Place,
    id: SessionId,
    notes: Notes,
    kill: Option<Kill>,
    started: u64,
    is_killed: bool,
    /// The sums whose question the user has answered, and those whose call was interrupted.
    answered: BTreeSet<u64>,
    interrupted: BTreeSet<u64>,
}

impl<'p> Case<'p> {
    fn new(place: &'p Place, name: &str, kill: Option<Kill>) -> Self {
        let (id, notes) = (SessionId::new(name).unwrap(), Notes::new(place, name));
        let (answered, interrupted) = (BTreeSet::new(), BTreeSet::new());
        Self { place, id, notes, kill, started: 0, is_killed: false, answered, interrupted }
    }

    fn state(&self) -> Option<AgentState> {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store: Arc<dyn SessionStore> = open(self.place.url()).await.unwrap();
            store.header(&self.id).await.unwrap()?;
            let session = SessionRepository::new(store).load(&self.id).await.unwrap();
            Some(session.state().clone())
        })
    }

    /// Returns what happened outside, once all servers have ended.
    fn entries(&self) -> Vec<Entry> {
        let ledger = File::open(self.notes.path()).unwrap();
        ledger.lock().unwrap();
        self.notes.entries()
    }

    fn paid(&self) -> Vec<u64> {
        let sum = |entry| if let Entry::Paid { sum } = entry { Some(sum) } else { None };
        self.entries().into_iter().filter_map(sum).collect()
    }

    /// What is to be done next, as a user would; `None` means that the run has its answer.
    fn next(&mut self, state: Option<&AgentState>) -> Option<Visit> {
        let Some(state) = state else { return Some(Visit::Create) };
        match state.status() {
            ExecutionStatus::Pending => Some(Visit::Send),
            ExecutionStatus::Completed => None,
            ExecutionStatus::Paused => Some(match state.pending().first() {
                Some(first) => self.decide(first),
                None => Visit::Continue,
            }),
            _ => Some(Visit::Continue),
        }
    }

    fn decide(&mut self, asked: &PendingApproval<'_>) -> Visit {
        let sum = sum_of(&asked.call.name).unwrap();
        let decision = if asked.question.is_recovery() {
            self.interrupted.insert(sum);
            if self.paid().contains(&sum) {
                ApprovalDecision::Answer(ToolOutput::text("paid"))
            } else {
                ApprovalDecision::Approve
            }
        } else {
            let is_first = !self.answered.contains(&sum) || self.interrupted.contains(&sum);
            assert!(is_first, "the call of {sum} asks again: {:?}", self.kill);
            let is_of_model = asked.question.text.contains("requests a response from your model");
            assert_eq!(is_of_model, sum == SUMS[2], "{}", asked.question.text);
            let yes = if is_of_model { json!("yes") } else { json!({ "agreed": true }) };
            ApprovalDecision::Reply(yes)
        };
        Visit::Decide { address: asked.address(), decision }
    }

    /// Lets one process do one thing.
    fn process(&mut self, visit: &Visit) {
        self.started += 1;
        let kill = self.kill.filter(|it| it.process == self.started).map(|it| it.at);
        let (mut fault, mut at_call) = (None, None);
        match kill {
            Some(At::Write(write, side)) => fault = Some(Fault { write, side, what: What::Dies }),
            Some(At::Call(call, side)) => at_call = Some(KillAtCall { call, side }),
            None => {}
        }
        let (url, session) = (self.place.url().to_owned(), self.id.to_string());
        let work = Work::Bank { visit: visit.clone(), kill: at_call };
        let status = self.notes.run(&Task { url, session, work, fault });
        self.is_killed |= was_killed(status);
        let is_done = status.success() || was_killed(status);
        assert!(is_done, "{visit:?}: {:?}", self.notes.entries().last());
    }

    /// Lets processes work until the run has its answer.
    fn run(&mut self) {
        let mut state = self.state();
        while let Some(visit) = self.next(state.as_ref()) {
            assert!(self.started < 40, "{visit:?}: {state:?}");
            let asked = state.as_ref().and_then(|it| it.pending().first().map(asked_for));
            self.process(&visit);
            state = self.state();
            // An answer counts as soon as the store has it, whether or not its sender was told.
            if let (Visit::Decide { decision: ApprovalDecision::Reply(_), .. }, Some(sum)) =
                (&visit, asked)
            {
                let waits = state
                    .as_ref()
                    .is_some_and(|it| it.pending().iter().any(|it| asked_for(it) == sum));
                if !waits {
                    self.answered.insert(sum);
                }
            }
        }
        self.check(state.as_ref());
    }

    fn check(&self, state: Option<&AgentState>) {
        let (mut paid, kill) = (self.paid(), self.kill);
        paid.sort_unstable();
        let answer = state.map(AgentState::text);
        assert_eq!((answer.as_deref(), &*paid), (Some("go is done"), &SUMS[..]), "{kill:?}");
        let entries = self.entries();
        let count = |wanted: &Entry| entries.iter().filter(|it| *it == wanted).count();
        let required = |method: &str| count(&Entry::Required { method: method.to_owned() });
        for (sum, asked) in [
            (SUMS[1], required("elicitation/create")),
            (SUMS[2], required("sampling/createMessage")),
            (SUMS[2], count(&Entry::Named)),
        ] {
            let is_interrupted = self.interrupted.contains(&sum);
            let is_right = asked == 1 || is_interrupted && asked <= 2;
            assert!(is_right, "asked {asked} times for {sum}: {kill:?}");
        }
    }
}

/// The sum whose call waits.
fn asked_for(asked: &PendingApproval<'_>) -> u64 {
    sum_of(&asked.call.name).unwrap()
}

/// Without `LOOPWRIGHT_LONG`, databases are tried only before each write, which is after the one before it.
fn killed_at_every_write(place: &Place) {
    let mut whole = Case::new(place, "whole", None);
    whole.run();
    assert!(whole.interrupted.is_empty() && whole.answered.len() == 2, "{:?}", whole.answered);
    let before = |number| At::Write(number, Side::Before);
    let after = |number| At::Write(number, Side::After);
    let received = |number| At::Call(number, Side::Before);
    let served = |number| At::Call(number, Side::After);
    let mut instants: Vec<&dyn Fn(u64) -> At> = vec![&received, &served, &before];
    if is_long() || place.url().starts_with("files:") {
        instants.push(&after);
    }
    let (mut tried, mut at_calls, mut at_writes) = (0, 0, 0);
    for process in 1..=whole.started {
        for instant in &instants {
            for at in (1..).map(instant) {
                let mut case = Case::new(place, &format!("{tried}"), Some(Kill { process, at }));
                tried += 1;
                case.run();
                if !case.is_killed {
                    break;
                }
                match at {
                    At::Call(..) => at_calls += 1,
                    At::Write(..) => at_writes += 1,
                }
            }
        }
    }
    let processes = whole.started;
    println!("killed at {at_writes} writes and {at_calls} calls, of runs of {processes} processes");
    // Each of the five requests for a call, on both sides.
    // Runs ask for control messages only if there have been some, which is no write.
    assert!(at_writes >= 28 && at_calls == 10, "{at_writes} {at_calls}");
}

on_every_store!(killed_at_every_write:
    payments_through_a_server_survive_a_kill_at_every_write_of_files,
    payments_through_a_server_survive_a_kill_at_every_write_of_sqlite,
    payments_through_a_server_survive_a_kill_at_every_write_of_postgres);
