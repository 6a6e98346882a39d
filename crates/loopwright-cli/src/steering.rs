//! Lines that the user types while the agent works.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use loopwright_core::messages::Message;
use loopwright_sessions::{ControlMessage, SessionId, SessionStore, StoreError};

use tokio_util::sync::CancellationToken;

use crate::console;
use crate::render::{UiEvent, UiSender};

/// How long to wait before looking again whether the session exists.
const LOOKS: Duration = Duration::from_millis(20);

/// The meaning of a line that is typed while the agent works.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LiveLine {
    /// The agent receives this message before its next step.
    Message {
        message: Message,
        /// What is attached to it, and what is not, in lines for the user.
        notes: Vec<String>,
    },
    /// A command whose result is shown at once.
    Shown(String),
    /// A command that runs when the turn has ended.
    Queued,
}

impl LiveLine {
    /// A message that is only text.
    pub(crate) fn text(text: &str) -> Self {
        Self::Message { message: Message::user(text), notes: Vec::new() }
    }
}

/// Reads lines that are typed while the agent works.
#[async_trait(?Send)]
pub(crate) trait LiveLines: Send + Sync {
    /// Returns the meaning of a line that is typed during a run of a session. A command that changes the permission mode emits that
    /// to `feed`.
    async fn read(&self, line: &str, session: &SessionId, feed: &UiSender) -> LiveLine;
}

/// What is typed for an agent while it works.
#[derive(Default)]
pub(crate) struct Steered {
    /// The texts of the messages that the session has.
    sent: Mutex<Vec<String>>,
    /// Lines that are not handled yet, and those that wait for the end of the turn.
    unsent: Mutex<Vec<String>>,
}

impl Steered {
    /// Handles a line: sends a message to the run, shows the result of a command, or keeps the line for the end of the turn.
    pub(crate) async fn take(
        &self,
        lines: &dyn LiveLines,
        store: &dyn SessionStore,
        (id, has_begun): (&SessionId, &CancellationToken),
        line: String,
        feed: &UiSender,
    ) {
        lock(&self.unsent).push(line.clone());
        // Before the run begins, the session would have the message before that of the turn.
        has_begun.cancelled().await;
        match lines.read(&line, id, feed).await {
            LiveLine::Queued => return feed.tell(UiEvent::Queued(line)),
            LiveLine::Shown(told) => feed.tell(UiEvent::Told(told)),
            LiveLine::Message { message, notes } => {
                let text = message.text();
                if !send(store, id, message).await {
                    return;
                }
                lock(&self.sent).push(text);
                feed.tell(UiEvent::Sent(line));
                if !notes.is_empty() {
                    feed.tell(UiEvent::Told(notes.join("\n")));
                }
            }
        }
        lock(&self.unsent).pop();
    }

    /// Returns the texts of the messages that the session has, and the lines that were not handled.
    pub(crate) fn into_lines(self) -> (Vec<String>, Vec<String>) {
        let inner =
            |lines: Mutex<Vec<String>>| lines.into_inner().unwrap_or_else(PoisonError::into_inner);
        (inner(self.sent), inner(self.unsent))
    }
}

/// Leaves a message to the run of a session, which hears it before its next step. Waits for a session that does not exist
/// yet. Returns `false` if the message cannot be sent.
async fn send(store: &dyn SessionStore, id: &SessionId, message: Message) -> bool {
    let message = ControlMessage::SendMessage(message);
    loop {
        match store.send_control(id, &message).await {
            Ok(()) => return true,
            Err(StoreError::NotFound(_)) => tokio::time::sleep(LOOKS).await,
            Err(error) => {
                console::warn(&format!("the message was not sent: {error}"));
                return false;
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
