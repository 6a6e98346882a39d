//! Resources and prompts of a server.

use async_trait::async_trait;
use loopwright_core::BoxError;

/// A text resource for clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedResource {
    /// The URI.
    pub uri: String,
    /// Its name.
    pub name: String,
    /// The description.
    pub description: Option<String>,
    /// The media type, such as `text/markdown`.
    pub mime_type: Option<String>,
}

/// A prompt that users of clients can select.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedPrompt {
    /// Its name.
    pub name: String,
    /// The description.
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
    /// Returns an error if they cannot be listed.
    async fn resources(
        &self,
        cursor: Option<String>,
    ) -> Result<(Vec<ServedResource>, Option<String>), BoxError> {
        drop(cursor);
        Ok((Vec::new(), None))
    }

    /// Reads a resource; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be read.
    async fn read(&self, uri: &str) -> Result<Option<String>, BoxError> {
        let _ = uri;
        Ok(None)
    }

    /// Lists the prompts.
    ///
    /// # Errors
    ///
    /// Returns an error if they cannot be listed.
    async fn prompts(&self) -> Result<Vec<ServedPrompt>, BoxError> {
        Ok(Vec::new())
    }

    /// Returns the text of a prompt; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// Returns an error if the text cannot be created.
    async fn prompt(&self, name: &str, arguments: &str) -> Result<Option<String>, BoxError> {
        let _ = (name, arguments);
        Ok(None)
    }
}
