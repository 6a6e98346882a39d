//! Messages and their roles.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    part::{Content, Part},
    tool::ToolCall,
};

/// The role of a message. Tools have none: a [`ToolExchange`](crate::ToolExchange) contains their
/// results with the reply that called them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Instructions.
    System,
    /// Instructions of the application, where a provider distinguishes them from those of the
    /// system.
    Developer,
    /// The user: a person, or a program that acts for one.
    User,
    /// The model.
    Assistant,
}

/// The model that wrote a message. Opaque payloads of the message are sent back only to this model.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ModelOrigin {
    /// The wire, such as `openai-chat`.
    pub wire: Arc<str>,
    /// The provider, such as `openrouter`.
    pub provider: Arc<str>,
    /// The model that was called.
    pub model: Arc<str>,
}

/// A message. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    role: Role,
    parts: Arc<[Part]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<Arc<ModelOrigin>>,
}

impl Message {
    /// Creates a message from parts.
    pub fn new(role: Role, parts: impl IntoIterator<Item = Part>) -> Self {
        Self { role, parts: parts.into_iter().collect(), origin: None }
    }

    /// Creates a user message.
    pub fn user(text: impl Into<Arc<str>>) -> Self {
        Self::new(Role::User, [Part::text(text)])
    }

    /// Creates a system message.
    pub fn system(text: impl Into<Arc<str>>) -> Self {
        Self::new(Role::System, [Part::text(text)])
    }

    /// Creates a message of the model.
    pub fn assistant(text: impl Into<Arc<str>>) -> Self {
        Self::new(Role::Assistant, [Part::text(text)])
    }

    /// Sets the model that wrote it.
    #[must_use]
    pub fn with_origin(mut self, origin: Arc<ModelOrigin>) -> Self {
        self.origin = Some(origin);
        self
    }

    /// Returns the role.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Returns the parts, in order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns the model that wrote it.
    pub fn origin(&self) -> Option<&Arc<ModelOrigin>> {
        self.origin.as_ref()
    }

    /// Returns the text, joined without a separator, without reasoning and refusals.
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

    /// Returns the reason for a refusal, or `None` if the model did not refuse.
    pub fn refusal(&self) -> Option<&str> {
        self.parts.iter().find_map(|part| match part.content() {
            Content::Refusal(text) => Some(&**text),
            _ => None,
        })
    }

    /// Returns the tool calls, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(Part::as_tool_call)
    }

    /// Returns `true` if the message has no content.
    pub fn is_empty(&self) -> bool {
        self.parts.iter().all(Part::is_empty)
    }

    /// Replaces the parts; the role and origin stay.
    #[must_use]
    pub fn with_parts(self, parts: impl IntoIterator<Item = Part>) -> Self {
        Self { parts: parts.into_iter().collect(), ..self }
    }

    /// Returns `true` if it contains instructions: its role is system or developer.
    pub fn is_system(&self) -> bool {
        matches!(self.role, Role::System | Role::Developer)
    }
}
