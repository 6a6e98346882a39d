//! Files that the editor has open: reading sees unsaved changes, and writing goes through the editor.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use loopwright_capabilities::files::EditorFiles;
use serde_json::{Value, json};

use super::connection::Connection;
use super::error::RpcError;

/// How long a thread waits for the editor.
const LIMIT: Duration = Duration::from_secs(10);

/// What an editor offers for files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FileOffer {
    reads: bool,
    writes: bool,
}

impl FileOffer {
    /// Reads it from the parameters of `initialize`.
    pub(super) fn of(params: &Value) -> Self {
        let fs = &params["clientCapabilities"]["fs"];
        Self { reads: fs["readTextFile"] == true, writes: fs["writeTextFile"] == true }
    }

    /// Returns the files of a session. Returns `None` if nothing is offered.
    pub(super) fn files(
        self,
        connection: &Arc<Connection>,
        session: &str,
    ) -> Option<Arc<dyn EditorFiles>> {
        let files = ClientFiles {
            offer: self,
            connection: Arc::clone(connection),
            session: session.to_owned(),
        };
        (self.reads || self.writes).then(|| Arc::new(files) as Arc<dyn EditorFiles>)
    }
}

/// The files of a session, in the editor.
struct ClientFiles {
    offer: FileOffer,
    connection: Arc<Connection>,
    session: String,
}

impl ClientFiles {
    fn ask(&self, method: &str, path: &str, content: Option<&str>) -> Result<Value, RpcError> {
        let mut params = json!({"sessionId": self.session, "path": path});
        if let Some(content) = content {
            params["content"] = json!(content);
        }
        self.connection.request_blocking(method, &params, LIMIT)
    }
}

impl EditorFiles for ClientFiles {
    fn read(&self, path: &Path) -> Option<String> {
        let path = path.to_str().filter(|_| self.offer.reads)?;
        // What the editor cannot read is read from disk.
        let answer = self.ask("fs/read_text_file", path, None).ok()?;
        answer["content"].as_str().map(str::to_owned)
    }

    fn write(&self, path: &Path, content: &str) -> io::Result<bool> {
        let Some(path) = path.to_str().filter(|_| self.offer.writes) else { return Ok(false) };
        let written = self.ask("fs/write_text_file", path, Some(content));
        written.map(|_| true).map_err(|error| {
            io::Error::other(format!("the editor did not write the file: {}", error.message()))
        })
    }
}
