//! Rules with their text and location.

use std::{fmt, sync::Arc};

use serde::Serialize;

use crate::decision::Decision;
use crate::source::SourceKind;
use crate::tools::{self, ToolKind};

/// A rule of a policy, with its location.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Rule {
    /// The decision about matching calls.
    pub decision: Decision,
    /// The text of the rule.
    pub text: String,
    /// The file, or the name of the source that is no file.
    pub file: Arc<str>,
    /// The line in the file, starting with 1; 0 if there is none.
    pub line: u32,
    /// The kind of the source.
    pub source: SourceKind,
    /// Whether the rule is a shadow rule, which decides nothing and only counts its matches.
    pub is_shadow: bool,
}

impl Rule {
    /// Returns the location as `file:line`.
    pub fn place(&self) -> String {
        place(&self.file, self.line)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({})", self.decision, self.text, self.place())
    }
}

pub(crate) fn place(file: &str, line: u32) -> String {
    if line == 0 { file.to_owned() } else { format!("{file}:{line}") }
}

/// A rule taken apart: `Tool` or `Tool(specifier)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parsed<'a> {
    pub(crate) tool: &'a str,
    pub(crate) specifier: Option<&'a str>,
}

/// Why a text is no rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RuleError {
    #[error("the rule is empty")]
    Empty,
    #[error("the parenthesis of the specifier is not closed")]
    Unclosed,
    #[error("text follows the specifier")]
    Trailing,
    #[error(
        "the name of the tool is missing or contains characters other than letters, digits, `_`, `-`, `.`, `:` and `*`"
    )]
    Name,
}

/// Takes a rule apart. The specifier reaches up to the last parenthesis.
pub(crate) fn parse(text: &str) -> Result<Parsed<'_>, RuleError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(RuleError::Empty);
    }
    let (tool, specifier) = match text.split_once('(') {
        None => (text, None),
        Some((tool, rest)) => match rest.strip_suffix(')') {
            Some(specifier) => (tool, Some(specifier.trim())),
            None if rest.contains(')') => return Err(RuleError::Trailing),
            None => return Err(RuleError::Unclosed),
        },
    };
    // Names of servers are checked where rules about them are compiled.
    let is_of_server = tool.starts_with("mcp__");
    let is_wrong = |c: char| {
        if is_of_server { c.is_whitespace() || ",|)".contains(c) } else { !is_of_a_name(c) }
    };
    if tool.is_empty() || tool.contains(is_wrong) {
        return Err(RuleError::Name);
    }
    // `Bash()` and `Bash(*)` are `Bash`; the pattern `*` of paths is not every path.
    let is_path = matches!(tools::find(tool).kind, ToolKind::Read | ToolKind::Write);
    let specifier = specifier.filter(|text| !text.is_empty() && (*text != "*" || is_path));
    Ok(Parsed { tool, specifier })
}

/// Returns `true` for the characters of the names of tools, and for the wildcard.
pub(crate) fn is_of_a_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-.:*".contains(c)
}

/// Separates the rules of a text by commas and blanks. Those in parentheses do not separate.
pub(crate) fn split(text: &str) -> impl Iterator<Item = &str> {
    separated(text, |c| c == ',' || c.is_whitespace())
}

pub(crate) fn separated(
    text: &str,
    separates: impl Fn(char) -> bool,
) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    let separates = move |character: char| {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && separates(character)
    };
    text.split(separates).map(str::trim).filter(|rule| !rule.is_empty())
}
