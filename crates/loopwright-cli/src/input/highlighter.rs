//! What is typed looks as the terminal shows text.

use reedline::{Highlighter, StyledText};

use super::keys::LineKeys;

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
        text.push((Default::default(), line.to_owned()));
        text
    }
}
