//! Words: quotes, expansions and substitutions.

use super::evaluation::{has_offset, runs};
use super::reader::{Read, Reader, read_into};
use super::script::{Direction, Problem, ReadError, ScopeKind, slice};
use super::word::Word;
use crate::variables::is_powerful;

impl Reader<'_> {
    /// Reads a word up to a blank or an operator. It is empty if there is none.
    pub(super) fn word(&mut self) -> Read<Word> {
        let mut word = Word::default();
        let mut shape = Shape::default();
        self.peek();
        let start = self.at;
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')' => break,
                b'<' | b'>' => {
                    if self.peek_second() != Some(b'(') {
                        break;
                    }
                    self.process_substitution(&mut word)?;
                }
                b'\'' => self.single_quotes(&mut word)?,
                b'"' => self.double_quotes(&mut word)?,
                b'\\' => {
                    self.bump();
                    word.is_quoted = true;
                    word.text.push(self.take_char().unwrap_or('\\'));
                }
                b'$' => self.dollar(&mut word, false)?,
                b'`' => self.backquotes(&mut word, false)?,
                b'*' | b'?' => {
                    self.bump();
                    word.push_unknown(if byte == b'*' { "*" } else { "?" });
                    word.splits = true;
                }
                byte => {
                    word.has_tilde |= byte == b'~' && self.at == start;
                    shape.see(byte, slice(self.text, self.at..self.at + 2));
                    word.text.extend(self.take_char());
                }
            }
        }
        if shape.expands() {
            self.script.is_bash_only |= shape.has_list;
            word.forget(slice(self.text, start..self.at));
        }
        if word.is_quoted && holds_command(&word.text) {
            self.script.has_quoted_command = true;
        }
        Ok(word)
    }

    fn single_quotes(&mut self, word: &mut Word) -> Read<()> {
        self.bump();
        let rest = slice(self.text, self.at..self.text.len());
        let Some(len) = rest.find('\'') else { return self.fail("a quote is not closed") };
        word.text.push_str(&rest[..len]);
        word.is_quoted = true;
        self.at += len + 1;
        Ok(())
    }

    fn double_quotes(&mut self, word: &mut Word) -> Read<()> {
        self.bump();
        word.is_quoted = true;
        loop {
            match self.peek() {
                None => return self.fail("a quote is not closed"),
                Some(b'"') => {
                    self.bump();
                    return Ok(());
                }
                Some(b'\\') => {
                    self.bump();
                    match self.raw() {
                        Some(escaped @ (b'$' | b'`' | b'"' | b'\\')) => {
                            word.text.push(char::from(escaped));
                            self.bump();
                        }
                        _ => word.text.push('\\'),
                    }
                }
                Some(b'$') => self.dollar(word, true)?,
                Some(b'`') => self.backquotes(word, true)?,
                Some(_) => word.text.extend(self.take_char()),
            }
        }
    }

    /// Reads what starts with `$`.
    pub(super) fn dollar(&mut self, word: &mut Word, in_quotes: bool) -> Read<()> {
        let start = self.at;
        let next = self.peek_second();
        self.bump();
        match next {
            Some(b'(') => {
                self.take(b'(');
                if self.peek() == Some(b'(') {
                    self.bump();
                    self.script.has_arithmetic = true;
                    self.arithmetic()?;
                } else {
                    self.substitution()?;
                }
            }
            Some(b'{') => {
                self.take(b'{');
                self.braces(in_quotes)?;
                word.splits |= slice(self.text, start..self.at).contains('@');
            }
            Some(b'[') => return self.fail("`$[` is not supported"),
            Some(b'\'') if !in_quotes => {
                self.take(b'\'');
                return self.ansi_quotes(word);
            }
            Some(b'"') if !in_quotes => {
                self.script.is_bash_only = true;
                self.peek();
                return self.double_quotes(word);
            }
            Some(byte) if byte == b'_' || byte.is_ascii_alphabetic() => {
                while self.peek().is_some_and(|next| next == b'_' || next.is_ascii_alphanumeric()) {
                    self.bump();
                }
            }
            Some(b'0'..=b'9' | b'@' | b'*' | b'#' | b'?' | b'-' | b'$' | b'!') => {
                self.peek();
                self.bump();
                word.splits |= next == Some(b'@');
            }
            _ => {
                word.text.push('$');
                return Ok(());
            }
        }
        word.push_unknown(slice(self.text, start..self.at));
        word.splits |= !in_quotes;
        Ok(())
    }

    /// Reads the commands of `$(…)`, after its start.
    fn substitution(&mut self) -> Read<()> {
        self.enter()?;
        self.script.open(ScopeKind::Group, true);
        self.parentheses()?;
        self.script.close();
        self.leave();
        Ok(())
    }

    fn process_substitution(&mut self, word: &mut Word) -> Read<()> {
        self.script.is_bash_only = true;
        let start = self.at;
        self.bump();
        self.take(b'(');
        self.substitution()?;
        word.push_unknown(slice(self.text, start..self.at));
        Ok(())
    }

    /// Reads an arithmetic expression up to `))`. It cannot be mistaken for commands in parentheses: these would
    /// contain something that ends the reading here.
    pub(super) fn arithmetic(&mut self) -> Read<()> {
        self.enter()?;
        let start = self.at;
        let mut ignored = Word::default();
        let mut open = 0_usize;
        loop {
            match self.peek() {
                Some(b')') if open == 0 => {
                    self.bump();
                    if self.raw() != Some(b')') {
                        return self.fail("`((` is not an arithmetic expression");
                    }
                    self.bump();
                    break;
                }
                Some(b'(') => open += 1,
                Some(b')') => open -= 1,
                Some(byte @ (b'$' | b'`')) => {
                    let start = self.at;
                    if byte == b'$' {
                        self.dollar(&mut ignored, true)?;
                    } else {
                        self.backquotes(&mut ignored, true)?;
                    }
                    ignored.text.clear();
                    // bash counts the parentheses of what is quoted in another way.
                    if slice(self.text, start..self.at).contains(['\'', '"', '\\']) {
                        return self.fail("an arithmetic expression contains a quote");
                    }
                    continue;
                }
                None | Some(b'\'' | b'"' | b'\\' | b'{' | b'}' | b'@') => {
                    return self.fail("an arithmetic expression cannot be parsed");
                }
                Some(_) => {}
            }
            self.bump();
        }
        self.script.evaluated.evaluate(slice(self.text, start..self.at));
        self.leave();
        Ok(())
    }

    /// Reads `${…}` after its start.
    fn braces(&mut self, in_quotes: bool) -> Read<()> {
        self.enter()?;
        let start = self.at;
        match self.peek() {
            Some(b' ' | b'\t' | b'\n' | b'|' | b'(') => {
                return self.fail("`${` is followed by a command");
            }
            Some(b'!') => self.script.problems.push(Problem::Indirection),
            _ => {}
        }
        // What stands in the braces themselves, and not in a part of their content.
        let mut own = String::new();
        let mut has_quotes = false;
        // `${#}`, `${#name}`, `${##…}` and `${$}`, whose first character is no quote and no expansion.
        if matches!(self.peek(), Some(b'#' | b'$' | b'!')) {
            self.bump();
        }
        let mut ignored = Word::default();
        loop {
            match self.peek() {
                None => return self.fail("`${` is not closed"),
                Some(b'}') => break,
                Some(b'\'') if in_quotes => {
                    return self.fail("`${…}` in double quotes contains a single quote");
                }
                Some(quote @ (b'\'' | b'"')) => {
                    has_quotes = true;
                    if quote == b'"' {
                        self.double_quotes(&mut ignored)?;
                    } else {
                        self.single_quotes(&mut ignored)?;
                    }
                }
                Some(b'\\') => {
                    has_quotes = true;
                    self.bump();
                    self.take_char();
                }
                Some(b'$') => self.dollar(&mut ignored, in_quotes)?,
                Some(b'`') => self.backquotes(&mut ignored, in_quotes)?,
                Some(b'{') => return self.fail("`${…}` contains a brace"),
                Some(b'<' | b'>') if self.peek_second() == Some(b'(') => {
                    return self.fail("`${…}` contains a process substitution");
                }
                Some(byte) => {
                    own.push(char::from(byte));
                    self.bump();
                }
            }
            ignored.text.clear();
        }
        // Offsets and subscripts are arithmetic.
        self.script.has_arithmetic |= own.contains(['[', ':']);
        if has_offset(&own) {
            self.script.evaluated.evaluate(slice(self.text, start..self.at));
        }
        let is_posix = |c: char| c == '_' || c.is_ascii_alphanumeric() || ":-=+?#%".contains(c);
        self.script.is_bash_only |= !own.chars().all(is_posix);
        if own.contains("@P") {
            self.script.problems.push(Problem::PromptExpansion);
        }
        if own.contains('[') && has_quotes {
            self.script.problems.push(Problem::Subscript);
        }
        let name = own.split([':', '=', '[']).next().unwrap_or_default();
        if own.contains('=') && is_powerful(name) {
            self.script.problems.push(Problem::Variable);
        }
        if own.contains('=') && runs(slice(self.text, start..self.at)) {
            self.script.evaluated.read(name);
        }
        self.bump();
        self.leave();
        Ok(())
    }

    /// Reads the commands between backquotes.
    pub(super) fn backquotes(&mut self, word: &mut Word, in_quotes: bool) -> Read<()> {
        let start = self.at;
        self.bump();
        let mut text = String::new();
        loop {
            match self.take_char() {
                None => return self.fail("a backquote is not closed"),
                Some('`') => break,
                Some('\\') => match self.take_char() {
                    Some(escaped @ ('\\' | '$' | '`')) => text.push(escaped),
                    Some('"') if in_quotes => {
                        return self.fail("backquotes in quotes contain an escaped quote");
                    }
                    Some(other) => text.extend(['\\', other]),
                    None => return self.fail("a backquote is not closed"),
                },
                Some(other) => text.push(other),
            }
        }
        self.script.open(ScopeKind::Group, true);
        let result = read_into(&text, self.depth, self.script);
        result.map_err(|error| ReadError { at: start, ..error })?;
        self.script.close();
        word.push_unknown(slice(self.text, start..self.at));
        word.splits |= !in_quotes;
        Ok(())
    }

    /// Reads `$'…'` after its start.
    fn ansi_quotes(&mut self, word: &mut Word) -> Read<()> {
        self.script.is_bash_only = true;
        word.is_quoted = true;
        let mut bytes = Vec::new();
        let mut is_cut = false;
        loop {
            let Some(next) = self.take_char() else { return self.fail("a quote is not closed") };
            match next {
                '\'' => break,
                '\\' => {
                    let value = self.escape()?;
                    is_cut |= value == [0];
                    if !is_cut {
                        bytes.extend(value);
                    }
                }
                other if !is_cut => bytes.extend(other.encode_utf8(&mut [0; 4]).bytes()),
                _ => {}
            }
        }
        let Ok(text) = String::from_utf8(bytes) else {
            return self.fail("a quoted string is not UTF-8");
        };
        if text.contains(['\u{1}', '\u{2}', '\u{1f}']) {
            return self.fail("the text contains a control character");
        }
        word.text.push_str(&text);
        Ok(())
    }

    /// Reads an escape of `$'…'`, after the backslash.
    fn escape(&mut self) -> Read<Vec<u8>> {
        let Some(kind) = self.take_char() else { return self.fail("a quote is not closed") };
        let byte = match kind {
            'a' => 7,
            'b' => 8,
            'e' | 'E' => 27,
            'f' => 12,
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'v' => 11,
            '\\' | '\'' | '"' | '?' => u8::try_from(kind).unwrap_or(b'?'),
            '0'..='7' => {
                self.at -= 1;
                return Ok(vec![u8::try_from(self.number(8, 3) & 0xff).unwrap_or(0)]);
            }
            'x' => {
                if self.raw() == Some(b'{') || !self.has_digit() {
                    return self.fail("an escape sequence cannot be parsed");
                }
                return Ok(vec![u8::try_from(self.number(16, 2)).unwrap_or(0)]);
            }
            'u' | 'U' => {
                if !self.has_digit() {
                    return self.fail("an escape sequence cannot be parsed");
                }
                let code = self.number(16, if kind == 'u' { 4 } else { 8 });
                let Some(code) = char::from_u32(code) else {
                    return self.fail("an escape sequence cannot be parsed");
                };
                return Ok(code.to_string().into_bytes());
            }
            'c' => return self.fail("an escape sequence cannot be parsed"),
            other => return Ok(format!("\\{other}").into_bytes()),
        };
        Ok(vec![byte])
    }

    fn has_digit(&self) -> bool {
        self.raw().is_some_and(|byte| byte.is_ascii_hexdigit())
    }

    fn number(&mut self, radix: u32, most: usize) -> u32 {
        let mut value = 0_u32;
        for _ in 0..most {
            let digit = self.raw().and_then(|byte| char::from(byte).to_digit(radix));
            let Some(digit) = digit else { break };
            value = value.wrapping_mul(radix).wrapping_add(digit);
            self.at += 1;
        }
        value
    }

    /// Returns what an operator that starts with `<` or `>` does; consumes the operator.
    pub(super) fn redirect_operator(&mut self) -> Operator {
        let is_input = self.take(b'<');
        if is_input {
            if self.take(b'<') {
                if self.take(b'<') {
                    return Operator::Text;
                }
                return Operator::Document { strips_tabs: self.take(b'-') };
            }
            if self.take(b'&') {
                return Operator::Copy(Direction::Read);
            }
            let both = self.take(b'>');
            return Operator::To(if both { Direction::ReadWrite } else { Direction::Read });
        }
        self.bump();
        if self.take(b'&') {
            return Operator::Copy(Direction::Write);
        }
        if !self.take(b'>') {
            self.take(b'|');
        }
        Operator::To(Direction::Write)
    }
}

