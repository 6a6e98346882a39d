//! Code in colours, line by line.

use anstyle::Style;

use super::language::{Extent, Language};
use super::line::Line;
use super::style::{ADDED, FAINT, KEYWORD, LITERAL, NUMBER, PLAIN, REMOVED};

/// Colours the lines of one code block, from the first on.
#[derive(Debug)]
pub(super) struct Highlighter {
    kind: Kind,
    /// What is open at the end of the line before.
    open: Option<Open>,
}

#[derive(Debug)]
enum Kind {
    Unknown,
    Diff,
    Known(&'static Language),
}

/// What continues until a mark ends it.
#[derive(Clone, Copy, Debug)]
struct Open {
    end: &'static str,
    style: Style,
    escapes: Escapes,
    extent: Extent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escapes {
    None,
    Backslash,
}

impl Highlighter {
    /// Takes what stands behind the fence of a block.
    pub(super) fn new(info: &str) -> Self {
        let name = info.split([' ', ',', '{', ':']).next().unwrap_or_default();
        let kind = match Language::named(name) {
            Some(language) => Kind::Known(language),
            None if matches!(name, "diff" | "patch") => Kind::Diff,
            None => Kind::Unknown,
        };
        Self { kind, open: None }
    }

    pub(super) fn line(&mut self, text: &str) -> Line {
        match self.kind {
            Kind::Unknown => Line::of(text, PLAIN),
            Kind::Diff => Line::of(text, of_diff(text)),
            Kind::Known(language) => self.known(text, language),
        }
    }

    fn known(&mut self, text: &str, language: &'static Language) -> Line {
        let mut line = Line::default();
        let mut rest = text;
        while !rest.is_empty() {
            let (length, style) = match self.open {
                Some(open) => self.within(rest, open),
                None => self.token(rest, language),
            };
            let (part, after) = rest.split_at(length);
            line.push(part, style);
            rest = after;
        }
        self.open = self.open.filter(|it| it.extent == Extent::Lines);
        line
    }

    /// Continues with what is open, to its end or that of the line.
    fn within(&mut self, rest: &str, open: Open) -> (usize, Style) {
        let mut at = 0;
        while at < rest.len() {
            if rest[at..].starts_with(open.end) {
                self.open = None;
                return (at + open.end.len(), open.style);
            }
            let mut chars = rest[at..].chars();
            let c = chars.next();
            at += c.map_or(1, char::len_utf8);
            if c == Some('\\') && open.escapes == Escapes::Backslash {
                at += chars.next().map_or(0, char::len_utf8);
            }
        }
        (rest.len(), open.style)
    }

    fn token(&mut self, rest: &str, language: &'static Language) -> (usize, Style) {
        if language.line_comments.iter().any(|it| rest.starts_with(it)) {
            return (rest.len(), FAINT);
        }
        if let Some((start, end)) = language.block_comment
            && rest.starts_with(start)
        {
            let extent = Extent::Lines;
            self.open = Some(Open { end, style: FAINT, escapes: Escapes::None, extent });
            return (start.len(), FAINT);
        }
        if let Some((mark, extent)) =
            language.quotes.iter().find(|(mark, _)| rest.starts_with(mark))
        {
            if *extent == Extent::Character {
                return character(rest).map_or((mark.len(), PLAIN), |taken| (taken, LITERAL));
            }
            let escapes = Escapes::Backslash;
            self.open = Some(Open { end: mark, style: LITERAL, escapes, extent: *extent });
            return (mark.len(), LITERAL);
        }
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let word = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        match rest.chars().next() {
            Some(c) if word == 0 => (c.len_utf8(), PLAIN),
            Some(c) if c.is_ascii_digit() => (word, NUMBER),
            _ if language.is_keyword(&rest[..word]) => (word, KEYWORD),
            _ => (word, PLAIN),
        }
    }
}

/// Measures a character with its quotes. Returns `None` if it is a lifetime.
fn character(rest: &str) -> Option<usize> {
    let inner = rest.get(1..)?;
    if inner.starts_with('\\') {
        let end = inner.get(2..)?.find('\'')?;
        return Some(end + 4);
    }
    let c = inner.chars().next()?;
    inner[c.len_utf8()..].starts_with('\'').then(|| c.len_utf8() + 2)
}

fn of_diff(text: &str) -> Style {
    match text.chars().next() {
        Some('+') => ADDED,
        Some('-') => REMOVED,
        Some('@') => NUMBER,
        _ => PLAIN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Marks keywords with `k`, texts with `t`, comments with `c` and numbers with `n`.
    fn check(language: &str, code: &str, expect: &str) {
        let mut colourist = Highlighter::new(language);
        let mark = |style: Style| match style {
            KEYWORD => 'k',
            LITERAL => 't',
            FAINT => 'c',
            NUMBER => 'n',
            REMOVED => '-',
            _ => '.',
        };
        let marked = code.lines().map(|line| {
            let spans = colourist.line(line).0;
            spans.iter().map(|it| mark(it.style).to_string().repeat(it.text.len())).collect()
        });
        assert_eq!(marked.collect::<Vec<String>>().join("\n"), expect, "{language}");
    }

    #[test]
    fn words_texts_comments_and_numbers_are_told_apart() {
        check("rust", "let a = 'x'; // y", "kkk.....ttt..cccc");
        check("rust", "fn f(x: &'a u8) { 0x1F }", "kk................nnnn..");
        check("python", "if a == \"b\\\"c\": # d", "kk......tttttt..ccc");
        check("sql", "SELECT 1", "kkkkkk.n");
        check("json", "{\"a\": true}", ".ttt..kkkk.");
        check("unheard-of", "if 1", "....");
        check("diff", "-a\n+b", "--\ntt");
    }

    #[test]
    fn strings_and_comments_continue_on_the_next_line() {
        check("c", "/* a\nif */ if", "cccc\nccccc.kk");
        check("python", "\"\"\"a\nb\"\"\" in", "tttt\ntttt.kk");
        check("c", "\"a\nif", "tt\nkk");
    }
}
