//! Words of a command.

/// Marks the start of a part whose value is unknown. The text between the marks is its source.
pub(crate) const UNKNOWN_START: char = '\u{1}';
/// Marks the end of a part whose value is unknown.
pub(crate) const UNKNOWN_END: char = '\u{2}';

/// A word after quotes are removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent of each other")]
pub(crate) struct Word {
    /// The value. Parts that are known only when the command runs are between marks.
    pub(crate) text: String,
    /// A part of the value is unknown.
    pub(crate) is_unknown: bool,
    /// The word can become several words or none.
    pub(crate) splits: bool,
    /// A part of the word is quoted.
    pub(crate) is_quoted: bool,
    /// The word starts with an unquoted `~`.
    pub(crate) has_tilde: bool,
}

impl Word {
    /// Creates a word whose value is known.
    pub(crate) fn from_literal(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Creates a word that is not known at all and may be any number of words.
    pub(crate) fn unknown(source: &str) -> Self {
        let mut word = Self::default();
        word.push_unknown(source);
        word.splits = true;
        word
    }

    /// Returns the value, or `None` if a part of it is unknown.
    pub(crate) fn literal(&self) -> Option<&str> {
        (!self.is_unknown).then_some(&*self.text)
    }

    /// Returns the value up to the first unknown part.
    pub(crate) fn known_prefix(&self) -> &str {
        self.text.split(UNKNOWN_START).next().unwrap_or_default()
    }

    pub(crate) fn push_unknown(&mut self, source: &str) {
        self.text.push(UNKNOWN_START);
        let is_mark = |mark: char| mark == UNKNOWN_START || mark == UNKNOWN_END;
        self.text.extend(source.chars().filter(|character| !is_mark(*character)));
        self.text.push(UNKNOWN_END);
        self.is_unknown = true;
    }

    /// Replaces the whole value by an unknown one.
    pub(crate) fn forget(&mut self, source: &str) {
        self.text.clear();
        self.push_unknown(source);
        self.splits = true;
    }
}

/// Returns `true` if a text is a name of a variable.
pub(crate) fn is_identifier(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|first| first == b'_' || first.is_ascii_alphabetic())
        && bytes.all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
}
