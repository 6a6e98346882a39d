//! Simple commands: assignments, words and redirections.

use super::expansion::Operator;
use super::reader::{Read, Reader};
use super::script::{Assignment, Direction, Redirect, Simple, slice};
use super::word::{Word, is_identifier};

impl Reader<'_> {
    /// Reads the redirections after a compound command.
    pub(super) fn redirects_of_compound(&mut self) -> Read<()> {
        let start = self.at;
        let mut command = Simple::default();
        loop {
            self.blanks();
            let before = self.at;
            match self.peek() {
                Some(b'<' | b'>') => {}
                Some(b'&') if self.peek_second() == Some(b'>') => {}
                Some(b'0'..=b'9' | b'{') => {
                    self.word()?;
                    if !matches!(self.peek(), Some(b'<' | b'>')) {
                        self.at = before;
                        return self.fail("a command is followed by something unexpected");
                    }
                }
                _ => break,
            }
            self.redirect(&mut command)?;
        }
        if !command.redirects.is_empty() || !command.documents.is_empty() {
            slice(self.text, start..self.at).trim().clone_into(&mut command.source);
            self.script.push(command);
        }
        Ok(())
    }

    /// Reads a redirection from its operator on.
    fn redirect(&mut self, command: &mut Simple) -> Read<()> {
        let operator = if self.peek() == Some(b'&') {
            self.bump();
            self.peek();
            self.bump();
            self.take(b'>');
            self.script.is_bash_only = true;
            Operator::To(Direction::Write)
        } else {
            self.redirect_operator()
        };
        let mut direction = match operator {
            Operator::To(direction) | Operator::Copy(direction) => direction,
            Operator::Text => {
                self.script.is_bash_only = true;
                self.blanks();
                let text = self.nonempty_word()?;
                command.documents.push(self.script.documents.len());
                self.script.documents.push(text.known_prefix().to_owned());
                return Ok(());
            }
            Operator::Document { strips_tabs } => {
                command.documents.push(self.script.documents.len());
                return self.document(strips_tabs);
            }
        };
        self.blanks();
        let target = self.nonempty_word()?;
        if matches!(operator, Operator::Copy(_)) {
            let is_descriptor = |text: &str| {
                let digits = text.strip_suffix('-').unwrap_or(text);
                digits.bytes().all(|byte| byte.is_ascii_digit())
            };
            if target.literal().is_some_and(is_descriptor) {
                direction = Direction::Internal;
            } else {
                self.script.is_bash_only = true;
            }
        }
        // `< <(…)` and `> >(…)` are pipes.
        let is_pipe = target.text.starts_with("\u{1}<(") || target.text.starts_with("\u{1}>(");
        if is_pipe && target.text.find('\u{2}') == Some(target.text.len() - 1) {
            direction = Direction::Internal;
        }
        command.redirects.push(Redirect { direction, target });
        Ok(())
    }

    /// Reads a simple command or the definition of a function. What was read before an error is kept.
    pub(super) fn simple(&mut self) -> Read<()> {
        let start = self.at;
        let mut command = Simple::default();
        let result = self.parts(&mut command);
        match &result {
            Ok(None) => return Ok(()),
            Ok(Some(end)) if *end == start => return self.fail("a command is missing"),
            Ok(Some(end)) => slice(self.text, start..*end).clone_into(&mut command.source),
            Err(error) => slice(self.text, start..error.at).clone_into(&mut command.source),
        }
        self.script.push(command);
        result.map(drop)
    }

    /// Reads the parts of a simple command, and returns where it ends. Returns `None` if it is a
    /// function.
    fn parts(&mut self, command: &mut Simple) -> Read<Option<usize>> {
        let mut end = self.at;
        loop {
            self.blanks();
            match self.peek() {
                Some(b'&') if self.peek_second() == Some(b'>') => {
                    self.redirect(command)?;
                }
                None | Some(b'\n' | b';' | b'&' | b'|' | b')' | b'#') => break,
                Some(b'<' | b'>') if self.peek_second() != Some(b'(') => {
                    self.redirect(command)?;
                }
                Some(b'(') => {
                    let is_name = command.words.len() == 1
                        && command.assignments.is_empty()
                        && command.redirects.is_empty();
                    self.bump();
                    self.blanks();
                    if !is_name || !self.take(b')') {
                        return self.fail("a parenthesis is in the wrong place");
                    }
                    return self.function_body(&command.words[0]).map(|()| None);
                }
                Some(_) => self.part(command)?,
            }
            end = self.at;
        }
        Ok(Some(end))
    }

    /// Reads an assignment, a word or the descriptor of a redirection.
    fn part(&mut self, command: &mut Simple) -> Read<()> {
        let start = self.at;
        let word = self.word()?;
        let source = slice(self.text, start..self.at);
        if matches!(self.peek(), Some(b'<' | b'>')) && is_descriptor(source) {
            self.script.is_bash_only |= source.starts_with('{');
            self.redirect(command)?;
            return Ok(());
        }
        let is_leading = command.words.is_empty();
        let is_declaration =
            command.words.first().and_then(Word::literal).is_some_and(is_declaration);
        if is_leading || is_declaration {
            let is_array = self.peek() == Some(b'(') && source.ends_with('=');
            match assigned(source) {
                Assigned::Name(name) => {
                    self.script.is_bash_only |= !source[name.len()..].starts_with('=');
                    let is_element = source[name.len()..].starts_with('[');
                    self.script.has_arithmetic |= is_element;
                    if is_element {
                        self.script.evaluated.evaluate(&source[name.len()..]);
                    }
                    let name = name.to_owned();
                    let value = if is_array { self.array()? } else { word.clone() };
                    command.assignments.push(Assignment { name, value });
                    if is_declaration {
                        command.words.push(word);
                    }
                    return Ok(());
                }
                Assigned::Unclear => return self.fail("a subscript cannot be parsed"),
                Assigned::No => {}
            }
        }
        command.words.push(word);
        Ok(())
    }

    /// Reads `( … )` after `name=`.
    fn array(&mut self) -> Read<Word> {
        self.script.is_bash_only = true;
        self.bump();
        let mut value = Word::default();
        loop {
            self.lines()?;
            match self.peek() {
                Some(b')') => {
                    self.bump();
                    return Ok(value);
                }
                None | Some(b'(' | b'&' | b'|' | b';') => {
                    return self.fail("an array cannot be parsed");
                }
                Some(b'<' | b'>') if self.peek_second() != Some(b'(') => {
                    return self.fail("an array cannot be parsed");
                }
                Some(_) => {
                    let word = self.word()?;
                    value.text.push_str(&word.text);
                    value.text.push(' ');
                    value.is_unknown |= word.is_unknown;
                    value.is_quoted |= word.is_quoted;
                }
            }
        }
    }
}

