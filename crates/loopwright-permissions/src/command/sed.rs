//! Scripts of sed that only print and replace.

use crate::shell::Word;

/// Returns `true` if a command of sed runs no other command and writes no file. `false` if that is not plain.
pub(super) fn is_plain(arguments: &[Word]) -> bool {
    let mut scripts = Vec::new();
    let mut operands = Vec::new();
    let mut arguments = arguments.iter();
    while let Some(word) = arguments.next() {
        let Some(text) = word.literal() else {
            // A file; if it could be an option, or the script, it is not plain.
            if word.known_prefix().is_empty() || word.known_prefix().starts_with('-') {
                return false;
            }
            operands.push(None);
            continue;
        };
        match text {
            "-n" | "-E" | "-r" | "-s" | "-u" | "-z" | "--quiet" | "--silent"
            | "--regexp-extended" | "--separate" | "--unbuffered" | "--null-data" | "--posix"
            | "-nE" | "-En" | "-nr" | "-rn" => {}
            "-e" | "-ne" | "-Ee" | "-re" | "-nEe" | "--expression" => {
                match arguments.next().map(Word::literal) {
                    Some(Some(script)) => scripts.push(script),
                    _ => return false,
                }
            }
            text => match text.strip_prefix("--expression=") {
                Some(script) => scripts.push(script),
                None if text.starts_with('-') && text.len() > 1 => return false,
                None => operands.push(Some(text)),
            },
        }
    }
    if scripts.is_empty() {
        match operands.first() {
            Some(Some(script)) => scripts.push(script),
            _ => return false,
        }
    }
    scripts.into_iter().all(|script| script_is_plain(script).is_some())
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
