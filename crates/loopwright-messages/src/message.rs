//! Who says what.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    part::{Content, Part},
    tool::ToolCall,
};

/// Who speaks. Tools do not: their results stand beside the reply that called them, in an
/// [`ToolExchange`](crate::ToolExchange).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Instructions.
    System,
    /// Instructions of the application, where a provider tells them from the system's.
    Developer,
    /// The person, or the program that stands for one.
    User,
    /// The model.
    Assistant,
}

/// Which model said it: the opaque payloads of a message are sent back to this one only.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ModelOrigin {
    /// The wire, such as `openai-chat`.
    pub wire: Arc<str>,
    /// The provider, such as `openrouter`.
    pub provider: Arc<str>,
    /// The model that was asked.
    pub model: Arc<str>,
}

/// Something said. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    role: Role,
    parts: Arc<[Part]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<Arc<ModelOrigin>>,
}

impl Message {
    /// Makes a message of parts.
    pub fn new(role: Role, parts: impl IntoIterator<Item = Part>) -> Self {
        Self { role, parts: parts.into_iter().collect(), origin: None }
    }

    /// Makes a message of the user.
    pub fn user(text: impl Into<Arc<str>>) -> Self {
        Self::new(Role::User, [Part::text(text)])
    }

    /// Makes a message of the system.
    pub fn system(text: impl Into<Arc<str>>) -> Self {
        Self::new(Role::System, [Part::text(text)])
    }

    /// Makes a message of the model.
    pub fn assistant(text: impl Into<Arc<str>>) -> Self {
        Self::new(Role::Assistant, [Part::text(text)])
    }

    /// Notes which model said it.
    #[must_use]
    pub fn with_origin(mut self, origin: Arc<ModelOrigin>) -> Self {
        self.origin = Some(origin);
        self
    }

    /// Returns who speaks.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Returns the parts, in the order they were said.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns which model said it.
    pub fn origin(&self) -> Option<&Arc<ModelOrigin>> {
        self.origin.as_ref()
    }

    /// Returns the words, joined without a separator; neither reasoning nor refusals.
    pub fn text(&self) -> String {
        self.parts.iter().filter_map(Part::as_text).collect()
    }

    /// Returns the reasoning, joined without a separator.
    pub fn reasoning(&self) -> String {
        let reasoning = |part: &Part| match part.content() {
            Content::Reasoning(text) => Some(Arc::clone(text)),
            _ => None,
        };
        self.parts.iter().filter_map(reasoning).fold(String::new(), |sum, text| sum + &text)
    }

    /// Returns why the model does not respond, if it said so.
    pub fn refusal(&self) -> Option<&str> {
        self.parts.iter().find_map(|part| match part.content() {
            Content::Refusal(text) => Some(&**text),
            _ => None,
        })
    }

    /// Returns the tool calls, in the order they were written.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(Part::as_tool_call)
    }

    /// Returns `true` if there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.parts.iter().all(Part::is_empty)
    }

    /// Replaces the parts; the role and origin stay.
    #[must_use]
    pub fn with_parts(self, parts: impl IntoIterator<Item = Part>) -> Self {
        Self { parts: parts.into_iter().collect(), ..self }
    }

    /// Returns `true` if it instructs: it came from the system or the developer.
    pub fn is_system(&self) -> bool {
        matches!(self.role, Role::System | Role::Developer)
    }
}
