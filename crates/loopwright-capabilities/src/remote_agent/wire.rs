//! The messages of A2A 1.0, as far as they are read.

use std::fmt::Write as _;

use loopwright_core::{
    Spend,
    messages::{Cost, Usage},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The card of an agent.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Card {
    #[serde(default)]
    pub(super) supported_interfaces: Vec<Interface>,
    #[serde(default)]
    pub(super) capabilities: Capabilities,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Capabilities {
    pub(super) streaming: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Interface {
    pub(super) url: String,
    pub(super) protocol_binding: String,
    pub(super) protocol_version: String,
    #[serde(default)]
    pub(super) tenant: String,
}

/// The answer to a message: a task, or a message if there is nothing to follow.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Sent {
    Task(Task),
    Message(Message),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Task {
    pub(super) id: String,
    #[serde(default)]
    pub(super) context_id: String,
    #[serde(default)]
    pub(super) status: Status,
    #[serde(default)]
    artifacts: Vec<Artifact>,
    #[serde(default)]
    metadata: Option<Metadata>,
}

/// The part of the metadata that servers of Loopwright add.
#[derive(Debug, Deserialize)]
struct Metadata {
    #[serde(default, rename = "loopwright/usage")]
    usage: Option<ReportedUsage>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ReportedUsage {
    input_tokens: u64,
    output_tokens: u64,
    cached_input_tokens: u64,
    reasoning_tokens: u64,
    cost_usd: f64,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Status {
    #[serde(default)]
    pub(super) state: TaskState,
    #[serde(default)]
    message: Option<Message>,
}

/// The state of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "&'static str")]
pub(super) enum TaskState {
    /// Submitted, working, or unknown here.
    #[default]
    Working,
    InputRequired,
    AuthRequired,
    Completed,
    Failed,
    Canceled,
    Rejected,
}

impl TaskState {
    const ALL: [Self; 7] = [
        Self::Working,
        Self::InputRequired,
        Self::AuthRequired,
        Self::Completed,
        Self::Failed,
        Self::Canceled,
        Self::Rejected,
    ];
}

impl From<TaskState> for &'static str {
    fn from(state: TaskState) -> Self {
        match state {
            TaskState::Working => "TASK_STATE_WORKING",
            TaskState::InputRequired => "TASK_STATE_INPUT_REQUIRED",
            TaskState::AuthRequired => "TASK_STATE_AUTH_REQUIRED",
            TaskState::Completed => "TASK_STATE_COMPLETED",
            TaskState::Failed => "TASK_STATE_FAILED",
            TaskState::Canceled => "TASK_STATE_CANCELED",
            TaskState::Rejected => "TASK_STATE_REJECTED",
        }
    }
}

impl From<String> for TaskState {
    fn from(name: String) -> Self {
        Self::ALL.into_iter().find(|it| <&str>::from(*it) == name).unwrap_or_default()
    }
}

#[derive(Debug, Deserialize)]
struct Artifact {
    #[serde(default)]
    name: String,
    #[serde(default)]
    parts: Vec<Part>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Message {
    pub(super) context_id: String,
    parts: Vec<Part>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Part {
    text: Option<String>,
    data: Option<Value>,
    url: Option<String>,
    raw: Option<String>,
    media_type: String,
    filename: String,
}

/// An event of a task that is followed.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum TaskEvent {
    Task(Task),
    StatusUpdate(StatusUpdate),
    #[serde(untagged)]
    Other(serde::de::IgnoredAny),
}

#[derive(Debug, Deserialize)]
pub(super) struct StatusUpdate {
    #[serde(default)]
    pub(super) status: Status,
}

impl TaskEvent {
    /// Returns `true` if the task does not work any more.
    pub(super) fn is_pause_or_end(&self) -> bool {
        match self {
            Self::Task(task) => task.status.state != TaskState::Working,
            Self::StatusUpdate(update) => update.status.state != TaskState::Working,
            Self::Other(_) => false,
        }
    }
}

impl Task {
    /// Returns what the task consumed, as far as the remote agent reports it.
    pub(super) fn spend(&self) -> Spend {
        let reported = self.metadata.as_ref().and_then(|it| it.usage).unwrap_or_default();
        let usage = Usage {
            input: reported.input_tokens,
            output: reported.output_tokens,
            cache_read: reported.cached_input_tokens,
            reasoning: reported.reasoning_tokens,
            ..Usage::default()
        };
        Spend { usage, cost: Cost::from_dollars(reported.cost_usd) }
    }

    /// Returns `true` if the task does not continue.
    pub(super) fn has_ended(&self) -> bool {
        use TaskState::{Canceled, Completed, Failed, Rejected};
        matches!(self.status.state, Completed | Failed | Canceled | Rejected)
    }

    /// Returns the text of its artifacts if it is completed, and what its status says otherwise.
    pub(super) fn text(&self) -> String {
        let said = self.status.message.as_ref().map(Message::text).unwrap_or_default();
        if self.status.state != TaskState::Completed {
            return said;
        }
        let mut texts: Vec<String> = self.artifacts.iter().map(Artifact::text).collect();
        texts.retain(|it| !it.is_empty());
        if texts.is_empty() { said } else { texts.join("\n\n") }
    }
}

impl Artifact {
    fn text(&self) -> String {
        let text = text(&self.parts);
        let is_plain = self.parts.iter().all(|it| it.text.is_some());
        if self.name.is_empty() || is_plain { text } else { format!("{}:\n{text}", self.name) }
    }
}

impl Message {
    /// Returns the text for a reader. Data beside it repeats what it says, for programs.
    pub(super) fn text(&self) -> String {
        let said: Vec<&str> = self.parts.iter().filter_map(|it| it.text.as_deref()).collect();
        if said.is_empty() { text(&self.parts) } else { said.join("\n").trim().to_owned() }
    }
}

fn text(parts: &[Part]) -> String {
    let mut texts = Vec::new();
    for part in parts {
        let name = if part.filename.is_empty() { "file" } else { &part.filename };
        let kind = if part.media_type.is_empty() { "unknown type" } else { &part.media_type };
        let mut text = String::new();
        // Writing to a string does not fail.
        let _written = match part {
            Part { text: Some(it), .. } => write!(text, "{it}"),
            Part { data: Some(it), .. } => write!(text, "{it}"),
            Part { url: Some(it), .. } => write!(text, "[{name}, {kind}: {it}]"),
            Part { raw: Some(it), .. } => {
                write!(text, "[{name}, {kind}, about {} bytes; not shown]", it.len() / 4 * 3)
            }
            _ => Ok(()),
        };
        texts.push(text);
    }
    texts.retain(|it| !it.is_empty());
    texts.join("\n").trim().to_owned()
}