fn is_declaration(word: &str) -> bool {
    matches!(word, "declare" | "typeset" | "local" | "export" | "readonly" | "alias")
}

/// Returns `true` for `2` and `{name}`, which may stand before a redirection.
fn is_descriptor(source: &str) -> bool {
    let name = source.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(is_identifier)
        || (!source.is_empty() && source.bytes().all(|byte| byte.is_ascii_digit()))
}

enum Assigned<'a> {
    Name(&'a str),
    No,
    /// A subscript that this reader would not separate as bash does.
    Unclear,
}

/// Returns the variable that a word assigns to, told from its text.
fn assigned(source: &str) -> Assigned<'_> {
    let len =
        source.bytes().take_while(|byte| *byte == b'_' || byte.is_ascii_alphanumeric()).count();
    let (name, rest) = source.split_at(len);
    if !is_identifier(name) {
        return Assigned::No;
    }
    if rest.starts_with('=') || rest.starts_with("+=") {
        return Assigned::Name(name);
    }
    let Some(subscript) = rest.strip_prefix('[') else { return Assigned::No };
    let Some((inside, after)) = subscript.split_once(']') else { return Assigned::Unclear };
    let is_plain = !inside.contains(['\'', '"', '\\', '[']);
    match after.starts_with('=') || after.starts_with("+=") {
        _ if !is_plain => Assigned::Unclear,
        true => Assigned::Name(name),
        false => Assigned::No,
    }
}
