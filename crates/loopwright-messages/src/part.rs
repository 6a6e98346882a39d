//! The parts of a message.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{shared, tool::ToolCall};

/// A part of a message, with the provider's own form if there is one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    content: Content,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    opaque: Option<ProviderPayload>,
}

/// The content of a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Content {
    /// Text.
    Text(#[serde(deserialize_with = "shared::text")] Arc<str>),
    /// The model's reason for a refusal.
    Refusal(#[serde(deserialize_with = "shared::text")] Arc<str>),
    /// The model's reasoning, as far as the provider shows it. Can be empty if the part has a
    /// signature.
    Reasoning(#[serde(deserialize_with = "shared::text")] Arc<str>),
    /// An image.
    Image(Media),
    /// A file that the provider reads.
    Document(Media),
    /// A tool call.
    ToolCall(ToolCall),
    /// Content that only its provider understands, such as the use of the provider's own tools. The
    /// part's opaque payload holds it.
    Provider {
        /// The provider's name for the content.
        kind: Arc<str>,
    },
}

/// The provider's own form of a part, as JSON text, sent back byte for byte.
///
/// It contains signatures and encrypted reasoning. Only the provider and the model that wrote it
/// can use it; see [`ModelOrigin`](crate::ModelOrigin).
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

/// An image or a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Media {
    /// Its type, such as `image/png`.
    pub mime: Arc<str>,
    /// The location of the data.
    pub source: MediaSource,
    /// The name, for documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
}

/// The location of media data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MediaSource {
    /// Inline, in base64.
    Base64(#[serde(deserialize_with = "shared::text")] Arc<str>),
    /// At a URL that the provider can reach.
    Url(Arc<str>),
    /// In the provider's storage, under this ID.
    File(Arc<str>),
}

impl Part {
    /// Creates a part.
    pub fn new(content: Content) -> Self {
        Self { content, opaque: None }
    }

    /// Creates a text part.
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        Self::new(Content::Text(text.into()))
    }

    /// Creates a reasoning part.
    pub fn reasoning(text: impl Into<Arc<str>>) -> Self {
        Self::new(Content::Reasoning(text.into()))
    }

    /// Creates an image part from base64 text.
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

    /// Returns the content of the part.
    pub fn content(&self) -> &Content {
        &self.content
    }

    /// Returns the provider's own form.
    pub fn opaque(&self) -> Option<&ProviderPayload> {
        self.opaque.as_ref()
    }

    /// Replaces the content of the part. The provider's own form no longer matches and is dropped.
    pub fn set_content(&mut self, content: Content) {
        *self = Self::new(content);
    }

    /// Returns the text of a text part.
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

    /// Returns `true` if the part is empty.
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
