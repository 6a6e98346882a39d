//! What a server offers besides tools.

use async_trait::async_trait;
use loopwright_core::BoxError;

/// A text that clients can read.
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

/// A prompt that users of clients can choose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedPrompt {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Whether it takes a text, as the argument `arguments`.
    pub takes_arguments: bool,
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

    /// Reads a resource; `None` if there is none of this address.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    async fn read(&self, uri: &str) -> Result<Option<String>, BoxError> {
        let _ = uri;
        Ok(None)
    }

    /// Lists the prompts.
    ///
    /// # Errors
    ///
    /// If they cannot be listed.
    async fn prompts(&self) -> Result<Vec<ServedPrompt>, BoxError> {
        Ok(Vec::new())
    }

    /// Returns the text of a prompt; `None` if there is none of this name.
    ///
    /// # Errors
    ///
    /// If it cannot be made.
    async fn prompt(&self, name: &str, arguments: &str) -> Result<Option<String>, BoxError> {
        let _ = (name, arguments);
        Ok(None)
    }
}
