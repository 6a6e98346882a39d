//! Resources and prompts of a server.

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use loopwright_core::{BoxError, messages::Message};
use serde_json::{Map, Value};

use super::client_requests::{ClientReplies, ClientRequests};
use crate::completion::CompletionTarget;

/// A resource that clients can read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedResource {
    /// Its address.
    pub uri: String,
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: Option<String>,
    /// Its type, such as `text/markdown`.
    pub mime_type: Option<String>,
}

/// Resources whose addresses have a common form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedTemplate {
    /// The form of the addresses, as in RFC 6570: `notes://{id}`.
    pub uri_template: String,
    /// Its name.
    pub name: String,
    /// Their description.
    pub description: Option<String>,
    /// The type of the resources, such as `text/markdown`.
    pub mime_type: Option<String>,
}

/// The content of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceBody {
    /// Its type, such as `text/markdown`.
    pub mime_type: Option<String>,
    /// Its bytes. Clients receive them as text if they are text.
    pub data: ResourceData,
}

/// The bytes of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceData {
    /// A text.
    Text(String),
    /// Binary data.
    Bytes(Vec<u8>),
}

impl ResourceBody {
    /// Creates a text of a type, such as `text/plain`.
    pub fn text(mime_type: impl Into<String>, text: impl Into<String>) -> Self {
        Self { mime_type: Some(mime_type.into()), data: ResourceData::Text(text.into()) }
    }

    /// Creates content of a type, such as `image/png`.
    pub fn bytes(mime_type: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { mime_type: Some(mime_type.into()), data: ResourceData::Bytes(bytes.into()) }
    }
}

/// A prompt that users of clients can choose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedPrompt {
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: String,
    /// Its arguments, in order.
    pub arguments: Vec<ServedArgument>,
}

/// An argument of a prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedArgument {
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: String,
    /// Whether the argument is required.
    pub is_required: bool,
}

/// A request for a prompt with its arguments.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PromptCall {
    /// The name of the prompt.
    pub name: String,
    /// The arguments, by name.
    pub arguments: Map<String, Value>,
    /// The client's replies to the prompt's [requests](PromptReply::Ask).
    pub replies: ClientReplies,
}

impl PromptCall {
    /// Returns the text of an argument; empty if it is missing.
    pub fn argument(&self, name: &str) -> &str {
        self.arguments.get(name).and_then(Value::as_str).unwrap_or_default()
    }
}

/// The response to a request for a prompt.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PromptReply {
    /// The messages. A document whose name is a URI is an embedded resource.
    Messages(Vec<Message>),
    /// Requests that the client must answer first. The prompt is then requested again with the replies.
    Ask(ClientRequests),
}

/// A value that a user of a client has begun to type.
#[derive(Clone, Debug, PartialEq)]
pub struct Completion {
    /// The prompt or the template of the value.
    pub target: CompletionTarget,
    /// The name of the argument, or of the variable of the template.
    pub argument: String,
    /// The beginning of the value.
    pub value: String,
    /// The other values that are known already.
    pub known: Map<String, Value>,
}

/// Resources and prompts of a server.
#[async_trait]
pub trait ServedContent: Send + Sync {
    /// Lists a page of resources, starting at a cursor. Returns the cursor of the next page, or `None` at the end.
    ///
    /// # Errors
    ///
    /// Returns an error if they cannot be listed.
    async fn resources(
        &self,
        cursor: Option<String>,
    ) -> Result<(Vec<ServedResource>, Option<String>), BoxError> {
        drop(cursor);
        Ok((Vec::new(), None))
    }

    /// Lists the templates of resources.
    ///
    /// # Errors
    ///
    /// Returns an error if they cannot be listed.
    async fn templates(&self) -> Result<Vec<ServedTemplate>, BoxError> {
        Ok(Vec::new())
    }

    /// Reads a resource. Returns `None` if no resource has this address.
    ///
    /// # Errors
    ///
    /// Returns an error if the resource cannot be read.
    async fn read(&self, uri: &str) -> Result<Option<ResourceBody>, BoxError> {
        let _ = uri;
        Ok(None)
    }

    /// Returns a stream with an item for each change of a resource. Returns `None` if changes of this address are not
    /// reported. The stream is dropped when the client unsubscribes.
    async fn watch(&self, uri: &str) -> Option<BoxStream<'static, ()>> {
        let _ = uri;
        None
    }

    /// Lists the prompts.
    ///
    /// # Errors
    ///
    /// Returns an error if they cannot be listed.
    async fn prompts(&self) -> Result<Vec<ServedPrompt>, BoxError> {
        Ok(Vec::new())
    }

    /// Fills in a prompt. Returns `None` if no prompt has this name.
    ///
    /// # Errors
    ///
    /// Returns an error if the prompt cannot be created.
    async fn prompt(&self, call: &PromptCall) -> Result<Option<PromptReply>, BoxError> {
        let _ = call;
        Ok(None)
    }

    /// Returns values that start with the typed text, the best one first.
    ///
    /// # Errors
    ///
    /// Returns an error if the values cannot be determined.
    async fn complete(&self, completion: &Completion) -> Result<Vec<String>, BoxError> {
        let _ = completion;
        Ok(Vec::new())
    }
}
