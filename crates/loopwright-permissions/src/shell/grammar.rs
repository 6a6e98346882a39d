//! Pipelines, lists and compound commands.

use super::evaluation;
use super::reader::{MAX_COMMANDS, Read, Reader};
use super::script::{Function, Problem, ScopeKind, Simple, slice};
use super::word::{Word, is_identifier};
use crate::variables::is_powerful;

/// What a list ends with, besides the end of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Text,
    Parenthesis,
    Words(&'static [&'static str]),
    Case,
}

const RESERVED: &[&str] = &[
    "!", "[[", "]]", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for",
    "function", "if", "in", "select", "then", "time", "until", "while", "{", "}",
];

impl Reader<'_> {
    /// Reads all of the text.
    pub(super) fn program(&mut self) -> Read<()> {
        self.list(End::Text)?;
        // Documents that never start are empty.
        self.read_documents()
    }

    /// Reads commands up to `)`, after `(`.
    pub(super) fn parentheses(&mut self) -> Read<()> {
        let outer = std::mem::take(&mut self.documents);
        self.list(End::Parenthesis)?;
        if !self.documents.is_empty() {
            return self.fail("a here-document does not start before the closing parenthesis");
        }
        self.documents = outer;
        self.bump();
        Ok(())
    }

    /// Reads commands up to what ends them, which is not consumed.
    fn list(&mut self, end: End) -> Read<()> {
        loop {
            self.lines()?;
            if self.is_at(end)? {
                return Ok(());
            }
            let is_background = self.and_or()?;
            self.blanks();
            match self.peek() {
                _ if is_background => {}
                None | Some(b'\n' | b'#' | b')') => {}
                Some(b';') if matches!(self.peek_second(), Some(b';' | b'&')) => {}
                Some(b';') => self.bump(),
                Some(_) => return self.fail("a command is followed by something unexpected"),
            }
        }
    }

    fn is_at(&mut self, end: End) -> Read<bool> {
        let next = self.peek();
        match end {
            End::Text => Ok(next.is_none()),
            _ if next.is_none() => self.fail("the text ends inside a command"),
            End::Parenthesis => Ok(next == Some(b')')),
            End::Words(words) => Ok(words.contains(&self.peek_reserved().0.as_str())),
            End::Case => {
                let is_item = next == Some(b';') && matches!(self.peek_second(), Some(b';' | b'&'));
                Ok(is_item || self.peek_reserved().0.as_str() == "esac")
            }
        }
    }

    /// Reads commands that `&&` and `||` connect. Returns `true` if `&` ends them.
    fn and_or(&mut self) -> Read<bool> {
        let scope = self.script.open(ScopeKind::List, false);
        loop {
            self.pipeline()?;
            self.blanks();
            match (self.peek(), self.peek_second()) {
                (Some(b'&'), Some(b'&')) => self.script.events.push(super::Event::And),
                (Some(b'|'), Some(b'|')) => self.script.events.push(super::Event::Or),
                (Some(b'&'), _) => {
                    self.bump();
                    self.script.isolate(scope);
                    self.script.close();
                    return Ok(true);
                }
                _ => break,
            }
            self.bump();
            self.peek();
            self.bump();
            self.lines()?;
        }
        self.script.close();
        Ok(false)
    }

    fn pipeline(&mut self) -> Read<()> {
        self.prefix()?;
        let mut is_pipe = false;
        loop {
            let scope = self.script.open(ScopeKind::List, is_pipe);
            self.command()?;
            self.script.close();
            self.blanks();
            if self.peek() != Some(b'|') || self.peek_second() == Some(b'|') {
                return Ok(());
            }
            self.script.isolate(scope);
            is_pipe = true;
            self.bump();
            self.script.is_bash_only |= self.take(b'&');
            self.lines()?;
        }
    }

    /// Skips `!` and `time`.
    fn prefix(&mut self) -> Read<()> {
        loop {
            self.blanks();
            let (word, end) = self.peek_reserved();
            match word.as_str() {
                "!" => self.at = end,
                "time" => {
                    self.script.is_bash_only = true;
                    self.at = end;
                    self.blanks();
                    let (option, end) = self.peek_reserved();
                    if matches!(option.as_str(), "-p" | "--") {
                        self.at = end;
                    }
                }
                _ => return Ok(()),
            }
        }
    }

    fn command(&mut self) -> Read<()> {
        self.blanks();
        if self.script.commands.len() >= MAX_COMMANDS {
            return self.fail("the text has too many commands");
        }
        self.enter()?;
        let (word, end) = self.peek_reserved();
        if self.peek() == Some(b'(') || is_compound(word.as_str()) {
            self.compound(word.as_str(), end)?;
            self.redirects_of_compound()?;
        } else {
            match word.as_str() {
                "function" => {
                    self.script.is_bash_only = true;
                    self.function_keyword(end)?;
                }
                "coproc" => {
                    self.script.is_bash_only = true;
                    self.at = end;
                    self.script.open(ScopeKind::Group, true);
                    self.command()?;
                    self.script.close();
                }
                word if RESERVED.contains(&word) => {
                    return self.fail("a reserved word is in the wrong place");
                }
                _ => self.simple()?,
            }
        }
        self.leave();
        Ok(())
    }

    fn compound(&mut self, word: &str, end: usize) -> Read<()> {
        if self.peek() == Some(b'(') {
            return self.parenthesized();
        }
        self.at = end;
        match word {
            "{" => {
                self.list(End::Words(&["}"]))?;
                self.keyword("}")
            }
            "if" => self.condition(),
            "while" | "until" => {
                self.script.open(ScopeKind::Loop, false);
                self.list(End::Words(&["do"]))?;
                self.do_group()?;
                self.script.close();
                Ok(())
            }
            "for" => self.for_loop(),
            "select" => {
                self.script.is_bash_only = true;
                self.for_loop()
            }
            "case" => self.case(),
            _ => self.test(),
        }
    }

    /// Reads `( … )` or `(( … ))`.
    fn parenthesized(&mut self) -> Read<()> {
        let start = self.at;
        self.bump();
        if self.peek() == Some(b'(') {
            self.script.is_bash_only = true;
            self.script.has_arithmetic = true;
            self.bump();
            self.arithmetic()?;
            let source = slice(self.text, start..self.at).to_owned();
            let words = vec![Word::from_literal("(("), Word::unknown(&source)];
            self.script.push(Simple { words, source, is_test: true, ..Simple::default() });
            return Ok(());
        }
        self.script.open(ScopeKind::Group, true);
        self.parentheses()?;
        self.script.close();
        Ok(())
    }

    fn keyword(&mut self, word: &str) -> Read<()> {
        self.lines()?;
        let (found, end) = self.peek_reserved();
        if found.as_str() != word {
            return self.fail("a reserved word is missing");
        }
        self.at = end;
        Ok(())
    }

    fn do_group(&mut self) -> Read<()> {
        self.keyword("do")?;
        self.list(End::Words(&["done"]))?;
        self.keyword("done")
    }

    fn branch(&mut self, end: End) -> Read<()> {
        self.script.open(ScopeKind::Branch, false);
        self.list(end)?;
        self.script.close();
        Ok(())
    }

    fn condition(&mut self) -> Read<()> {
        self.list(End::Words(&["then"]))?;
        self.keyword("then")?;
        loop {
            self.branch(End::Words(&["elif", "else", "fi"]))?;
            let (word, end) = self.peek_reserved();
            self.at = end;
            match word.as_str() {
                "elif" => {
                    self.branch(End::Words(&["then"]))?;
                    self.keyword("then")?;
                }
                "else" => {
                    self.branch(End::Words(&["fi"]))?;
                    return self.keyword("fi");
                }
                _ => return Ok(()),
            }
        }
    }

    fn for_loop(&mut self) -> Read<()> {
        self.blanks();
        if self.peek() == Some(b'(') && self.peek_second() == Some(b'(') {
            self.bump();
            self.script.is_bash_only = true;
            self.script.has_arithmetic = true;
            self.peek();
            self.bump();
            self.arithmetic()?;
            self.blanks();
            self.take(b';');
        } else {
            let name = self.word()?;
            if !name.literal().is_some_and(is_identifier) || name.is_quoted {
                return self.fail("a loop has no variable");
            }
            if is_powerful(&name.text) {
                self.script.problems.push(Problem::Variable);
            }
            self.lines()?;
            let (word, end) = self.peek_reserved();
            if word.as_str() == "in" {
                self.at = end;
                if self.words_of_line()? {
                    self.script.evaluated.read(&name.text);
                }
            } else {
                self.script.evaluated.read(&name.text);
                self.take(b';');
            }
        }
        self.lines()?;
        self.script.open(ScopeKind::Loop, false);
        let (word, end) = self.peek_reserved();
        if word.as_str() == "{" {
            self.at = end;
            self.list(End::Words(&["}"]))?;
            self.keyword("}")?;
        } else {
            self.do_group()?;
        }
        self.script.close();
        Ok(())
    }

    /// Reads words up to the end of the line or `;`, which is consumed.
    /// Returns `true` if a word is data.
    fn words_of_line(&mut self) -> Read<bool> {
        let mut is_data = false;
        loop {
            self.blanks();
            match self.peek() {
                Some(b';') => {
                    self.bump();
                    return Ok(is_data);
                }
                None | Some(b'\n' | b'#') => return Ok(is_data),
                Some(b'&' | b'|' | b'(' | b')') => return self.fail("a loop cannot be parsed"),
                Some(b'<' | b'>') if self.peek_second() != Some(b'(') => {
                    return self.fail("a loop cannot be parsed");
                }
                Some(_) => {
                    let word = self.word()?;
                    is_data |= evaluation::is_data(&word);
                }
            }
        }
    }

    fn case(&mut self) -> Read<()> {
        self.blanks();
        self.nonempty_word()?;
        self.lines()?;
        let (word, end) = self.peek_reserved();
        if word.as_str() != "in" {
            return self.fail("`case` has no `in`");
        }
        self.at = end;
        loop {
            self.lines()?;
            let (word, end) = self.peek_reserved();
            if word.as_str() == "esac" {
                self.at = end;
                return Ok(());
            }
            self.take(b'(');
            loop {
                self.blanks();
                self.nonempty_word()?;
                self.blanks();
                if !self.take(b'|') {
                    break;
                }
            }
            if !self.take(b')') {
                return self.fail("a `case` pattern cannot be parsed");
            }
            self.branch(End::Case)?;
            if self.take(b';') {
                // `;;`, `;&` or `;;&`
                self.peek();
                self.bump();
                self.script.is_bash_only |= self.text.as_bytes()[self.at - 1] == b'&';
                if self.text.as_bytes()[self.at - 1] == b';' {
                    self.script.is_bash_only |= self.take(b'&');
                }
            }
        }
    }

    /// Reads `[[ … ]]` after its start.
    fn test(&mut self) -> Read<()> {
        let mut words = vec![Word::from_literal("[[")];
        self.script.is_bash_only = true;
        let start = self.at;
        let (mut is_regex, mut has_number) = (false, false);
        loop {
            self.lines()?;
            match self.peek() {
                None => return self.fail("`[[` is not closed"),
                Some(b'(' | b')') => self.bump(),
                Some(operator @ (b'&' | b'|')) => {
                    self.bump();
                    if !self.take(operator) {
                        return self.fail("`[[` cannot be parsed");
                    }
                }
                Some(b';') => return self.fail("`[[` cannot be parsed"),
                Some(b'<' | b'>') if self.peek_second() != Some(b'(') => self.bump(),
                Some(_) => {
                    let word = self.word_of_test(is_regex)?;
                    let is_bare = !word.is_quoted && !word.is_unknown;
                    if is_bare && word.text == "]]" {
                        break;
                    }
                    is_regex = is_bare && word.text == "=~";
                    let is_number = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v"];
                    let is_number = is_number.contains(&word.text.as_str());
                    self.script.has_arithmetic |= is_number;
                    has_number |= is_number;
                    words.push(word);
                }
            }
        }
        let source = format!("[[{}", slice(self.text, start..self.at));
        if has_number {
            self.script.evaluated.evaluate(&source);
        }
        self.script.push(Simple { words, source, is_test: true, ..Simple::default() });
        Ok(())
    }

    /// Reads a word of `[[`. Only in a regular expression, parentheses and `|` are part of it.
    fn word_of_test(&mut self, is_regex: bool) -> Read<Word> {
        let mut word = self.word()?;
        let mut open = 0_usize;
        loop {
            match self.peek() {
                Some(b'(') if is_regex => open += 1,
                Some(b')') if is_regex && open > 0 => open -= 1,
                Some(b'|') if is_regex && open > 0 => {}
                Some(b'(' | b'|' | b'<' | b'>') if is_regex => {
                    return self.fail("a regular expression cannot be parsed");
                }
                Some(b'(') => return self.fail("a pattern cannot be parsed"),
                _ if open > 0 => return self.fail("a regular expression cannot be parsed"),
                _ => return Ok(word),
            }
            self.bump();
            let more = self.word()?;
            word.forget("");
            word.is_quoted |= more.is_quoted;
        }
    }

    pub(super) fn nonempty_word(&mut self) -> Read<Word> {
        let start = self.at;
        let word = self.word()?;
        if self.at == start { self.fail("a word is missing") } else { Ok(word) }
    }

    /// Reads `function NAME …`.
    fn function_keyword(&mut self, end: usize) -> Read<()> {
        self.at = end;
        self.blanks();
        let name = self.nonempty_word()?;
        self.blanks();
        if self.take(b'(') {
            self.blanks();
            if !self.take(b')') {
                return self.fail("a function cannot be parsed");
            }
        }
        self.function_body(&name)
    }

    pub(super) fn function_body(&mut self, name: &Word) -> Read<()> {
        let Some(name) = name.literal().filter(|name| !name.is_empty()) else {
            return self.fail("the name of a function is computed");
        };
        self.script.functions.push(Function { name: name.to_owned(), before: None });
        self.lines()?;
        let (word, end) = self.peek_reserved();
        if self.peek() != Some(b'(') && !is_compound(word.as_str()) {
            return self.fail("the body of a function cannot be parsed");
        }
        self.script.open(ScopeKind::Function, false);
        self.compound(word.as_str(), end)?;
        self.redirects_of_compound()?;
        self.script.close();
        Ok(())
    }
}

fn is_compound(word: &str) -> bool {
    matches!(word, "{" | "if" | "while" | "until" | "for" | "select" | "case" | "[[")
}
