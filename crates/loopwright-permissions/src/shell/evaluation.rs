//! Arithmetic that evaluates data.
//!
//! In bash, arithmetic evaluates the value of a variable as an expression, and `a[$(rm x)]` in it runs a command. So a
//! script that takes a value from a file, and does arithmetic with it, can run what the file contains.

use super::script::Script;
use super::word::{UNKNOWN_END, UNKNOWN_START, Word};

/// Commands that set variables to what they read.
const READERS: [&str; 4] = ["getopts", "mapfile", "read", "readarray"];

impl Script {
    /// Notes an arithmetic expression.
    pub(super) fn evaluate(&mut self, expression: &str) {
        self.evaluates_names |= has_name(expression);
        self.reads_data |= runs(expression);
    }

    /// Returns `true` if arithmetic uses a variable.
    pub(super) fn evaluates_names(&self) -> bool {
        let is_let = |word: &Word| word.literal() == Some("let");
        self.evaluates_names || self.commands.iter().any(|it| it.words.iter().any(is_let))
    }

    /// Returns `true` if a variable gets a value that is not in the text.
    pub(super) fn reads_data(&self) -> bool {
        let has_arguments = !self.functions.is_empty();
        self.reads_data
            || self.commands.iter().any(|command| {
                let names = command.words.iter().take(4).filter_map(Word::literal);
                let reads = names.clone().any(|name| READERS.contains(&name) || name == "set");
                let prints = names.clone().any(|name| name.starts_with("-v"));
                let has_data = || command.words.iter().any(is_data);
                reads
                    || (prints || has_arguments) && has_data()
                    || command.assignments.iter().any(|it| is_data(&it.value))
            })
    }
}

/// Returns `true` if a word has a part that a file, a command or the names of files decide about. The result of
/// arithmetic is a number, and a variable has the value that it was given elsewhere.
pub(super) fn is_data(word: &Word) -> bool {
    let parts = word.text.split(UNKNOWN_START).skip(1);
    let mut parts = parts.map(|part| part.split(UNKNOWN_END).next().unwrap_or_default());
    parts.any(|part| {
        let is_variable = part.starts_with('$') && !part.starts_with("$(");
        let is_number = part.starts_with("$((");
        runs(part) || !is_variable && !is_number || is_argument(part)
    })
}

/// Returns `true` for `$1`, `$@`, `$*` and the like in braces.
fn is_argument(part: &str) -> bool {
    let name = part.trim_start_matches(['$', '{']);
    name.starts_with(|c: char| c.is_ascii_digit() || c == '@' || c == '*')
}

/// Returns `true` if a text contains a command whose output it takes.
pub(super) fn runs(text: &str) -> bool {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("$(") {
        if !after.starts_with('(') {
            return true;
        }
        rest = after;
    }
    text.contains('`') || text.contains("<(")
}

/// Returns `true` if an expression has a variable, and not only numbers.
pub(super) fn has_name(expression: &str) -> bool {
    expression.contains(|c: char| c == '_' || c == '$' || c == '`' || c.is_ascii_alphabetic())
}

/// Returns `true` if an expansion in braces has a subscript or an offset with a variable. What expansions in it are is
/// not in the text.
pub(super) fn has_offset(own: &str) -> bool {
    if let Some((_, subscript)) = own.split_once('[') {
        let subscript = subscript.split(']').next().unwrap_or_default();
        return !matches!(subscript, "@" | "*") && (subscript.is_empty() || has_name(subscript));
    }
    let Some((_, offset)) = own.split_once(':') else { return false };
    let is_default = offset.starts_with(['-', '=', '?', '+']);
    let is_unknown = offset.is_empty() || offset.ends_with(':');
    !is_default && (is_unknown || has_name(offset))
}
