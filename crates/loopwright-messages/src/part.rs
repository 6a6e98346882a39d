//! What a message is made of.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{shared, tool::ToolCall};

/// One piece of a message, and the provider's own form of it where there is one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    content: Content,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    opaque: Option<ProviderPayload>,
}

/// What a part says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Content {
    /// Words.
    Text(#[serde(deserialize_with = "shared::text")] Arc<str>),
    /// The model's words on why it does not respond.
    Refusal(#[serde(deserialize_with = "shared::text")] Arc<str>),
    /// The model's thinking, as far as the provider shows it; may be empty beside a signature.
    Reasoning(#[serde(deserialize_with = "shared::text")] Arc<str>),
    /// A picture.
    Image(Media),
    /// A file that the provider reads.
    Document(Media),
    /// A tool that the model asks for.
    ToolCall(ToolCall),
    /// Something that only its provider understands, such as the provider's own tools at work; the
    /// part's opaque payload holds it.
    Provider {
        /// The provider's name for it.
        kind: Arc<str>,
    },
}

/// The provider's own form of a part, as JSON text, sent back byte for byte.
///
/// Signatures and encrypted reasoning live here. It is only worth something to the provider and
/// model it came from; see [`ModelOrigin`](crate::ModelOrigin).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProviderPayload(#[serde(deserialize_with = "shared::text")] Arc<str>);

impl ProviderPayload {
    /// Wraps JSON text.
    pub fn new(json: impl Into<Arc<str>>) -> Self {
        Self(json.into())
    }

    /// Returns the JSON text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A picture or a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Media {
    /// Its type, such as `image/png`.
    pub mime: Arc<str>,
    /// Where it is.
    pub source: MediaSource,
    /// Its name, for documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
}

/// Where media is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MediaSource {
    /// Here, in base64.
    Base64(#[serde(deserialize_with = "shared::text")] Arc<str>),
    /// At an address that the provider can reach.
    Url(Arc<str>),
    /// With the provider, under this id.
    File(Arc<str>),
}

impl Part {
    /// Makes a part.
    pub fn new(content: Content) -> Self {
        Self { content, opaque: None }
    }

    /// Makes a part of words.
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        Self::new(Content::Text(text.into()))
    }

    /// Makes a part of reasoning.
    pub fn reasoning(text: impl Into<Arc<str>>) -> Self {
        Self::new(Content::Reasoning(text.into()))
    }

    /// Makes a picture of base64 text.
    pub fn image(mime: impl Into<Arc<str>>, base64: impl Into<Arc<str>>) -> Self {
        let source = MediaSource::Base64(base64.into());
        Self::new(Content::Image(Media { mime: mime.into(), source, name: None }))
    }

    /// Adds the provider's own form.
    #[must_use]
    pub fn with_provider_payload(mut self, opaque: ProviderPayload) -> Self {
        self.opaque = Some(opaque);
        self
    }

    /// Returns what the part says.
    pub fn content(&self) -> &Content {
        &self.content
    }

    /// Returns the provider's own form.
    pub fn opaque(&self) -> Option<&ProviderPayload> {
        self.opaque.as_ref()
    }

    /// Replaces what the part says. The provider's own form no longer fits and is dropped.
    pub fn set_content(&mut self, content: Content) {
        *self = Self::new(content);
    }

    /// Returns the words of a text part.
    pub fn as_text(&self) -> Option<&str> {
        match &self.content {
            Content::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the call of a tool call part.
    pub fn as_tool_call(&self) -> Option<&ToolCall> {
        match &self.content {
            Content::ToolCall(call) => Some(call),
            _ => None,
        }
    }

    /// Returns `true` if the part says nothing at all.
    pub fn is_empty(&self) -> bool {
        let blank = match &self.content {
            Content::Text(text) | Content::Refusal(text) | Content::Reasoning(text) => {
                text.trim().is_empty()
            }
            _ => false,
        };
        blank && self.opaque.is_none()
    }
}
