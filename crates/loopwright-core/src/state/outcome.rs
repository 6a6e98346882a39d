//! What became of a tool call.

use std::{fmt, sync::Arc};

use loopwright_messages::{Message, Part, ToolResult};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    failure::Failure,
    file_changes::FilesChanged,
    key::{Key, Namespace, StateKey},
};

/// A tool's answer, and what the tool wants remembered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolOutput {
    /// As the model sees it.
    pub content: Arc<[Part]>,
    /// As hooks and programs see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Arc<Value>>,
    /// What the loop does to the state when the step is recorded, in call order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub state_effects: Vec<StateEffect>,
    /// The files that the call has changed.
    #[serde(default, skip_serializing_if = "FilesChanged::is_none")]
    pub files: FilesChanged,
}

/// What a tool may do to the state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StateEffect {
    /// Keeps a value, or removes it.
    Set(StateKey, Option<Value>),
    /// Says something after the step.
    Append(Message),
}

impl ToolOutput {
    /// Answers with words.
    ///
    /// ```
    /// use loopwright_core::ToolOutput;
    ///
    /// assert_eq!(ToolOutput::text("21 degrees").to_text(), "21 degrees");
    /// ```
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        Self::from_parts([Part::text(text)])
    }

    /// Answers with parts.
    pub fn from_parts(content: impl IntoIterator<Item = Part>) -> Self {
        Self {
            content: content.into_iter().collect(),
            value: None,
            state_effects: Vec::new(),
            files: FilesChanged::None,
        }
    }

    /// Answers with a value; the model sees it as JSON, or as it is if it is text.
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

    /// Keeps a value of the metadata that models and users see.
    #[must_use]
    pub fn with_metadata(mut self, key: impl Into<Arc<str>>, value: Value) -> Self {
        let slot = StateKey { space: Namespace::Metadata, key: key.into() };
        self.state_effects.push(StateEffect::Set(slot, Some(value)));
        self
    }

    /// Keeps a capability's own value.
    ///
    /// # Errors
    ///
    /// If the value cannot be written as JSON.
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

    /// Says something after the step.
    #[must_use]
    pub fn with_message(mut self, message: Message) -> Self {
        self.state_effects.push(StateEffect::Append(message));
        self
    }

    /// Reports the files that the call has changed.
    #[must_use]
    pub fn with_changed_files(mut self, files: impl Into<FilesChanged>) -> Self {
        self.files = files.into();
        self
    }

    /// Returns the words, joined.
    pub fn to_text(&self) -> String {
        self.content.iter().filter_map(Part::as_text).collect()
    }
}

/// What became of a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolOutcome {
    /// The tool answered.
    Returned(ToolOutput),
    /// The tool failed, or could not be called as asked.
    Failed(Failure),
    /// A hook or the user kept the tool from running.
    Blocked {
        /// For the model.
        reason: String,
    },
    /// The run stopped before the tool began, or the call was not fit to run.
    Skipped {
        /// For the model.
        reason: String,
    },
    /// The run was cancelled.
    Cancelled {
        /// Whether the tool had begun, and may have taken effect.
        started: bool,
    },
    /// The tool began, and whether it took effect is not known.
    Unknown,
}

impl ToolOutcome {
    /// Returns the answer of a tool that answered.
    pub fn output(&self) -> Option<&ToolOutput> {
        match self {
            Self::Returned(output) => Some(output),
            _ => None,
        }
    }

    /// Returns `true` if the tool did not answer.
    pub fn is_error(&self) -> bool {
        !matches!(self, Self::Returned(_))
    }

    /// Returns `true` if a hook or the user kept the tool from running.
    pub fn was_blocked(&self) -> bool {
        matches!(self, Self::Blocked { .. })
    }

    /// Returns what went wrong, or the empty text.
    pub fn error_message(&self) -> String {
        match self {
            Self::Returned(_) => String::new(),
            Self::Failed(failure) => failure.to_string(),
            Self::Blocked { reason } | Self::Skipped { reason } => reason.clone(),
            Self::Cancelled { started: false } => {
                "the run was cancelled before the tool began".to_owned()
            }
            Self::Cancelled { started: true } => {
                "the run was cancelled while the tool ran; it may have taken effect".to_owned()
            }
            Self::Unknown => {
                "the tool began and was interrupted; whether it took effect is not known, so check before repeating it".to_owned()
            }
        }
    }

    /// Returns what the model is told.
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

/// What somebody has to decide before a call can run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRequest {
    /// For people.
    pub text: String,
    /// The hook that asks.
    pub source: Arc<str>,
}

impl ApprovalRequest {
    /// The source of questions about calls that were interrupted.
    pub(crate) const RECOVERY: &'static str = "recovery";

    /// Returns `true` if the call had begun, and may have taken effect.
    pub fn is_recovery(&self) -> bool {
        &*self.source == Self::RECOVERY
    }
}

/// What was decided about a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ApprovalDecision {
    /// Run it; after an interruption, run it again.
    Approve,
    /// Run it with these arguments instead of those the model wrote. Hooks see them, and may still block the
    /// call. `AgentLoop::decide` checks that they fit the schema of the tool.
    ApproveWith {
        /// What the tool is given.
        arguments: Arguments,
    },
    /// Do not run it.
    Deny {
        /// For the model.
        reason: String,
    },
    /// Take this for the tool's answer; after an interruption, it was done.
    Answer(ToolOutput),
    /// The answer to what the tool asked in the middle of the call: the tool is called again with it.
    Reply(Value),
}

/// The arguments that a tool really gets, as JSON text. They differ from what the model wrote where
/// a hook rewrote them.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Arguments(#[serde(deserialize_with = "loopwright_messages::shared::text")] Arc<str>);

impl Arguments {
    /// Takes JSON text; it is checked before the tool gets it.
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
