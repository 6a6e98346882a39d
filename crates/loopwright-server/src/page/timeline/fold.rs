//! Runs and their steps, built from the changes of a session.

use std::time::Duration;

use loopwright_core::{
    Change, ChangeRecord, Edit, ExecutionStatus, Spend, StepResponse, Timestamp, ToolOutcome,
    messages::{Message, Role, ToolCall},
};

use crate::page::turns::one_line;

/// A run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Run {
    /// Its number, counted from one.
    pub(crate) number: u64,
    /// The start of the user's message.
    pub(crate) input: Option<String>,
    pub(crate) started_at: Timestamp,
    /// The time and the kind of its end.
    pub(crate) ended: Option<(Timestamp, String)>,
    pub(crate) steps: Vec<StepLine>,
}

/// A step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StepLine {
    /// Its number over all runs, as forks and rewinds count.
    pub(crate) number: u64,
    pub(crate) started_at: Timestamp,
    pub(crate) duration: Duration,
    /// Whether it is still running.
    pub(crate) is_open: bool,
    /// Provider and model.
    pub(crate) model: Option<String>,
    pub(crate) spend: Spend,
    /// The start of the model's response.
    pub(crate) text: String,
    pub(crate) calls: Vec<CallLine>,
    pub(crate) failure: Option<String>,
}

impl StepLine {
    fn respond(&mut self, response: &StepResponse) {
        let message = &response.message;
        self.spend += response.spend;
        self.text = one_line(message.text().trim());
        self.model = message.origin().map(|it| format!("{}/{}", it.provider, it.model));
        let call = |it: &ToolCall| CallLine {
            tool: it.name.to_string(),
            arguments: one_line(&it.arguments),
            state: "called",
            started_at: None,
            duration: None,
        };
        self.calls = message.tool_calls().map(call).collect();
    }
}

/// A call of a step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CallLine {
    pub(crate) tool: String,
    /// The start of the arguments.
    pub(crate) arguments: String,
    /// `called`, `running`, `waiting`, `done` or `failed`.
    pub(crate) state: &'static str,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) duration: Option<Duration>,
}

/// Returns the runs that the changes describe.
pub(crate) fn runs(changes: &[ChangeRecord]) -> Vec<Run> {
    let mut runs = Runs::default();
    for ChangeRecord { at, change } in changes {
        runs.take(*at, change);
    }
    runs.end_step(None);
    runs.all
}

#[derive(Default)]
struct Runs {
    all: Vec<Run>,
    steps: u64,
    open: Option<StepLine>,
    /// The user's messages since the start of the last run.
    input: Option<String>,
}

impl Runs {
    fn take(&mut self, at: Timestamp, change: &Change) {
        match change {
            Change::ExecutionStarted { .. } => {
                self.end_step(None);
                let number = self.all.len() as u64 + 1;
                let input = self.input.take();
                self.all.push(Run {
                    number,
                    input,
                    started_at: at,
                    ended: None,
                    steps: Vec::new(),
                });
            }
            Change::ExecutionResumed => {
                if let Some(run) = self.all.last_mut() {
                    run.ended = None;
                }
            }
            Change::StepStarted { .. } => self.start_step(at),
            Change::ModelResponded(response) => {
                self.step(at).respond(response);
            }
            Change::AnswerInterrupted { message } => {
                self.step(at).text = one_line(message.text().trim());
                self.end_step(Some(at));
            }
            Change::ApprovalRequested { call, arguments, .. } => {
                let arguments = arguments.as_ref().map(|it| one_line(it.as_str()));
                self.set(at, *call, |it| {
                    it.state = "waiting";
                    it.arguments = arguments.unwrap_or_else(|| std::mem::take(&mut it.arguments));
                });
            }
            Change::AnswerRequested { call, .. } => self.set(at, *call, |it| it.state = "waiting"),
            Change::ToolCallStarted { call, arguments, .. } => {
                let arguments = one_line(arguments.as_str());
                self.set(at, *call, |it| {
                    (it.state, it.arguments, it.started_at) = ("running", arguments, Some(at));
                });
            }
            Change::ToolCallCompleted { call, outcome, spend, started_at } => {
                self.step(at).spend += *spend;
                let is_done = matches!(**outcome, ToolOutcome::Returned(_)) && !outcome.is_error();
                self.set(at, *call, |it| {
                    it.state = if is_done { "done" } else { "failed" };
                    it.duration = super::between(started_at.or(it.started_at), at);
                });
            }
            Change::SpendRecorded(spend) => {
                if let Some(step) = &mut self.open {
                    step.spend += *spend;
                }
            }
            Change::StepCompleted { duration } => {
                self.step(at).duration = *duration;
                self.end_step(Some(at));
            }
            Change::StepFailed { failure, spend, duration } => {
                let step = self.step(at);
                step.spend += *spend;
                (step.duration, step.failure) = (*duration, Some(failure.to_string()));
                self.end_step(Some(at));
            }
            Change::MessageSteered(message)
            | Change::StateEdited { edit: Edit::Append { message, .. }, .. } => self.said(message),
            Change::ExecutionPaused => self.end(at, "waiting".to_owned()),
            Change::ExecutionEnded(status) => {
                let words = match status {
                    ExecutionStatus::Stopped(signal) => format!("stopped: {}", signal.message),
                    ExecutionStatus::Failed(failure) => format!("failed: {failure}"),
                    other => other.as_str().to_owned(),
                };
                self.end(at, words);
            }
            _ => {}
        }
    }

    fn said(&mut self, message: &Message) {
        if message.role() == Role::User {
            self.input = Some(one_line(message.text().trim()));
        }
    }

    fn start_step(&mut self, at: Timestamp) {
        if self.open.is_none() {
            self.steps += 1;
            self.open = Some(StepLine {
                number: self.steps,
                started_at: at,
                duration: Duration::ZERO,
                is_open: true,
                model: None,
                spend: Spend::default(),
                text: String::new(),
                calls: Vec::new(),
                failure: None,
            });
        }
    }

    fn step(&mut self, at: Timestamp) -> &mut StepLine {
        self.start_step(at);
        match &mut self.open {
            Some(step) => step,
            None => unreachable!("a step was just started"),
        }
    }

    fn set(&mut self, at: Timestamp, call: u16, change: impl FnOnce(&mut CallLine)) {
        if let Some(call) = self.step(at).calls.get_mut(usize::from(call)) {
            change(call);
        }
    }

    /// Adds the open step to its run. `None` means that it has not ended.
    fn end_step(&mut self, at: Option<Timestamp>) {
        let Some(mut step) = self.open.take() else { return };
        step.is_open = at.is_none();
        if let Some(run) = self.all.last_mut() {
            run.steps.push(step);
        }
    }

    fn end(&mut self, at: Timestamp, words: String) {
        if let Some(run) = self.all.last_mut() {
            run.ended = Some((at, words));
        }
    }
}
