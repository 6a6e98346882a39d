//! `/export`.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use loopwright_sessions::{SessionId, SessionStore, StoreError};

use super::ChatSession;
use crate::render::{sanitize_terminal, summary};
use crate::session::{SessionsError, short};
use crate::sessions::{HistoryEntry, SessionHistory};

/// The maximum number of characters of a call's arguments.
const CALL: usize = 100;

impl ChatSession<'_> {
    pub(super) async fn export(&self, name: Option<&str>) -> Result<String, SessionsError> {
        let Some(id) = &self.conversation.session else { return Err(SessionsError::NoMessages) };
        let workdir = self.conversation.setup.workdir.path();
        let path = export(&*self.conversation.store, id, workdir, name).await?;
        Ok(format!("written to {}", sanitize_terminal(&path.display().to_string())))
    }
}

/// Writes a conversation to a file that does not exist yet, and returns its path. By default, it is named after the
/// session.
async fn export(
    store: &dyn SessionStore,
    id: &SessionId,
    workdir: &Path,
    name: Option<&str>,
) -> Result<PathBuf, SessionsError> {
    let loaded = store.load(id).await?.ok_or_else(|| StoreError::NotFound(id.clone()))?;
    let own = || format!("loopwright-{}.md", short(id));
    let path = workdir.join(name.map_or_else(own, str::to_owned));
    let title = loaded.header.title.as_deref().unwrap_or("Conversation");
    let text = markdown(title, &SessionHistory::of(&loaded.changes));
    write(&path, &text).map_err(|error| {
        let exists = error.kind() == io::ErrorKind::AlreadyExists;
        let hint = if exists { "; choose another name: /export FILE" } else { "" };
        SessionsError::Usage(format!("cannot write {}: {error}{hint}", path.display()))
    })?;
    Ok(path)
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file?.write_all(text.as_bytes())
}

/// Returns a conversation as Markdown: the messages, and a line for each call.
fn markdown(title: &str, history: &SessionHistory) -> String {
    let mut text = format!("# {}\n", title.split_whitespace().collect::<Vec<_>>().join(" "));
    for event in &history.entries {
        match &event.entry {
            HistoryEntry::Said { role, text: said } => {
                let _ = write!(text, "\n## {}\n\n{}\n", heading(role), said.trim());
            }
            HistoryEntry::Answered { text: said, .. } if said.trim().is_empty() => {}
            HistoryEntry::Answered { text: said, .. } => {
                let _ = write!(text, "\n## Agent\n\n{}\n", said.trim());
            }
            HistoryEntry::Called { tool, arguments, success, .. } => {
                let asked = summary(&arguments.to_string(), CALL).replace('`', "'");
                let failed = if *success { "" } else { " (failed)" };
                let _ = write!(text, "\n- `{tool}` `{asked}`{failed}\n");
            }
            _ => {}
        }
    }
    text
}

fn heading(role: &str) -> &str {
    match role {
        "user" => "You",
        "assistant" => "Agent",
        other => other,
    }
}
