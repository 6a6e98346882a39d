//! The history of a session, derived from its changes.

use loopwright_core::{
    ApprovalDecision, Arguments, Change, ChangeRecord, Edit, ExecutionStatus, PendingApproval,
    Spend, Timestamp, ToolOutcome, ToolPause,
    messages::{Message, Role, SectionName},
};
use serde::Serialize;
use serde_json::Value;

use crate::render::failure;
use crate::report::Tokens;

/// What happened in a session, in its order.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SessionHistory {
    /// What happened.
    pub entries: Vec<HistoryEvent>,
}

/// Something that happened, and its moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HistoryEvent {
    /// The number of the change, counted from zero.
    #[serde(skip)]
    pub change: u64,
    /// When.
    pub at: Timestamp,
    /// What.
    #[serde(flatten)]
    pub entry: HistoryEntry,
}

/// Something that happened. Steps are counted from one over all runs, as `rewind` and `fork` count
/// them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum HistoryEntry {
    /// Something was said.
    Said {
        /// By whom.
        role: &'static str,
        /// The words.
        text: String,
    },
    /// A run began.
    Began {
        /// Its number, counted from one.
        run: u64,
    },
    /// A run resumed.
    Resumed,
    /// The model answered.
    Answered {
        /// The step.
        step: u64,
        /// The words.
        text: String,
        /// Who, as `provider/model`.
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// A call has ended.
    Called {
        /// The step.
        step: u64,
        /// The call's position.
        call: u16,
        /// The tool.
        tool: String,
        /// What it was given.
        arguments: Value,
        /// Whether it answered.
        success: bool,
        /// Why it failed although it answered, such as `exit 3`.
        #[serde(skip_serializing_if = "Option::is_none")]
        failure: Option<String>,
        /// What it answered, or what went wrong.
        output: String,
    },
    /// A call waits for a decision.
    Asked {
        /// The step.
        step: u64,
        /// The call's position.
        call: u16,
        /// Where the call is found below it, as in `0.2`, if a sub-agent asks; else the position.
        address: String,
        /// The tool.
        tool: String,
        /// What has to be decided.
        question: String,
    },
    /// A user decided about a call.
    Decided {
        /// The call's position.
        call: u16,
        /// As of the question.
        address: String,
        /// What.
        decision: &'static str,
    },
    /// A step has ended.
    Step {
        /// Its number.
        step: u64,
        /// Tokens.
        usage: Tokens,
        /// Money, if prices are known.
        #[serde(skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
        /// How long it took.
        duration_ms: u64,
        /// Why there is no answer, if there is none.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// Something was changed.
    Changed {
        /// What, in words.
        what: String,
    },
    /// A run waits for decisions.
    Paused,
    /// A run has ended.
    Ended {
        /// `completed`, `stopped` or `failed`.
        status: &'static str,
        /// Why, if it did not end by itself.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

/// Where the telling is.
#[derive(Default)]
struct HistoryBuilder {
    steps: u64,
    runs: u64,
    calls: Vec<(String, Value)>,
    spend: Spend,
    /// Whether a step is open. What is said meanwhile follows it in the conversation.
    is_open: bool,
    /// What was said since the open step began.
    held: Vec<HistoryEvent>,
}

impl SessionHistory {
    /// Tells what changes say.
    pub fn of(changes: &[ChangeRecord]) -> Self {
        let (mut teller, mut entries) = (HistoryBuilder::default(), Vec::new());
        for (number, ChangeRecord { at, change }) in (0..).zip(changes) {
            let was_open = teller.is_open;
            teller.is_open = is_open_after(change, was_open);
            let event =
                teller.tell(change).map(|entry| HistoryEvent { change: number, at: *at, entry });
            match event {
                Some(said @ HistoryEvent { entry: HistoryEntry::Said { .. }, .. }) if was_open => {
                    teller.held.push(said);
                }
                Some(end @ HistoryEvent { entry: HistoryEntry::Ended { .. }, .. }) => {
                    entries.append(&mut teller.held);
                    entries.push(end);
                }
                event => {
                    entries.extend(event);
                    if !teller.is_open {
                        entries.append(&mut teller.held);
                    }
                }
            }
        }
        entries.append(&mut teller.held);
        Self { entries }
    }
}

/// Returns `true` if a step is open after a change.
fn is_open_after(change: &Change, was_open: bool) -> bool {
    match change {
        Change::StepStarted { .. } | Change::ModelResponded(_) => true,
        Change::StepCompleted { .. }
        | Change::StepFailed { .. }
        | Change::AnswerInterrupted { .. }
        | Change::ExecutionStarted { .. }
        | Change::ExecutionEnded(_)
        | Change::ExecutionCleared => false,
        _ => was_open,
    }
}

impl HistoryBuilder {
    fn tell(&mut self, change: &Change) -> Option<HistoryEntry> {
        Some(match change {
            Change::ExecutionStarted { .. } => {
                self.runs += 1;
                HistoryEntry::Began { run: self.runs }
            }
            Change::ExecutionResumed => HistoryEntry::Resumed,
            Change::ModelResponded(thought) => {
                self.spend += thought.spend;
                let call = |it: &loopwright_core::messages::ToolCall| {
                    (it.name.to_string(), value(&it.arguments))
                };
                self.calls = thought.message.tool_calls().map(call).collect();
                let origin = thought.message.origin();
                HistoryEntry::Answered {
                    step: self.steps + 1,
                    text: thought.message.text(),
                    model: origin.map(|it| format!("{}/{}", it.provider, it.model)),
                }
            }
            Change::AnswerInterrupted { message } => {
                HistoryEntry::Answered { step: self.steps + 1, text: message.text(), model: None }
            }
            Change::ApprovalRequested { call, question, arguments } => {
                if let Some(arguments) = arguments {
                    self.set_arguments(*call, arguments);
                }
                HistoryEntry::Asked {
                    step: self.steps + 1,
                    call: *call,
                    address: call.to_string(),
                    tool: self.call(*call).0,
                    question: question.text.clone(),
                }
            }
            Change::AnswerRequested { call, pause, .. } => self.asked(*call, pause)?,
            Change::ToolCallStarted { call, arguments, .. } => {
                self.set_arguments(*call, arguments);
                return None;
            }
            Change::ToolCallCompleted { call, outcome, spend, .. } => {
                self.spend += *spend;
                let (tool, arguments) = self.call(*call);
                let output = match &**outcome {
                    ToolOutcome::Returned(output) => output.to_text(),
                    other => other.error_message(),
                };
                let (step, call) = (self.steps + 1, *call);
                let (success, failure) = (!outcome.is_error(), failure(outcome));
                HistoryEntry::Called { step, call, tool, arguments, success, failure, output }
            }
            Change::SpendRecorded(spend) => {
                self.spend += *spend;
                return None;
            }
            Change::StepCompleted { duration } => self.step(*duration, None),
            Change::StepFailed { failure, spend, duration } => {
                self.spend += *spend;
                self.step(*duration, Some(failure.to_string()))
            }
            Change::MessageSteered(message) => said(message)?,
            Change::StateEdited { edit, .. } => return edited(edit),
            Change::StopRaised(signal) => {
                HistoryEntry::Changed { what: format!("stop requested: {}", signal.message) }
            }
            Change::ExecutionPaused => HistoryEntry::Paused,
            Change::ExecutionEnded(status) => HistoryEntry::Ended {
                status: status.as_str(),
                reason: match status {
                    ExecutionStatus::Stopped(signal) => Some(signal.message.clone()),
                    ExecutionStatus::Failed(failure) => Some(failure.to_string()),
                    _ => None,
                },
            },
            Change::ExecutionCleared => {
                HistoryEntry::Changed { what: "the run was abandoned".to_owned() }
            }
            _ => return None,
        })
    }

    /// Tells the first of the things that a call asks in its middle; `sessions show` lists all that wait.
    fn asked(&self, call: u16, pause: &ToolPause) -> Option<HistoryEntry> {
        let request = pause.requests.first()?;
        let path: Vec<u16> =
            [call].into_iter().chain(request.path().iter().map(|it| it.call)).collect();
        let own = || self.call(call).0;
        Some(HistoryEntry::Asked {
            step: self.steps + 1,
            call,
            address: PendingApproval::format_address(&path),
            tool: request.call().map_or_else(own, |it| it.name.to_string()),
            question: request.question().text.clone(),
        })
    }

    fn step(&mut self, duration: std::time::Duration, error: Option<String>) -> HistoryEntry {
        self.steps += 1;
        self.calls.clear();
        let spend = std::mem::take(&mut self.spend);
        HistoryEntry::Step {
            step: self.steps,
            usage: spend.usage.into(),
            cost_usd: Some(spend.cost.dollars()).filter(|it| *it > 0.0),
            duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            error,
        }
    }

    /// Sets the arguments of a call that hooks or the user changed.
    fn set_arguments(&mut self, call: u16, arguments: &Arguments) {
        if let Some(known) = self.calls.get_mut(usize::from(call)) {
            known.1 = value(arguments.as_str());
        }
    }

    fn call(&self, call: u16) -> (String, Value) {
        let unknown = || ("?".to_owned(), Value::Null);
        self.calls.get(usize::from(call)).cloned().unwrap_or_else(unknown)
    }
}

fn edited(edit: &Edit) -> Option<HistoryEntry> {
    let what = match edit {
        Edit::Append { message, .. } => return said(message),
        // What else happens to the sections is told of by the one that is summed up in.
        Edit::Replace { section, .. } if section.as_str() == SectionName::BUFFER => return None,
        Edit::Replace { section, turns, .. } if section.as_str() == SectionName::SUMMARY => {
            if turns.is_empty() {
                return None;
            }
            "older messages were summarized".to_owned()
        }
        Edit::Replace { turns, .. } if turns.is_empty() => {
            "the conversation was cleared".to_owned()
        }
        Edit::Replace { turns, .. } => {
            format!("conversation replaced by {} turns", turns.len())
        }
        Edit::Resolve { call, resolution } => return decided(&[*call], resolution),
        Edit::ResolveNested { path, resolution } => return decided(path, resolution),
        Edit::SystemPrompt(Some(_)) => "the instructions were changed".to_owned(),
        Edit::SystemPrompt(None) => "the instructions were removed".to_owned(),
        Edit::Llm(Some(llm)) => {
            let parts = [&llm.provider, &llm.model];
            let name: Vec<&str> = parts.into_iter().flatten().map(|it| &**it).collect();
            format!("model {}", name.join("/"))
        }
        _ => return None,
    };
    Some(HistoryEntry::Changed { what })
}

fn decided(path: &[u16], decision: &ApprovalDecision) -> Option<HistoryEntry> {
    let decision = match decision {
        ApprovalDecision::Approve => "run it",
        ApprovalDecision::ApproveWith { .. } => "run it with different arguments",
        ApprovalDecision::Deny { .. } => "do not run it",
        ApprovalDecision::Reply(_) => "continue with the answer",
        ApprovalDecision::Cancel => "leave the question unanswered",
        _ => "it was done",
    };
    let address = PendingApproval::format_address(path);
    Some(HistoryEntry::Decided { call: *path.first()?, address, decision })
}

fn said(message: &Message) -> Option<HistoryEntry> {
    let role = match message.role() {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::System => "system",
        Role::Developer => "developer",
    };
    Some(HistoryEntry::Said { role, text: message.text() }).filter(|_| !message.is_empty())
}

/// What is no JSON is kept as the text that it is.
fn value(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_else(|_| Value::String(json.to_owned()))
}
