//! Outcomes of tool calls.

use std::{fmt, sync::Arc};

use loopwright_messages::{Message, Part, ToolResult};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    clock::Timestamp,
    failure::Failure,
    file_changes::FilesChanged,
    key::{Key, Namespace, StateKey},
};

/// A tool's output, and its effects on the state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolOutput {
    /// The content that the model sees.
    pub content: Arc<[Part]>,
    /// The value that hooks and programs see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Arc<Value>>,
    /// The effects on the state when the step is recorded, in call order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub state_effects: Vec<StateEffect>,
    /// The files that the call changed.
    #[serde(default, skip_serializing_if = "FilesChanged::is_none")]
    pub files: FilesChanged,
}

/// An effect of a tool on the state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StateEffect {
    /// Sets a value, or removes it.
    Set(StateKey, Option<Value>),
    /// Appends a message after the step.
    Append(Message),
}

impl ToolOutput {
    /// Creates an output from text.
    ///
    /// ```
    /// use loopwright_core::ToolOutput;
    ///
    /// assert_eq!(ToolOutput::text("21 degrees").to_text(), "21 degrees");
    /// ```
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        Self::from_parts([Part::text(text)])
    }

    /// Creates an output from parts.
    pub fn from_parts(content: impl IntoIterator<Item = Part>) -> Self {
        Self {
            content: content.into_iter().collect(),
            value: None,
            state_effects: Vec::new(),
            files: FilesChanged::None,
        }
    }

    /// Creates an output from a value. The model sees it as JSON, or unquoted if it is a string.
    ///
    /// ```
    /// use loopwright_core::ToolOutput;
    /// use serde_json::json;
    ///
    /// let output = ToolOutput::json(json!({ "degrees": 21 }));
    /// assert_eq!(output.to_text(), r#"{"degrees":21}"#);
    /// assert_eq!(output.value.as_deref(), Some(&json!({ "degrees": 21 })));
    /// ```
    pub fn json(value: Value) -> Self {
        let text = match &value {
            Value::String(text) => text.clone(),
            value => value.to_string(),
        };
        Self { value: Some(Arc::new(value)), ..Self::text(text) }
    }

    /// Sets a metadata value, which models and users can see.
    #[must_use]
    pub fn with_metadata(mut self, key: impl Into<Arc<str>>, value: Value) -> Self {
        let slot = StateKey { space: Namespace::Metadata, key: key.into() };
        self.state_effects.push(StateEffect::Set(slot, Some(value)));
        self
    }

    /// Stores a capability's own value.
    ///
    /// # Errors
    ///
    /// Returns an error if the value cannot be written as JSON.
    ///
    /// ```
    /// use loopwright_core::{Key, ToolOutput};
    ///
    /// const PAGES: Key<Vec<String>> = Key::session("bookmarks", "pages");
    /// let output = ToolOutput::text("saved").with_value(&PAGES, &vec!["a.example".to_owned()])?;
    /// assert_eq!(output.state_effects.len(), 1);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn with_value<T: Serialize>(
        mut self,
        key: &Key<T>,
        value: &T,
    ) -> Result<Self, serde_json::Error> {
        self.state_effects.push(StateEffect::Set(key.slot(), Some(serde_json::to_value(value)?)));
        Ok(self)
    }

    /// Appends a message after the step.
    #[must_use]
    pub fn with_message(mut self, message: Message) -> Self {
        self.state_effects.push(StateEffect::Append(message));
        self
    }

    /// Reports the files that the call changed.
    #[must_use]
    pub fn with_changed_files(mut self, files: impl Into<FilesChanged>) -> Self {
        self.files = files.into();
        self
    }

    /// Returns the text, joined.
    pub fn to_text(&self) -> String {
        self.content.iter().filter_map(Part::as_text).collect()
    }
}

/// The outcome of a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolOutcome {
    /// The tool succeeded.
    Returned(ToolOutput),
    /// The tool failed, or the call was invalid.
    Failed(Failure),
    /// A hook or the user blocked the call.
    Blocked {
        /// The reason, for the model.
        reason: String,
    },
    /// The run stopped before the tool started, or the call could not run.
    Skipped {
        /// The reason, for the model.
        reason: String,
    },
    /// The run was cancelled.
    Cancelled {
        /// Whether the tool had started, and may have taken effect.
        started: bool,
    },
    /// The tool started, and its effect is unknown.
    Unknown,
}

impl ToolOutcome {
    /// Returns the output of a tool that succeeded.
    pub fn output(&self) -> Option<&ToolOutput> {
        match self {
            Self::Returned(output) => Some(output),
            _ => None,
        }
    }

    /// Returns `true` if the tool did not succeed.
    pub fn is_error(&self) -> bool {
        !matches!(self, Self::Returned(_))
    }

    /// Returns `true` if a hook or the user blocked the call.
    pub fn was_blocked(&self) -> bool {
        matches!(self, Self::Blocked { .. })
    }

