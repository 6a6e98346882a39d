//! What was typed before a prompt opened for it.

use std::collections::VecDeque;
use std::time::Duration;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, poll, read};
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};

/// How long the terminal is asked for a key that waits. For no time at all, `crossterm` does not ask it.
const AT_ONCE: Duration = Duration::from_millis(1);

/// Returns `true` if a key waits at the terminal.
pub(super) fn is_key_waiting() -> bool {
    poll(AT_ONCE).unwrap_or_default()
}

/// Input typed ahead: complete lines, the beginning of another one, and keys that only a prompt understands.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ahead {
    pub(super) lines: VecDeque<String>,
    pub(super) draft: String,
    /// Keys behind that text, from the first one that is not text.
    pub(super) keys: VecDeque<Event>,
}

impl Ahead {
    /// Takes what waits at the terminal.
    pub(super) fn absorb(&mut self) {
        if enable_raw_mode().is_err() {
            return;
        }
        while is_key_waiting() {
            let Ok(event) = read() else { break };
            self.take(&event);
        }
        disable_raw_mode().ok();
    }

    /// Takes a key or a pasted text. From the first key that only a prompt understands, such as Ctrl-R, all are kept for it: what
    /// is behind that key may be meant for something else than the text.
    pub(super) fn take(&mut self, event: &Event) {
        let is_release = matches!(event, Event::Key(KeyEvent { kind: KeyEventKind::Release, .. }));
        if is_release || (self.keys.is_empty() && self.take_text(event)) {
            return;
        }
        if matches!(event, Event::Key(_) | Event::Paste(_)) {
            self.keys.push_back(event.clone());
        }
    }

    /// Takes what is text, or corrects it. Returns `false` for other keys.
    pub(super) fn take_text(&mut self, event: &Event) -> bool {
        match event {
            Event::Paste(text) => {
                self.draft.push_str(&text.replace("\r\n", "\n").replace('\r', "\n"));
            }
            Event::Key(KeyEvent { code: KeyCode::Enter, .. }) => self.end_line(),
            Event::Key(KeyEvent { code: KeyCode::Backspace, .. }) => drop(self.draft.pop()),
            Event::Key(KeyEvent { code: KeyCode::Char(letter), modifiers, .. }) => {
                match (letter, modifiers.contains(KeyModifiers::CONTROL)) {
                    (letter, false) => self.draft.push(*letter),
                    ('j', true) => self.end_line(),
                    ('u', true) => self.draft.clear(),
                    ('w', true) => self.drop_word(),
                    _ => return false,
                }
            }
            Event::Key(KeyEvent { code: KeyCode::Tab, .. }) => self.draft.push(' '),
            // It was for what happened then.
            Event::Key(KeyEvent { code: KeyCode::Esc, .. }) => {}
            _ => return false,
        }
        true
    }

    fn drop_word(&mut self) {
        let kept = self.draft.trim_end();
        let kept = kept.rfind(char::is_whitespace).map_or(0, |it| it + 1);
        self.draft.truncate(kept);
    }

    fn end_line(&mut self) {
        if self.draft.ends_with('\\') {
            self.draft.push('\n');
        } else {
            self.lines.push_back(std::mem::take(&mut self.draft));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(keys: &[(KeyCode, KeyModifiers)]) -> Ahead {
        let mut ahead = Ahead::default();
        for (code, modifiers) in keys {
            ahead.take(&Event::Key(KeyEvent::new(*code, *modifiers)));
        }
        ahead
    }

    #[test]
    fn a_letter_behind_escape_is_a_letter() {
        let none = KeyModifiers::NONE;
        // A terminal sends Alt-h and Esc followed by h as the same bytes.
        let keys = [
            (KeyCode::Char('h'), KeyModifiers::ALT),
            (KeyCode::Char('i'), none),
            (KeyCode::Esc, none),
            (KeyCode::Char('!'), none),
        ];
        let expect = Ahead { draft: "hi!".to_owned(), ..Ahead::default() };
        assert_eq!(typed(&keys), expect);
    }

    #[test]
    fn a_correction_is_made_as_at_the_prompt() {
        let (none, control) = (KeyModifiers::NONE, KeyModifiers::CONTROL);
        let keys =
            |text: &str| text.chars().map(|it| (KeyCode::Char(it), none)).collect::<Vec<_>>();
        let (backspace, u, w) = (
            (KeyCode::Backspace, none),
            (KeyCode::Char('u'), control),
            (KeyCode::Char('w'), control),
        );
        let all = [keys("gone"), vec![u], keys("a bad "), vec![w], keys("bx"), vec![backspace]];
        assert_eq!(typed(&all.concat()), Ahead { draft: "a b".to_owned(), ..Ahead::default() });
    }

    #[test]
    fn keys_from_the_first_that_is_no_text_are_kept_for_the_prompt() {
        let (none, control) = (KeyModifiers::NONE, KeyModifiers::CONTROL);
        let behind = [
            (KeyCode::Char('r'), control),
            (KeyCode::Char('a'), none),
            (KeyCode::Enter, none),
            (KeyCode::Left, none),
        ];
        let keys = [&[(KeyCode::Char('x'), none)][..], &behind].concat();
        let keep = |(code, modifiers)| Event::Key(KeyEvent::new(code, modifiers));
        let keys_kept = behind.map(keep).into();
        let expect = Ahead { draft: "x".to_owned(), keys: keys_kept, ..Ahead::default() };
        assert_eq!(typed(&keys), expect);
    }

    #[test]
    fn lines_are_kept_in_their_order_and_a_backslash_joins_them() {
        let none = KeyModifiers::NONE;
        let mut keys: Vec<(KeyCode, KeyModifiers)> =
            "a\\".chars().map(|it| (KeyCode::Char(it), none)).collect();
        keys.push((KeyCode::Char('j'), KeyModifiers::CONTROL));
        keys.push((KeyCode::Char('b'), none));
        keys.push((KeyCode::Enter, none));
        keys.push((KeyCode::Char('c'), none));
        let lines = VecDeque::from(["a\\\nb".to_owned()]);
        assert_eq!(typed(&keys), Ahead { lines, draft: "c".to_owned(), ..Ahead::default() });
    }
}
