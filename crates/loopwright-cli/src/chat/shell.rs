//! `!COMMAND`.

use std::pin::pin;

use tokio_util::sync::CancellationToken;

use crate::console;
use crate::conversation::Conversation;
use crate::render::sanitize_terminal;
use crate::signals::{Signals, until_signal};
use crate::typed_text::ran;
use crate::user_command;

/// The maximum number of characters of output that the agent sees.
const SEEN: usize = 20_000;

/// Runs a command like those of the agent, shows its output, and returns the text for the
/// agent. Returns `None` if it did not run.
pub(super) async fn run(
    conversation: &Conversation,
    command: &str,
    signals: Option<&mut Signals>,
) -> Option<String> {
    let session = conversation.session.as_ref().map(|id| (&conversation.store, id));
    let cancel = CancellationToken::new();
    let work = pin!(user_command::run(&conversation.setup, session, command, &cancel));
    let done = until_signal(signals, &cancel, work).await;
    let text = match done {
        Ok(output) => output.text,
        Err(error) => {
            console::warn(&error);
            return None;
        }
    };
    console::tell(&sanitize_terminal(&text));
    let seen: String = text.chars().take(SEEN).collect();
    Some(ran(command, seen.trim_end()))
}
