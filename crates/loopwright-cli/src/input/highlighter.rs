//! What is typed looks as the terminal shows text, without the characters that would steer the terminal.

use reedline::{Highlighter, StyledText};

use super::line_keys::LineKeys;
use crate::render::steers_terminal;

/// Gives no colour to what is typed. It tells the keys whether something stands at the prompt.
pub(super) struct Unstyled(LineKeys);

impl Unstyled {
    pub(super) fn new(line: LineKeys) -> Self {
        Self(line)
    }
}

impl Highlighter for Unstyled {
    #[expect(clippy::default_trait_access, reason = "`reedline` does not export the type")]
    fn highlight(&self, line: &str, _cursor: usize) -> StyledText {
        self.0.shows(line);
        let mut text = StyledText::new();
        text.push((Default::default(), line.chars().map(shown).collect()));
        text
    }
}

/// Returns what is shown for a character: itself, unless it steers the terminal. Its bytes are as many, because the
/// editor counts the place of the cursor in bytes.
fn shown(c: char) -> char {
    match c.len_utf8() {
        _ if !steers_terminal(c) => c,
        1 => '?',
        2 => '¿',
        _ => char::REPLACEMENT_CHARACTER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_shown_without_what_steers_the_terminal_and_as_long_in_bytes() {
        let shown = |line: &str| Unstyled::new(LineKeys::default()).highlight(line, 0).raw_string();
        let line = "a\u{1b}]0;T\u{7}\u{9b}31m\u{61c}\u{202e}b\u{2066}\r";
        assert_eq!(shown(line), "a?]0;T?¿31m¿\u{fffd}b\u{fffd}?");
        assert_eq!(shown(line).len(), line.len());
        let harmless = "größe\t日本\n🎈";
        assert_eq!(shown(harmless), harmless);
    }
}
