//! The position in a text, and the limits of parsing.

use super::heredoc::PendingDocument;
use super::script::{Problem, ReadError, Script};

/// How long a text may be, in bytes.
pub(crate) const MAX_BYTES: usize = 128 << 10;
/// How many simple commands a text may have.
pub(crate) const MAX_COMMANDS: usize = 1_000;
/// How deep constructs may be nested.
pub(crate) const MAX_DEPTH: usize = 32;

pub(crate) type Read<T> = Result<T, ReadError>;

/// A text that is being read.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
    pub(super) depth: usize,
    pub(super) script: &'a mut Script,
    /// Here-documents whose text follows the next line end.
    pub(super) documents: Vec<PendingDocument>,
}

/// Reads a command text. Never fails: what cannot be read is in [`Script::error`].
pub(crate) fn read(text: &str) -> Script {
    let mut script = Script::default();
    let result = read_into(text, 0, &mut script);
    script.error = result.err();
    script.find_certain_functions();
    if script.has_arithmetic && script.has_quoted_command {
        script.problems.push(Problem::Arithmetic);
    }
    if script.evaluates_data() {
        script.problems.push(Problem::Data);
    }
    script
}

/// Reads a text that is part of another one.
pub(super) fn read_into(text: &str, depth: usize, script: &mut Script) -> Read<()> {
    if text.len() > MAX_BYTES {
        return Err(ReadError { reason: "the text is too long", at: 0 });
    }
    if let Some(at) = text.find(['\0', '\u{1}', '\u{2}', '\u{1f}']) {
        return Err(ReadError { reason: "the text contains a control character", at });
    }
    let mut reader = Reader { text, at: 0, depth, script, documents: Vec::new() };
    reader.enter()?;
    reader.program()
}

impl Reader<'_> {
    pub(super) fn fail<T>(&self, reason: &'static str) -> Read<T> {
        Err(ReadError { reason, at: self.at })
    }

    /// Counts a level of nesting.
    pub(super) fn enter(&mut self) -> Read<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { self.fail("the text is nested too deeply") } else { Ok(()) }
    }

    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Returns the next byte as it is.
    pub(super) fn raw(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Returns the next byte, after line continuations.
    pub(super) fn peek(&mut self) -> Option<u8> {
        while self.text.as_bytes()[self.at..].starts_with(b"\\\n") {
            self.at += 2;
        }
        self.raw()
    }

    /// Returns the byte after the next one.
    pub(super) fn peek_second(&mut self) -> Option<u8> {
        self.peek()?;
        let mut next = self.at + 1;
        while self.text.as_bytes()[next..].starts_with(b"\\\n") {
            next += 2;
        }
        self.text.as_bytes().get(next).copied()
    }

    /// Consumes the next byte, which [`Reader::peek`] returned.
    pub(super) fn bump(&mut self) {
        self.at += 1;
    }

    /// Consumes the next byte if it is this one.
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    /// Consumes a whole character.
    pub(super) fn take_char(&mut self) -> Option<char> {
        let next = self.text.get(self.at..)?.chars().next()?;
        self.at += next.len_utf8();
        Some(next)
    }

    /// Skips blanks.
    pub(super) fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.bump();
        }
    }

    /// Skips blanks, comments and line ends. Here-documents are read at a line end.
    pub(super) fn lines(&mut self) -> Read<()> {
        loop {
            self.blanks();
            match self.peek() {
                Some(b'#') => self.comment(),
                Some(b'\n') => {
                    self.bump();
                    self.read_documents()?;
                }
                _ => return Ok(()),
            }
        }
    }

    /// Skips a comment. A backslash does not continue it.
    pub(super) fn comment(&mut self) {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    }

    /// Returns the unquoted word that is next, without consuming it, and where it ends. Returns an empty one if
    /// it is longer than any reserved word, or if quotes or expansions are part of it.
    pub(super) fn peek_reserved(&mut self) -> (ReservedText, usize) {
        let bytes = self.text.as_bytes();
        let mut found = ReservedText::default();
        let mut at = self.at;
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'\\' if bytes.get(at + 1) == Some(&b'\n') => at += 2,
                b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')' | b'<' | b'>' => break,
                b'\\' | b'\'' | b'"' | b'$' | b'`' => return (ReservedText::default(), self.at),
                byte => {
                    if !found.push(*byte) {
                        return (ReservedText::default(), self.at);
                    }
                    at += 1;
                }
            }
        }
        (found, at)
    }
}

/// A short text without an allocation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReservedText {
    bytes: [u8; 8],
    len: usize,
}

impl ReservedText {
    fn push(&mut self, byte: u8) -> bool {
        let Some(slot) = self.bytes.get_mut(self.len) else { return false };
        *slot = byte;
        self.len += 1;
        true
    }

    pub(super) fn as_str(&self) -> &str {
        str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }
}
