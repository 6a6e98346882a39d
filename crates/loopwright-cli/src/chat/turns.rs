//! Esc Esc: lists the user's messages, and returns to before one of them.

use loopwright_sessions::{RewindPoint, SessionId, SessionStore};

use super::choose::{Chosen, chosen};
use super::rewind::Rewind;
use super::{ChatSession, tell};
use crate::console;
use crate::exit::ExitCode;
use crate::input::Input;
use crate::render::single_line;
use crate::session::SessionsError;
use crate::sessions::{HistoryEntry, SessionHistory};
use crate::signals::input_exit_code;
use crate::typed_text::typed_text;

/// The maximum number of messages to choose from.
const OFFERED: usize = 20;

/// The maximum number of characters shown of a message.
const WORDS: usize = 70;

/// A message of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PastMessage {
    /// Its change in the session, counted from zero.
    change: u64,
    /// What the user typed. The files that it names are attached again when it is sent again.
    text: String,
    /// The outputs of the user's commands that were sent with it; empty if there were none.
    outputs: String,
}

impl ChatSession<'_> {
    /// Lets the user choose a message, and rewinds to before it. The message is then in the prompt, or `draft` if none
    /// was chosen. Returns an exit status if the user leaves instead.
    pub(super) async fn turns(&mut self, draft: String, input: &mut Input) -> Option<ExitCode> {
        input.set_draft(draft);
        let Some(id) = self.conversation.session.clone() else {
            tell(Err(SessionsError::NoMessages));
            return None;
        };
        let found = match messages(&*self.conversation.store, &id).await {
            Ok(found) => found,
            Err(error) => {
                tell(Err(error));
                return None;
            }
        };
        let found = &found[found.len().saturating_sub(OFFERED)..];
        for (number, message) in (1..).zip(found) {
            console::tell(&format!("{number:>3}  {}", single_line(&message.text, WORDS)));
        }
        console::tell("number of the message to take back, or Enter to stay here:");
        let chosen = match chosen(input, self.signals.as_mut(), found.len(), None).await {
            Chosen::Entry(at) => &found[at],
            Chosen::Stay | Chosen::Extra => {
                console::tell("nothing was rewound");
                return None;
            }
            Chosen::Left(event) => return Some(input_exit_code(&event, self.failed)),
        };
        let back = Rewind { to: RewindPoint::TurnOf(chosen.change), files: false };
        match self.go_back(back, input).await {
            Ok(true) => {
                input.set_draft(chosen.text.clone());
                if !chosen.outputs.is_empty() {
                    self.printed.insert(0, chosen.outputs.clone());
                }
            }
            Ok(false) => {}
            Err(exit_code) => return Some(exit_code),
        }
        None
    }
}

/// Returns the messages of the user that are part of the conversation, the latest last.
async fn messages(
    store: &dyn SessionStore,
    id: &SessionId,
) -> Result<Vec<PastMessage>, SessionsError> {
    let Some(loaded) = store.load(id).await? else { return Ok(Vec::new()) };
    let entries = SessionHistory::of(&loaded.changes).entries.into_iter();
    let said = entries.filter_map(|it| match it.entry {
        HistoryEntry::Said { role: "user", text } => {
            let message = typed_text(&text);
            let [text, outputs] = [message.typed, message.outputs].map(str::to_owned);
            Some(PastMessage { change: it.change, text, outputs })
        }
        _ => None,
    });
    Ok(said.collect())
}
