//! `!COMMAND`.

use std::pin::pin;

use futures::future::{Either, select};
use tokio_util::sync::CancellationToken;

use crate::console;
use crate::conversation::Conversation;
use crate::display::RunDisplay;
use crate::input::{Input, Typed};
use crate::mode_change::change_mode;
use crate::render::{UiSender, sanitize_terminal};
use crate::signals::{Signals, until_signal};
use crate::typed_text::ran;
use crate::user_command;

/// The maximum number of characters of output that the agent sees.
const SEEN: usize = 20_000;

/// Runs a command like those of the agent, shows its output, and returns the text for the
/// agent. Returns `None` if it did not run. Esc and Ctrl-C end it, and lines that are typed meanwhile are the next turns.
pub(super) async fn run(
    conversation: &Conversation,
    display: RunDisplay,
    command: &str,
    signals: Option<&mut Signals>,
    input: &mut Input,
) -> Option<String> {
    let session = conversation.session.as_ref().map(|id| (&conversation.store, id));
    let cancel = CancellationToken::new();
    // What is being typed is seen at the next prompt.
    let (live, mut typed) = input.live(UiSender::new().0).unzip();
    let mut unread = Vec::new();
    let work = async {
        let mut work = pin!(user_command::run(&conversation.setup, session, command, &cancel));
        let Some(typed) = &mut typed else { return work.await };
        loop {
            let next = match select(work.as_mut(), pin!(typed.recv())).await {
                Either::Left((done, _)) => return done,
                Either::Right((next, _)) => next,
            };
            match next {
                Some(Typed::Stop) => cancel.cancel(),
                Some(Typed::Line(text)) => unread.push(text),
                Some(Typed::NextMode) => next_mode(conversation, display),
                None => return work.await,
            }
        }
    };
    let done = until_signal(signals, &cancel, pin!(work)).await;
    if let (Some(live), Some(typed)) = (live, &mut typed) {
        input.end_live(live, typed, unread);
    }
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

fn next_mode(conversation: &Conversation, display: RunDisplay) {
    let permissions = &conversation.setup.permissions;
    match change_mode(permissions, "next", |event| display.show(&event)) {
        Ok(mode) => console::tell(&format!("mode {mode}")),
        Err(error) => console::warn(&error),
    }
}
