//! Text that was typed while an agent worked.

use std::collections::VecDeque;
use std::time::Duration;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, poll, read};
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};

/// Input typed ahead: complete lines, and the beginning of another one.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ahead {
    pub(super) lines: VecDeque<String>,
    pub(super) draft: String,
}

impl Ahead {
    /// Takes what waits at the terminal.
    pub(super) fn absorb(&mut self) {
        if enable_raw_mode().is_err() {
            return;
        }
        while poll(Duration::ZERO).unwrap_or_default() {
            let Ok(event) = read() else { break };
            self.take(&event);
        }
        disable_raw_mode().ok();
    }

    pub(super) fn take(&mut self, event: &Event) {
        match event {
            Event::Paste(text) => {
                self.draft.push_str(&text.replace("\r\n", "\n").replace('\r', "\n"));
            }
            Event::Key(KeyEvent { kind: KeyEventKind::Release, .. }) => {}
            Event::Key(KeyEvent { code: KeyCode::Enter, .. }) => self.end_line(),
            Event::Key(KeyEvent { code: KeyCode::Char(letter), modifiers, .. }) => {
                if !modifiers.contains(KeyModifiers::CONTROL) {
                    self.draft.push(*letter);
                } else if *letter == 'j' {
                    self.end_line();
                }
            }
            Event::Key(KeyEvent { code: KeyCode::Tab, .. }) => self.draft.push(' '),
            _ => {}
        }
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
            (KeyCode::Left, none),
            (KeyCode::Char('!'), none),
        ];
        let expect = Ahead { draft: "hi!".to_owned(), ..Ahead::default() };
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
        assert_eq!(typed(&keys), Ahead { lines, draft: "c".to_owned() });
    }
}