/// Returns `true` if the known part of a text contains a command substitution, which was in quotes.
pub(super) fn holds_command(text: &str) -> bool {
    let known =
        text.split('\u{1}').map(|part| part.split_once('\u{2}').map_or(part, |(_, known)| known));
    let mut known = known.filter(|part| part.contains(['`', '$']));
    known.any(|part| part.contains('`') || part.contains("$(") || part.contains("${"))
}

/// A redirection operator.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operator {
    To(Direction),
    /// `<&` or `>&`: a descriptor or a file.
    Copy(Direction),
    /// `<<<`: a text.
    Text,
    Document {
        strips_tabs: bool,
    },
}

/// What unquoted characters of a word say about it.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "they are what was seen so far")]
struct Shape {
    has_bracket: bool,
    has_class: bool,
    has_brace: bool,
    has_list: bool,
    len: usize,
}

impl Shape {
    fn see(&mut self, byte: u8, two: &str) {
        self.len += 1;
        self.has_class |= byte == b']' && self.has_bracket;
        self.has_bracket |= byte == b'[';
        self.has_list |= self.has_brace && (byte == b',' || two == "..");
        self.has_brace |= byte == b'{';
    }

    /// Returns `true` if the word is a pattern of file names or a list in braces.
    fn expands(&self) -> bool {
        self.has_class || self.has_list
    }
}
