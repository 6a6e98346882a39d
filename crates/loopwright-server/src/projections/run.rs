//! The events of one run, in any process.

use std::{collections::VecDeque, pin::pin, sync::Arc, time::Duration};

use futures::future::{Either, select};
use loopwright_core::messages::Usage;
use loopwright_sessions::{
    AgentSession, EventFollower, FollowEvent, JobId, JobRecord, JobStatus, SessionId, SessionLog,
    SessionStore, StoreError,
};
use serde::Deserialize;

use super::client_tools::{ClientCall, waiting};
use crate::{problem::Problem, server::Server, views::PendingView};

/// How long the log is waited for before it is looked whether the run has ended in another way: at first, and at most.
const LOOKS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// How often it is looked whether the job of a completed run has ended.
const SETTLES: u32 = 200;

/// Something that happened in a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RunEvent {
    /// A step began.
    StepStarted(u64),
    /// A fragment of the text of a step.
    Text(String),
    /// The text of a step is complete.
    TextEnded,
    /// A tool is called.
    ToolStarted { id: String, name: String, arguments: String },
    /// A tool call has ended.
    ToolEnded { id: String, is_error: bool, result: String },
    /// A step has ended.
    StepEnded(u64),
    /// The run has ended.
    Ended(RunEnd),
}

/// What a follower sees.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Followed {
    Event(RunEvent),
    /// Nothing happened for a while.
    Nothing,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RunEnd {
    pub(crate) outcome: RunOutcome,
    /// The calls that wait for results of the client.
    pub(crate) calls: Vec<ClientCall>,
    /// What the run consumed.
    pub(crate) usage: Usage,
}

/// What became of a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RunOutcome {
    /// The agent answered.
    Completed,
    /// Calls wait for decisions.
    NeedsInput(Vec<PendingView>),
    /// A limit or a user stopped it.
    Stopped(String),
    /// It failed.
    Failed(String),
}

/// Follows one run.
pub(crate) struct RunFollower {
    server: Server,
    run: JobId,
    follower: EventFollower,
    waiting: VecDeque<RunEvent>,
    /// Whether text of the current step was sent.
    has_text: bool,
    /// Whether a step began.
    has_step: bool,
    /// The calls that wait for results of the client.
    calls: Vec<ClientCall>,
    usage: Usage,
    looks: Duration,
    /// How long nothing was recorded.
    quiet: Duration,
    has_ended: bool,
}

/// What is read of envelopes.
#[derive(Deserialize)]
struct Envelope {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    parent_agent_id: Option<String>,
    payload: Payload,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Payload {
    status: String,
    step_number: u64,
    content: String,
    is_complete: bool,
    tool_name: String,
    tool_call_id: String,
    args_summary: String,
    success: bool,
    error: Option<String>,
    result_summary: Option<String>,
    usage: Usage,
}

/// Returns the number of the last event of a session.
pub(crate) async fn last_event(
    store: &dyn SessionStore,
    session: &SessionId,
) -> Result<u64, StoreError> {
    // A log is read forward only, and may be long: its end is searched for.
    let next = async |after: u64| {
        let next = store.read_log(session, SessionLog::Events, after, 1).await?;
        Ok::<_, StoreError>(next.first().map(|it| it.number))
    };
    let (mut low, mut step) = (0, 1_u64);
    let mut high = loop {
        let far = low + step;
        let Some(found) = next(far).await? else { break far };
        (low, step) = (found, step * 2);
    };
    while low < high {
        let middle = low + (high - low) / 2;
        match next(middle).await? {
            Some(found) => low = found,
            None => high = middle,
        }
    }
    Ok(low)
}

impl RunFollower {
    /// Follows a run, which was queued after the event of this number.
    pub(crate) async fn of(server: &Server, run: &JobRecord, after: u64) -> Result<Self, Problem> {
        let (store, clock) = (Arc::clone(server.store()), Arc::clone(server.clock()));
        let follower = EventFollower::of(store, clock, run.job.session.clone(), after).await?;
        Ok(Self {
            server: server.clone(),
            run: run.job.id.clone(),
            follower,
            waiting: VecDeque::new(),
            has_text: false,
            has_step: false,
            calls: Vec::new(),
            usage: Usage::default(),
            looks: LOOKS.0,
            quiet: Duration::ZERO,
            has_ended: false,
        })
    }

    pub(crate) fn session(&self) -> &SessionId {
        self.follower.id()
    }

    /// Returns the interval of comments in a stream.
    pub(crate) fn heartbeat(&self) -> Duration {
        self.server.streams().heartbeat()
    }

    /// Returns the next event; `None` after the last one.
    pub(crate) async fn next(&mut self) -> Option<RunEvent> {
        loop {
            if let Followed::Event(event) = self.next_within(Duration::MAX).await? {
                return Some(event);
            }
        }
    }

