//! A line that moves while something takes long, with lines below it.
//!
//! The cursor stays at its start. If the terminal becomes narrower and breaks the line, the cursor is still there, and what
//! is erased from there on is all of it.

use std::io;

use anstream::{AutoStream, ColorChoice};
use anstyle::Style;

const FAINT: Style = Style::new().dimmed();

/// The frames of the spinner.
const GLYPHS: [char; 8] = ['⠁', '⠂', '⠄', '⡀', '⢀', '⠠', '⠐', '⠈'];

/// Takes the line away, and what is below it.
const ERASE: &str = "\r\u{1b}[J";

/// A line that moves.
#[derive(Debug, Default)]
pub(super) struct Spinner {
    is_seen: bool,
    turns: usize,
}

impl Spinner {
    /// Returns what draws it in its next position, with lines below it. No line may be wider than the terminal.
    pub(super) fn next(&mut self, text: &str, below: &[String]) -> String {
        let glyph = GLYPHS[self.turns % GLYPHS.len()];
        self.turns = self.turns.wrapping_add(1);
        self.is_seen = true;
        let mut rows = vec![format!("  {glyph} {text}")];
        rows.extend(below.iter().map(|it| format!("    {FAINT}{it}{FAINT:#}")));
        let rows = rows.iter().map(|row| shown(row) + "\u{1b}[K").collect::<Vec<_>>().join("\n");
        let up = match below.len() {
            0 => String::new(),
            rows => format!("\u{1b}[{rows}A"),
        };
        format!("\r{rows}\u{1b}[J\r{up}")
    }

    /// Returns what takes it away, if it is seen.
    pub(super) fn erase(&mut self) -> Option<&'static str> {
        std::mem::take(&mut self.is_seen).then_some(ERASE)
    }
}

/// Returns a text with its styles, if the terminal is to have colours.
fn shown(text: &str) -> String {
    match AutoStream::choice(&io::stderr()) {
        ColorChoice::Never => anstream::adapter::strip_str(text).to_string(),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cursor_is_at_the_start_of_the_line_and_what_is_erased_is_all_of_it() {
        let mut spinner = Spinner::default();
        assert_eq!(spinner.erase(), None);
        let drawn = |text: &str| {
            let size = |count: u16| std::num::NonZeroU16::new(count).unwrap();
            let mut parser = vt100::Parser::new(size(10), size(20), 0);
            parser.process(format!("above\r\n{}", text.replace('\n', "\r\n")).as_bytes());
            (parser.screen().contents(), parser.screen().cursor_position())
        };
        let first = spinner.next("bash make · 2 s", &["one".to_owned(), "two".to_owned()]);
        let seen = "above\n  ⠁ bash make · 2 s\n    one\n    two".to_owned();
        assert_eq!(drawn(&first), (seen, (1, 0)));
        let second = spinner.next("bash make · 3 s", &[]);
        let seen = "above\n  ⠂ bash make · 3 s".to_owned();
        assert_eq!(drawn(&(first.clone() + &second)), (seen, (1, 0)));
        let erased = spinner.erase().unwrap();
        assert_eq!(drawn(&(first + erased)), ("above".to_owned(), (1, 0)));
        assert_eq!(spinner.erase(), None);
    }
}
