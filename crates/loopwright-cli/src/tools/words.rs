//! A command line as words, the way a shell without any magic would see them.

/// Why a command line is not understood; the model is told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SplitError {
    /// A quote is open at the end.
    #[error("a quote is not closed")]
    OpenQuote,
    /// Nothing follows the last backslash.
    #[error("there is nothing after the last backslash")]
    OpenEscape,
    /// A shell would do something here, and there is none.
    #[error(
        "`{0}` has no meaning here, because no shell is involved: there are no pipes, redirections, \
         lists, substitutions, variables or wildcards; quote it if you mean the character"
    )]
    Special(char),
}

/// Splits at white space; single quotes, double quotes and backslashes work as in a shell.
pub(super) fn split(line: &str) -> Result<Vec<String>, SplitError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.trim().chars();
    while let Some(c) = chars.next() {
        match c {
            '\n' | '\r' => return Err(SplitError::Special('\n')),
            c if c.is_ascii_whitespace() => words.extend(word.take()),
            '\'' => single(&mut chars, word.get_or_insert_default())?,
            '"' => double(&mut chars, word.get_or_insert_default())?,
            '\\' => {
                let next = chars.next().ok_or(SplitError::OpenEscape)?;
                word.get_or_insert_default().push(next);
            }
            '~' | '#' if word.is_some() => word.get_or_insert_default().push(c),
            c if is_special(c) => return Err(SplitError::Special(c)),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

fn is_special(c: char) -> bool {
    "|&;<>()$`*?[]{}~#".contains(c) || c.is_control()
}

fn single(chars: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), SplitError> {
    for c in chars {
        match c {
            '\'' => return Ok(()),
            c => word.push(c),
        }
    }
    Err(SplitError::OpenQuote)
}

fn double(chars: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), SplitError> {
    while let Some(c) = chars.next() {
        match c {
            '"' => return Ok(()),
            '$' | '`' => return Err(SplitError::Special(c)),
            '\\' => match chars.next().ok_or(SplitError::OpenQuote)? {
                c @ ('"' | '\\' | '$' | '`') => word.push(c),
                c => word.extend(['\\', c]),
            },
            c => word.push(c),
        }
    }
    Err(SplitError::OpenQuote)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expect: &[&str]) {
        assert_eq!(split(line).unwrap(), expect, "{line}");
    }

    #[test]
    fn words_are_split_as_a_shell_would() {
        check("", &[]);
        check("  ls   -l  ", &["ls", "-l"]);
        check("grep 'a b' \"c d\" e\\ f", &["grep", "a b", "c d", "e f"]);
        check("grep 'it'\"'\"'s' ''", &["grep", "it's", ""]);
        check(r#"grep "a\"b\\c\d" '$x|*'"#, &["grep", r#"a"b\c\d"#, "$x|*"]);
        check("find . \\( -name '*.rs' \\)", &["find", ".", "(", "-name", "*.rs", ")"]);
        check("cat a~ b#", &["cat", "a~", "b#"]);
        check("echo ä", &["echo", "ä"]);
    }

    #[test]
    fn whatever_a_shell_would_act_on_is_refused() {
        for c in "|&;<>()$`*?[]{}~#\n".chars() {
            assert_eq!(split(&format!("echo {c}x")), Err(SplitError::Special(c)), "{c}");
        }
        assert_eq!(split("echo \"$HOME\""), Err(SplitError::Special('$')));
        assert_eq!(split("echo \"`id`\""), Err(SplitError::Special('`')));
        assert_eq!(split("echo 'a"), Err(SplitError::OpenQuote));
        assert_eq!(split("echo \"a\\"), Err(SplitError::OpenQuote));
        assert_eq!(split("echo a\\"), Err(SplitError::OpenEscape));
    }
}