    /// Returns the next event, or that there was none for this long; `None` after the last event.
    pub(crate) async fn next_within(&mut self, time: Duration) -> Option<Followed> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Some(Followed::Event(event));
            }
            if self.has_ended {
                return None;
            }
            if let Err(problem) = self.read().await {
                self.end(RunOutcome::Failed(problem.text().to_owned()));
            }
            if self.waiting.is_empty() && self.quiet >= time {
                self.quiet = Duration::ZERO;
                return Some(Followed::Nothing);
            }
        }
    }

    async fn read(&mut self) -> Result<(), Problem> {
        let drain = self.server.drain().clone();
        let next = {
            let (ended, read) = (pin!(drain.cancelled()), pin!(self.follower.next(self.looks)));
            match select(ended, read).await {
                Either::Left(_) => return Err(Problem::unavailable("the server is shutting down")),
                Either::Right((next, _)) => next?,
            }
        };
        let next = match next {
            // Something else ran before: this run is about to begin, to be tried again, or over.
            FollowEvent::Ended if self.look().await? => return Ok(()),
            FollowEvent::Ended => self.follower.next_run(self.looks).await?,
            next => next,
        };
        match next {
            FollowEvent::Entry(entry) => {
                (self.looks, self.quiet) = (LOOKS.0, Duration::ZERO);
                if let Ok(envelope) = serde_json::from_slice::<Envelope>(&entry.body) {
                    self.take(envelope).await?;
                }
            }
            FollowEvent::Timeout | FollowEvent::Ended => {
                self.quiet += self.looks;
                self.looks = (self.looks * 2).min(LOOKS.1);
                self.look().await?;
            }
        }
        Ok(())
    }

    async fn take(&mut self, envelope: Envelope) -> Result<(), Problem> {
        // What sub-agents do is part of the call that runs them.
        if envelope.parent_agent_id.is_some() {
            return Ok(());
        }
        let payload = envelope.payload;
        match &*envelope.kind {
            "agent.step.started" => {
                (self.has_text, self.has_step) = (false, true);
                self.waiting.push_back(RunEvent::StepStarted(payload.step_number));
            }
            "agent.stream.chunk" if payload.is_complete => {
                self.waiting.push_back(RunEvent::TextEnded);
            }
            "agent.stream.chunk" => {
                self.has_text = true;
                self.waiting.push_back(RunEvent::Text(payload.content));
            }
            "agent.tool.started" => self.waiting.push_back(RunEvent::ToolStarted {
                id: payload.tool_call_id,
                name: payload.tool_name,
                arguments: payload.args_summary,
            }),
            "agent.tool.completed" => self.waiting.push_back(RunEvent::ToolEnded {
                id: payload.tool_call_id,
                is_error: !payload.success,
                result: payload.error.or(payload.result_summary).unwrap_or_default(),
            }),
            "agent.step.completed" => {
                self.usage += payload.usage;
                self.waiting.push_back(RunEvent::StepEnded(payload.step_number));
            }
            // Another try may follow a failure: the job says whether it does.
            "agent.status" if payload.status == "completed" => self.settle().await?,
            _ => {}
        }
        Ok(())
    }

    /// Ends it once its job has ended, so that the session takes another message then. A worker that was killed in between
    /// does not keep the end back.
    async fn settle(&mut self) -> Result<(), Problem> {
        for _ in 0..SETTLES {
            if self.look().await? {
                return Ok(());
            }
            self.server.clock().sleep(LOOKS.0).await;
        }
        self.complete().await
    }

    /// Looks whether the run has ended, and returns `true` if it has.
    async fn look(&mut self) -> Result<bool, Problem> {
        let record = self.server.queue()?.job(&self.run).await?;
        let Some(record) = record else {
            self.end(RunOutcome::Failed("the run was deleted".to_owned()));
            return Ok(true);
        };
        let reason = || record.reason.as_deref().unwrap_or("no reason given").to_owned();
        match record.status {
            JobStatus::Queued | JobStatus::Running => return Ok(false),
            JobStatus::Completed => self.complete().await?,
            JobStatus::Stopped => self.end(RunOutcome::Stopped(reason())),
            JobStatus::Failed => self.end(RunOutcome::Failed(reason())),
            JobStatus::NeedsInput => {
                let session = self.load().await?;
                // What was said before a pause that was answered is not said again.
                if self.has_step {
                    self.say_missed(&session);
                }
                self.calls = waiting(&session).into_iter().map(|it| it.1).collect();
                self.end(RunOutcome::NeedsInput(PendingView::list(&session)));
            }
        }
        Ok(true)
    }

    async fn load(&self) -> Result<AgentSession, Problem> {
        Ok(self.server.runtime().session(self.session()).await?)
    }

    /// Ends it with its answer, which was not told in fragments if the model does not stream.
    async fn complete(&mut self) -> Result<(), Problem> {
        if !self.has_text {
            let session = self.load().await?;
            self.say_missed(&session);
        }
        self.end(RunOutcome::Completed);
        Ok(())
    }

    /// Adds the text of the current step if no fragments of it were sent.
    fn say_missed(&mut self, session: &AgentSession) {
        let text = session.state().text();
        if !self.has_text && !text.is_empty() {
            self.waiting.push_back(RunEvent::Text(text));
            self.waiting.push_back(RunEvent::TextEnded);
        }
    }

    fn end(&mut self, outcome: RunOutcome) {
        self.has_ended = true;
        let (usage, calls) = (self.usage, std::mem::take(&mut self.calls));
        self.waiting.push_back(RunEvent::Ended(RunEnd { outcome, calls, usage }));
    }
}
