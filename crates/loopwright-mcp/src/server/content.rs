//! What a server offers besides tools.

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
    /// What it is.
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
    /// What the resources are.
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
    /// Anything else.
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
    /// What it is for.
    pub description: String,
    /// Its arguments, in order.
    pub arguments: Vec<ServedArgument>,
}

/// An argument of a prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedArgument {
    /// Its name.
    pub name: String,
    /// What it is.
    pub description: String,
    /// Whether the prompt cannot be filled in without it.
    pub is_required: bool,
}

/// A prompt to be filled in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PromptCall {
    /// The name of the prompt.
    pub name: String,
    /// The arguments, by name.
    pub arguments: Map<String, Value>,
    /// What the client has answered to the prompt's [requests](PromptReply::Ask).
    pub replies: ClientReplies,
}

impl PromptCall {
    /// Returns the text of an argument; empty if it is missing.
    pub fn argument(&self, name: &str) -> &str {
        self.arguments.get(name).and_then(Value::as_str).unwrap_or_default()
    }
}

/// A prompt that was filled in.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PromptReply {
    /// The messages. A document whose name is an address is an embedded resource.
    Messages(Vec<Message>),
    /// The client has to answer first; the prompt is then filled in again with the replies.
    Ask(ClientRequests),
}

/// A value that a user of a client has begun to type.
#[derive(Clone, Debug, PartialEq)]
pub struct Completion {
    /// What the value is for.
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
    /// Lists resources from a cursor on; returns the cursor of the next page, if there is one.
    ///
    /// # Errors
    ///
    /// If they cannot be listed.
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
    /// If they cannot be listed.
    async fn templates(&self) -> Result<Vec<ServedTemplate>, BoxError> {
        Ok(Vec::new())
    }

    /// Reads a resource. Returns `None` if no resource has this address.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    async fn read(&self, uri: &str) -> Result<Option<ResourceBody>, BoxError> {
        let _ = uri;
        Ok(None)
    }

    /// Returns a stream with an item for each change of a resource. Returns `None` if changes of this address are not
    /// reported. The stream is dropped when the client loses interest.
    async fn watch(&self, uri: &str) -> Option<BoxStream<'static, ()>> {
        let _ = uri;
        None
    }

    /// Lists the prompts.
    ///
    /// # Errors
    ///
    /// If they cannot be listed.
    async fn prompts(&self) -> Result<Vec<ServedPrompt>, BoxError> {
        Ok(Vec::new())
    }

    /// Fills in a prompt. Returns `None` if no prompt has this name.
    ///
    /// # Errors
    ///
    /// If it cannot be made.
    async fn prompt(&self, call: &PromptCall) -> Result<Option<PromptReply>, BoxError> {
        let _ = call;
        Ok(None)
    }

    /// Returns values that begin as the user has typed, the best one first.
    ///
    /// # Errors
    ///
    /// If they cannot be found.
    async fn complete(&self, completion: &Completion) -> Result<Vec<String>, BoxError> {
        let _ = completion;
        Ok(Vec::new())
    }
}
