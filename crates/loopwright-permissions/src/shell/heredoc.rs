//! Here-documents.

use super::reader::{MAX_DEPTH, Read, Reader};
use super::script::{ReadError, ScopeKind, slice};

/// A here-document whose text follows.
#[derive(Debug)]
pub(super) struct PendingDocument {
    /// Its place in the script.
    id: usize,
    /// The line that ends it.
    delimiter: String,
    /// The text is not expanded.
    is_literal: bool,
    /// Tabs at the start of lines are removed.
    strips_tabs: bool,
}

impl Reader<'_> {
    /// Reads the delimiter after `<<`.
    pub(super) fn document(&mut self, strips_tabs: bool) -> Read<()> {
        self.blanks();
        let start = self.at;
        let word = self.word()?;
        let source = slice(self.text, start..self.at);
        if source.is_empty() {
            return self.fail("a here-document has no delimiter");
        }
        if word.is_unknown || source.contains(['$', '`', '\n']) {
            return self.fail("the delimiter of a here-document has an expansion");
        }
        let is_literal = word.is_quoted;
        let id = self.script.documents.len();
        self.script.documents.push(String::new());
        let delimiter = word.text;
        self.documents.push(PendingDocument { id, delimiter, is_literal, strips_tabs });
        Ok(())
    }

    /// Reads the here-documents that start at this line.
    pub(super) fn read_documents(&mut self) -> Read<()> {
        for document in std::mem::take(&mut self.documents) {
            let body = self.body(&document);
            if let Some(text) = self.script.documents.get_mut(document.id) {
                text.clone_from(&body);
            }
            if document.is_literal && super::expansion::holds_command(&body) {
                self.script.has_quoted_command = true;
            }
            if !document.is_literal && body.contains(['$', '`']) {
                self.expand(&body)?;
            }
        }
        Ok(())
    }

    /// Returns the lines up to the delimiter or the end of the text.
    fn body(&mut self, document: &PendingDocument) -> String {
        let mut body = String::new();
        while self.at < self.text.len() {
            let line = self.line(document);
            if line == document.delimiter {
                break;
            }
            body.push_str(&line);
            body.push('\n');
        }
        body
    }

    /// Takes a line. In a document that is expanded, a backslash joins it with the next one. Tabs are removed when the
    /// line is complete.
    fn line(&mut self, document: &PendingDocument) -> String {
        let mut line = String::new();
        while let Some(next) = self.take_char() {
            match next {
                '\n' => break,
                '\\' if !document.is_literal => match self.take_char() {
                    Some('\n') => {}
                    Some(escaped) => line.extend(['\\', escaped]),
                    None => line.push('\\'),
                },
                other => line.push(other),
            }
        }
        if document.strips_tabs {
            line.drain(..line.len() - line.trim_start_matches('\t').len());
        }
        line
    }

    /// Reads the expansions of a text as in double quotes, where quotes are ordinary characters.
    fn expand(&mut self, body: &str) -> Read<()> {
        if self.depth >= MAX_DEPTH {
            return Err(ReadError { reason: "the text is nested too deeply", at: self.at });
        }
        self.script.open(ScopeKind::Detached, true);
        let mut reader = Reader {
            text: body,
            at: 0,
            depth: self.depth + 1,
            script: &mut *self.script,
            documents: Vec::new(),
        };
        let mut ignored = super::word::Word::default();
        while let Some(byte) = reader.peek() {
            match byte {
                b'\\' => {
                    reader.bump();
                    _ = reader.take_char();
                }
                b'$' => reader.dollar(&mut ignored, true)?,
                b'`' => reader.backquotes(&mut ignored, true)?,
                _ => reader.bump(),
            }
            ignored.text.clear();
        }
        self.script.close();
        Ok(())
    }
}
