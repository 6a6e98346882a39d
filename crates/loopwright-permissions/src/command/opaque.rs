//! Commands whose effects are not visible in their arguments.

use crate::shell::Word;
use crate::variables::is_powerful;

const SHELLS: &[&str] = &[
    "ash", "bash", "csh", "dash", "fish", "ksh", "mksh", "nu", "pwsh", "rbash", "sh", "tcsh", "zsh",
];

/// Builtins that run or define something else.
const BUILTINS: &[&str] = &[
    ".",
    "alias",
    "bind",
    "compgen",
    "complete",
    "enable",
    "eval",
    "fc",
    "hash",
    "mapfile",
    "readarray",
    "shopt",
    "source",
    "trap",
    "unalias",
];

/// Returns why no rule with a wildcard can allow a command, or `None` if one can.
pub(super) fn reason(name: &str, words: &[Word]) -> Option<&'static str> {
    let arguments = &words[1..];
    if is_shell(name) {
        return Some("a shell can run any string or file");
    }
    if BUILTINS.contains(&name) {
        return Some("the arguments do not show what the command runs or defines");
    }
    match name {
        "set" => set(arguments),
        "jobs" => arguments
            .iter()
            .any(|word| word.is_unknown || word.text.starts_with("-x"))
            .then_some("`jobs -x` runs a command"),
        "at" | "batch" | "crontab" | "ed" | "entr" | "expect" | "red" | "script" => {
            Some("the arguments do not show which other commands it runs")
        }
        _ => None,
    }
}

/// Returns `true` if no command that starts with these words can be allowed by a rule with a wildcard.
pub(crate) fn is_opaque_prefix(words: &[&str]) -> bool {
    let words: Vec<Word> = words.iter().map(|word| Word::from_literal(*word)).collect();
    let Some(name) = words.first().and_then(Word::literal) else { return false };
    reason(name, &words).is_some()
}

pub(super) fn is_shell(name: &str) -> bool {
    SHELLS.contains(&name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.'))
        && !name.is_empty()
        && name != "."
}

/// `set` with options that change how the text is read.
fn set(arguments: &[Word]) -> Option<&'static str> {
    const NAMES: &[&str] =
        &["pipefail", "errexit", "nounset", "xtrace", "noglob", "verbose", "noclobber"];
    let is_plain = |word: &Word| {
        word.literal().is_some_and(|text| {
            let letters = text.strip_prefix(['-', '+']);
            NAMES.contains(&text)
                || letters.is_some_and(|letters| letters.chars().all(|c| "euxovfCE".contains(c)))
        })
    };
    let is_after = arguments.first().and_then(Word::literal) == Some("--");
    (!is_after && !arguments.iter().all(is_plain)).then_some("`set` changes how commands are read")
}

/// Builtins that have no effect outside of the shell.
const NEUTRAL: &[&str] = &[
    ":", "[", "break", "continue", "declare", "exit", "export", "false", "local", "pwd", "read",
    "readonly", "return", "set", "shift", "test", "true", "typeset", "unset", "wait",
];

/// Returns `true` if a command has no effect outside of the shell.
pub(super) fn is_neutral(name: &str) -> bool {
    NEUTRAL.binary_search(&name).is_ok()
}

/// Returns why a builtin that evaluates its arguments may do more than it shows.
pub(super) fn evaluation(name: &str, words: &[Word]) -> Option<&'static str> {
    const REASON: &str = "an argument is evaluated a second time";
    const VARIABLE: &str = "an assignment sets a variable that changes how commands run";
    if !is_evaluator(name) {
        return None;
    }
    for word in words.iter().skip(1) {
        // What `$(…)` in the text itself contains is between marks, so this is in quotes.
        let known: String = known_parts(&word.text);
        if known.contains("$(") || known.contains('`') || known.contains("${") {
            return Some(REASON);
        }
        let declares = matches!(name, "declare" | "typeset" | "local" | "readonly" | "export");
        if declares && word.text.starts_with('-') && word.text.contains(['n', 'i', 'f']) {
            return Some(REASON);
        }
        let sets = declares
            || matches!(name, "read" | "printf" | "unset" | "getopts" | "mapfile" | "readarray");
        let variable = known.split(['=', '[', '+']).next().unwrap_or_default();
        let is_variable =
            name != "printf" || words.get(1).is_some_and(|word| word.text.starts_with("-v"));
        if sets && is_variable {
            if is_powerful(variable.trim_start_matches("-v")) {
                return Some(VARIABLE);
            }
            if word.is_unknown && name != "printf" && !known_before_equals(word) {
                return Some(VARIABLE);
            }
        }
    }
    None
}

fn known_before_equals(word: &Word) -> bool {
    word.known_prefix().contains('=')
}

fn known_parts(text: &str) -> String {
    let mut known = String::new();
    let mut is_unknown = false;
    for character in text.chars() {
        match character {
            crate::shell::UNKNOWN_START => is_unknown = true,
            crate::shell::UNKNOWN_END => is_unknown = false,
            character if !is_unknown => known.push(character),
            _ => {}
        }
    }
    known
}

fn is_evaluator(name: &str) -> bool {
    matches!(
        name,
        "test"
            | "["
            | "[["
            | "(("
            | "let"
            | "declare"
            | "typeset"
            | "local"
            | "export"
            | "readonly"
            | "unset"
            | "read"
            | "printf"
            | "mapfile"
            | "readarray"
            | "wait"
            | "getopts"
            | "shift"
            | "return"
            | "exit"
            | "break"
            | "continue"
    )
}

/// Returns why an assignment may do more than it shows.
pub(super) fn assignment(name: &str, value: &Word) -> Option<&'static str> {
    if is_powerful(name) {
        return Some("an assignment sets a variable that changes how commands run");
    }
    let known = known_parts(&value.text);
    (known.contains("$(") || known.contains('`'))
        .then_some("arithmetic could run a command contained in a variable")
}
