//! Scripts of sed that only print and replace.

use super::risk::{RISKY, Risks, UNKNOWN};
use crate::shell::Word;

const WRITES: &str = "the argument makes sed change its input files";
const SCRIPT: &str = "a sed script can run commands and write files";

/// Reads the arguments of sed. A script that does not plainly only print and replace is a risk.
pub(super) fn read(arguments: &[Word], risks: &mut Risks) {
    let mut scripts = Vec::new();
    let mut operands = Vec::new();
    let mut arguments = arguments.iter();
    while let Some(word) = arguments.next() {
        let Some(text) = word.literal() else {
            // It could be an option, or the script; otherwise it is a file.
            if word.known_prefix().is_empty() || word.known_prefix().starts_with('-') {
                risks.add(word, &word.text, UNKNOWN);
            }
            operands.push(word);
            continue;
        };
        if let Some(long) = text.strip_prefix("--").filter(|long| !long.is_empty()) {
            match long.split_once('=').map_or(long, |(name, _)| name) {
                "quiet" | "silent" | "regexp-extended" | "separate" | "unbuffered"
                | "null-data" | "posix" => {}
                "expression" if long.contains('=') => scripts.push((word, &text[13..])),
                "expression" => scripts.extend(arguments.next().map(|word| (word, &*word.text))),
                "in-place" => risks.add(word, "--in-place", WRITES),
                _ => risks.add(word, text, RISKY),
            }
            continue;
        }
        let Some(letters) = text.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            operands.push(word);
            continue;
        };
        for (at, letter) in letters.char_indices() {
            let rest = &letters[at + 1..];
            match letter {
                'n' | 'E' | 'r' | 's' | 'u' | 'z' => continue,
                'e' if rest.is_empty() => {
                    scripts.extend(arguments.next().map(|word| (word, &*word.text)));
                }
                'e' => scripts.push((word, rest)),
                // The rest is the ending of the copy.
                'i' => risks.add(word, text, WRITES),
                _ => risks.add(word, text, RISKY),
            }
            break;
        }
    }
    let has_script = !scripts.is_empty();
    if !has_script && let Some(word) = operands.first() {
        scripts.push((word, &*word.text));
    }
    if scripts.is_empty() {
        risks.opaque = Some(SCRIPT);
    }
    for (word, script) in scripts {
        if word.is_unknown || script_is_plain(script).is_none() {
            risks.add(word, &word.text, SCRIPT);
        }
    }
}

/// Reads a script. Returns `None` if a command is unknown or does more.
fn script_is_plain(script: &str) -> Option<()> {
    let mut rest = script;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', ';', '{', '}']);
        if rest.is_empty() {
            return Some(());
        }
        rest = address(rest)?;
        if let Some(second) = rest.strip_prefix(',') {
            rest = address(second.trim_start())?;
        }
        rest = rest.trim_start_matches([' ', '\t', '!']);
        let command = rest.chars().next()?;
        rest = &rest[command.len_utf8()..];
        match command {
            'p' | 'P' | 'd' | 'D' | 'n' | 'N' | 'h' | 'H' | 'g' | 'G' | 'x' | '=' | '{' => {}
            'q' | 'Q' | 'l' => {
                rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
            }
            's' => {
                rest = sections(rest)?;
                rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || "gpiIm".contains(c));
            }
            'y' => rest = sections(rest)?,
            'a' | 'i' | 'c' | ':' | 'b' | 't' | 'T' => {
                // Up to the end of the line. A backslash continues it.
                let end = rest.find('\n').unwrap_or(rest.len());
                if rest[..end].contains('\\') {
                    return None;
                }
                rest = &rest[end..];
            }
            _ => return None,
        }
        let is_end = rest.trim_start_matches([' ', '\t']).starts_with([';', '\n', '}']);
        if !rest.is_empty() && !is_end && command != '{' {
            return None;
        }
    }
}

/// Skips an address: a number, `$`, or an expression between slashes.
fn address(text: &str) -> Option<&str> {
    if let Some(rest) = text.strip_prefix('/') {
        let rest = section(rest, '/')?;
        return Some(rest.trim_start_matches(['I', 'M']));
    }
    if text.starts_with('\\') {
        return None;
    }
    Some(text.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '$' | '~' | '+')))
}

/// Skips the two parts of `s` and `y`.
fn sections(text: &str) -> Option<&str> {
    let delimiter = text.chars().next().filter(|c| !matches!(c, '\\' | '\n'))?;
    let rest = section(&text[delimiter.len_utf8()..], delimiter)?;
    section(rest, delimiter)
}

/// Skips to behind a delimiter. Brackets are read in both ways, so a delimiter in them is not plain.
fn section(text: &str, delimiter: char) -> Option<&str> {
    let mut characters = text.char_indices();
    let mut has_bracket = false;
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => _ = characters.next(),
            '\n' => return None,
            '[' => has_bracket = true,
            ']' => has_bracket = false,
            character if character == delimiter => {
                return (!has_bracket).then(|| &text[at + character.len_utf8()..]);
            }
            _ => {}
        }
    }
    None
}
