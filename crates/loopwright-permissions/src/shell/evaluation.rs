//! Arithmetic that evaluates data.
//!
//! In bash, arithmetic evaluates the value of a variable as an expression, and `a[$(rm x)]` in it runs a command. So a
//! script that takes a value from a file, and does arithmetic with it, can run what the file contains.

use std::collections::BTreeSet;

use super::script::{Script, Simple};
use super::word::{UNKNOWN_END, UNKNOWN_START, Word, is_identifier};

/// Commands that set variables to what they read, with the variable that they set without a name.
const READERS: [(&str, &str); 4] =
    [("getopts", "OPTARG"), ("mapfile", "MAPFILE"), ("read", "REPLY"), ("readarray", "MAPFILE")];

/// What arithmetic evaluates, and what gets its value from data: from a file, a command, or the names of files.
#[derive(Debug, Default)]
pub(crate) struct Evaluated {
    names: BTreeSet<String>,
    /// An argument of a function or of the script is evaluated.
    has_arguments: bool,
    data: BTreeSet<String>,
    /// An expression contains the output of a command.
    is_output: bool,
}

impl Evaluated {
    /// Notes an arithmetic expression, or a text with one.
    pub(super) fn evaluate(&mut self, expression: &str) {
        self.is_output |= runs(expression);
        self.has_arguments |=
            expression.match_indices('$').any(|(at, _)| is_argument(&expression[at..]));
        let is_part = |c: char| c == '_' || c.is_ascii_alphanumeric();
        let names = expression.split(|c| !is_part(c)).filter(|name| is_identifier(name));
        self.names.extend(names.map(str::to_owned));
    }

    /// Notes a variable that gets its value from data.
    pub(super) fn read(&mut self, name: &str) {
        self.data.insert(name.to_owned());
    }
}

impl Script {
    /// Returns `true` if arithmetic may evaluate data.
    pub(super) fn evaluates_data(&mut self) -> bool {
        let mut found = std::mem::take(&mut self.evaluated);
        let (mut copies, mut passes_data) = (Vec::new(), false);
        for command in &self.commands {
            if command.words.iter().any(|word| word.literal() == Some("let")) {
                command.words.iter().for_each(|word| found.evaluate(&word.text));
            }
            found.data.extend(read_by(command));
            for assignment in &command.assignments {
                let name = || assignment.name.clone();
                if is_data(&assignment.value) {
                    found.data.insert(name());
                } else if parts(&assignment.value).any(is_variable) {
                    copies.push(name());
                }
            }
            let sets = command.words.first().and_then(Word::literal) == Some("set");
            passes_data |= sets || command.words.iter().any(is_data);
        }
        if !found.data.is_empty() {
            // They may have the value of a variable that is data.
            found.data.extend(copies);
        }
        let is_passed = found.has_arguments && (passes_data || !found.data.is_empty());
        found.is_output || is_passed || !found.names.is_disjoint(&found.data)
    }
}

/// Returns the variables that a command sets to data.
fn read_by(command: &Simple) -> Vec<String> {
    let words = &command.words;
    let known = || words.iter().filter_map(Word::literal).map(str::to_owned);
    let reader = words.iter().take(4).find_map(|word| {
        READERS.iter().find(|(name, _)| word.literal() == Some(name)).map(|(_, default)| *default)
    });
    if let Some(default) = reader {
        return known().chain([default.to_owned()]).collect();
    }
    let prints = words.iter().take(4).any(|word| word.text.starts_with("-v"));
    if prints && words.iter().any(is_data) { known().collect() } else { Vec::new() }
}

/// Returns `true` if a word has a part that a file, a command or the names of files decide about. The result of
/// arithmetic is a number, and a variable has the value that it was given elsewhere.
pub(super) fn is_data(word: &Word) -> bool {
    let is_number = |part: &str| part.starts_with("$((");
    parts(word)
        .any(|part| runs(part) || !is_variable(part) && !is_number(part) || is_argument(part))
}

/// Returns the unknown parts of a word, as they are written.
fn parts(word: &Word) -> impl Iterator<Item = &str> {
    let parts = word.text.split(UNKNOWN_START).skip(1);
    parts.map(|part| part.split(UNKNOWN_END).next().unwrap_or_default())
}

/// Returns `true` for `$x` and `${x}`.
fn is_variable(part: &str) -> bool {
    part.starts_with('$') && !part.starts_with("$(")
}

/// Returns `true` for what starts with `$1`, `$@`, `$*` and the like, also in braces.
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

/// Returns `true` if an expansion in braces has a subscript or an offset with a variable. What expansions in it are is
/// not in the text.
pub(super) fn has_offset(own: &str) -> bool {
    let has_name = |text: &str| text.contains(|c: char| c == '_' || c.is_ascii_alphabetic());
    if let Some((_, subscript)) = own.split_once('[') {
        let subscript = subscript.split(']').next().unwrap_or_default();
        return !matches!(subscript, "@" | "*") && (subscript.is_empty() || has_name(subscript));
    }
    let Some((_, offset)) = own.split_once(':') else { return false };
    let is_default = offset.starts_with(['-', '=', '?', '+']);
    let is_unknown = offset.is_empty() || offset.ends_with(':') || offset.starts_with(':');
    !is_default && (is_unknown || has_name(offset))
}