    /// Returns the error message, or an empty string.
    pub fn error_message(&self) -> String {
        match self {
            Self::Returned(_) => String::new(),
            Self::Failed(failure) => failure.to_string(),
            Self::Blocked { reason } | Self::Skipped { reason } => reason.clone(),
            Self::Cancelled { started: false } => {
                "the run was cancelled before the tool started".to_owned()
            }
            Self::Cancelled { started: true } => {
                "the run was cancelled while the tool was running, and the call may have taken effect"
                    .to_owned()
            }
            Self::Unknown => {
                "the tool was interrupted after it started and may have taken effect; check \
                    before you call it again"
                    .to_owned()
            }
        }
    }

    /// Returns the result for the model.
    pub fn to_result(&self) -> ToolResult {
        let error = |text: String| ToolResult::error(text);
        match self {
            Self::Returned(output) => {
                ToolResult { content: Arc::clone(&output.content), is_error: false }
            }
            Self::Failed(failure) => error(format!("Error: {failure}")),
            Self::Blocked { reason } => error(format!("Blocked: {reason}")),
            Self::Skipped { reason } => error(format!("Not run: {reason}")),
            Self::Cancelled { .. } => error(format!("Cancelled: {}", self.error_message())),
            Self::Unknown => error(format!("Unknown: {}", self.error_message())),
        }
    }
}

/// A request for a decision before a call can run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRequest {
    /// The question, for people.
    pub text: String,
    /// The hook or tool that asks.
    pub source: Arc<str>,
    /// The time after which the call is denied without an answer. `None` waits without a limit,
    /// unless the [executor](crate::ToolExecutor::answer_within) of the agent sets one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// The JSON Schema of the arguments of the tool, if the request is about whether a call can run. The run sets it, so
    /// that edited arguments can be checked without the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Arc<Value>>,
}

impl ApprovalRequest {
    /// Creates a request without a deadline.
    pub fn new(text: impl Into<String>, source: impl Into<Arc<str>>) -> Self {
        Self { text: text.into(), source: source.into(), deadline: None, parameters: None }
    }

    /// Sets the time after which the call is denied without an answer.
    #[must_use]
    pub fn with_deadline(self, at: Timestamp) -> Self {
        Self { deadline: Some(at), ..self }
    }

    /// Returns `true` if the deadline has passed.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.deadline.is_some_and(|at| at <= now)
    }

    /// Sets a deadline, unless the request has one.
    pub(crate) fn expire_at(&mut self, at: Option<Timestamp>) {
        self.deadline = self.deadline.or(at);
    }

    /// Returns the outcome without an answer. An interrupted call may have taken effect.
    pub(crate) fn expired(&self) -> ToolOutcome {
        if self.is_recovery() {
            return ToolOutcome::Unknown;
        }
        ToolOutcome::Blocked { reason: EXPIRED.to_owned() }
    }

    /// The source of requests about interrupted calls.
    pub(crate) const RECOVERY: &'static str = "recovery";

    /// Returns `true` if the call had started, and may have taken effect.
    pub fn is_recovery(&self) -> bool {
        &*self.source == Self::RECOVERY
    }
}

/// A decision about a call.
///
/// An approval covers exactly the arguments of the request ([`PendingApproval::call`](crate::PendingApproval::call)),
/// or those of [`ApproveWith`](Self::ApproveWith). Hooks are called with these arguments. If a hook rewrites them
/// afterwards, in this process or in another one, the call does not run: it is asked about again, with the new
/// arguments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ApprovalDecision {
    /// Run it; after an interruption, run it again.
    Approve,
    /// Run it with these arguments instead of those of the model. Hooks see them, and can still
    /// block the call. `AgentLoop::decide` checks that they match the schema of the tool.
    ApproveWith {
        /// The new arguments.
        arguments: Arguments,
    },
    /// Do not run it.
    Deny {
        /// The reason, for the model.
        reason: String,
    },
    /// Do not run it, and stop the run, including those of the agents above a sub-agent.
    DenyAndStop {
        /// The reason, for the model.
        reason: String,
    },
    /// Use this as the tool's output; after an interruption, the call counts as done.
    Answer(ToolOutput),
    /// The answer to the tool's question in the middle of the call: the tool is called again with
    /// it. For a tool that runs elsewhere, its result.
    Reply(Value),
    /// The tool that runs elsewhere failed.
    Fail {
        /// The error, for the model.
        message: String,
    },
    /// The user leaves the tool's question unanswered: neither an answer nor a refusal.
    Cancel,
}

/// The reason for the model if the user left a question unanswered.
pub(crate) const CANCELLED: &str = "the user dismissed the question without an answer";

/// The reason for the model if no answer came before the deadline.
const EXPIRED: &str = "no decision or answer arrived before the deadline";

/// The actual arguments of a tool, as JSON text. They differ from those of the model if a hook
/// rewrote them.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Arguments(#[serde(deserialize_with = "loopwright_messages::shared::text")] Arc<str>);

impl Arguments {
    /// Creates arguments from JSON text, which is checked before the tool receives it.
    pub fn new(json: impl Into<Arc<str>>) -> Self {
        Self(json.into())
    }

    /// Returns the JSON text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn shared(&self) -> &Arc<str> {
        &self.0
    }
}

impl From<&Value> for Arguments {
    fn from(value: &Value) -> Self {
        Self(value.to_string().into())
    }
}

impl fmt::Debug for Arguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
