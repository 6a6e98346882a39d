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
            Event::Key(KeyEvent { code: KeyCode::Backspace, .. }) => drop(self.draft.pop()),
            Event::Key(KeyEvent { code: KeyCode::Char(letter), modifiers, .. }) => {
                match (letter, modifiers.contains(KeyModifiers::CONTROL)) {
                    (letter, false) => self.draft.push(*letter),
                    ('j', true) => self.end_line(),
                    ('u', true) => self.draft.clear(),
                    ('w', true) => self.drop_word(),
                    _ => {}
                }
            }
            Event::Key(KeyEvent { code: KeyCode::Tab, .. }) => self.draft.push(' '),
            _ => {}
        }
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
            (KeyCode::Left, none),
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
