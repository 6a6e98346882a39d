//! Special keys at the prompt: long pastes, which are folded, and Esc Esc.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use reedline::{EditCommand, EditMode, Emacs, PromptEditMode, ReedlineEvent, ReedlineRawEvent};

/// What Esc twice stands for. It is sent like a typed line: the editor takes what else is printed while a line is open
/// for a part of its prompt, and draws over it. What is at the prompt follows, and is not lost.
const TURNS: &str = "/turns ";

/// How soon after another one Esc is the second one.
const TWICE: Duration = Duration::from_millis(600);

/// The most lines of a paste that is shown as it is.
const LINES: usize = 5;

/// The most characters of a paste that is shown as it is.
const CHARACTERS: usize = 1_000;

/// Pasted texts that are folded to one word. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Pastes(Arc<Mutex<Vec<(String, String)>>>);

impl Pastes {
    /// Returns what stands for a text; `None` if it is short enough to be shown.
    fn fold(&self, text: &str) -> Option<String> {
        let lines = text.lines().count();
        let size = if lines > LINES {
            format!("{lines} lines")
        } else if text.chars().count() > CHARACTERS {
            format!("{} characters", text.chars().count())
        } else {
            return None;
        };
        let mut pastes = self.lock();
        let word = format!("[pasted {size} #{}]", pastes.len() + 1);
        pastes.push((word.clone(), text.to_owned()));
        Some(word)
    }

    /// Puts the texts in the place of what stands for them.
    pub(super) fn open(&self, text: &str) -> String {
        let pastes = self.lock();
        let mut opened = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find("[pasted ") {
            let (before, from) = rest.split_at(start);
            opened.push_str(before);
            let found = pastes.iter().find(|(word, _)| from.starts_with(word.as_str()));
            let (shown, length) = match found {
                Some((word, content)) => (content.as_str(), word.len()),
                None => ("[", 1),
            };
            opened.push_str(shown);
            rest = &from[length..];
        }
        opened + rest
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(String, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The keys of an editor, with those that mean more.
pub(super) struct ChatKeys {
    inner: Emacs,
    pastes: Pastes,
    /// When Esc was last pressed.
    escaped: Option<Instant>,
}

impl ChatKeys {
    pub(super) fn new(inner: Emacs, pastes: Pastes) -> Self {
        Self { inner, pastes, escaped: None }
    }
}

impl EditMode for ChatKeys {
    fn parse_event(&mut self, event: ReedlineRawEvent) -> ReedlineEvent {
        let event: Event = event.into();
        let before = self.escaped.take();
        match &event {
            Event::Paste(text) => {
                let text = text.replace("\r\n", "\n").replace('\r', "\n");
                if let Some(word) = self.pastes.fold(&text) {
                    return ReedlineEvent::Edit(vec![EditCommand::InsertString(word)]);
                }
            }
            Event::Key(KeyEvent { code: KeyCode::Esc, modifiers: KeyModifiers::NONE, .. }) => {
                if before.is_some_and(|it| it.elapsed() < TWICE) {
                    let start = EditCommand::MoveToStart { select: false };
                    let turns = EditCommand::InsertString(TURNS.to_owned());
                    let edits = ReedlineEvent::Edit(vec![start, turns]);
                    return ReedlineEvent::Multiple(vec![edits, ReedlineEvent::Submit]);
                }
                self.escaped = Some(Instant::now());
            }
            _ => {}
        }
        match ReedlineRawEvent::try_from(event) {
            Ok(event) => self.inner.parse_event(event),
            Err(()) => ReedlineEvent::None,
        }
    }

    fn edit_mode(&self) -> PromptEditMode {
        self.inner.edit_mode()
    }
}

#[cfg(test)]
mod tests {
    use reedline::default_emacs_keybindings;

    use super::*;

    fn keys() -> (ChatKeys, Pastes) {
        let pastes = Pastes::default();
        (ChatKeys::new(Emacs::new(default_emacs_keybindings()), pastes.clone()), pastes)
    }

    fn press(keys: &mut ChatKeys, event: Event) -> ReedlineEvent {
        keys.parse_event(ReedlineRawEvent::try_from(event).unwrap())
    }

    #[test]
    fn a_long_paste_is_a_word_until_it_is_opened() {
        let (mut keys, pastes) = keys();
        let mut paste = |text: &str| match press(&mut keys, Event::Paste(text.to_owned())) {
            ReedlineEvent::Edit(commands) => match &commands[..] {
                [EditCommand::InsertString(text)] => text.clone(),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        };
        let long = "line\r\n".repeat(300);
        assert_eq!(paste(&long), "[pasted 300 lines #1]");
        assert_eq!(paste(&"x".repeat(1_001)), "[pasted 1001 characters #2]");
        assert_eq!(paste("one\rtwo"), "one\ntwo");
        let said =
            "See [pasted 300 lines #1], [pasted 2 lines #9] and [pasted 1001 characters #2].";
        let opened =
            format!("See {}, [pasted 2 lines #9] and {}.", "line\n".repeat(300), "x".repeat(1_001));
        assert_eq!(pastes.open(said), opened);
        // What is pasted is not opened in turn.
        assert_eq!(paste(&"[pasted 300 lines #1]\n".repeat(6)), "[pasted 6 lines #3]");
        assert_eq!(pastes.open("[pasted 6 lines #3]"), "[pasted 300 lines #1]\n".repeat(6));
    }

    #[test]
    fn escape_twice_lists_the_messages_and_another_key_between_does_not() {
        let (mut keys, _) = keys();
        let key = |code| Event::Key(KeyEvent::new(code, KeyModifiers::NONE));
        let (escape, letter) = (key(KeyCode::Esc), key(KeyCode::Char('a')));
        let is_sent = |event: ReedlineEvent| matches!(event, ReedlineEvent::Multiple(_));
        let mut press = |event: &Event| is_sent(press(&mut keys, event.clone()));
        let pressed = [&escape, &letter, &escape, &escape, &escape].map(&mut press);
        assert_eq!(pressed, [false, false, false, true, false]);
    }
}
