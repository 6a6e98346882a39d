//! Arguments in a skill's text.

use std::borrow::Cow;

/// What stands for the directory of a skill in its text.
const DIRECTORY: &str = "${CLAUDE_SKILL_DIR}";

/// The values of the placeholders in a skill's text.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Values<'a> {
    /// `None` means that placeholders for arguments stay as they are.
    pub(super) arguments: Option<&'a str>,
    /// The directory of the skill. `None` means that its placeholder stays as it is.
    pub(super) directory: Option<&'a str>,
}

impl<'a> Values<'a> {
    /// Returns the values for commands, which never see the arguments.
    pub(super) fn for_commands(self) -> Self {
        Self { arguments: None, ..self }
    }

    /// Adds the arguments to a text that had no place for them.
    pub(super) fn add_unless(self, found: bool, text: String) -> String {
        match self.arguments {
            Some(arguments) if !found => appended(text, arguments),
            _ => text,
        }
    }

    /// Returns the value of the placeholder that a text begins with, the placeholder's length, and whether it is one for
    /// arguments.
    fn of(
        self,
        text: &str,
        before: Option<char>,
        words: &[&'a str],
    ) -> Option<(&'a str, usize, bool)> {
        match self.directory {
            Some(directory) if text.starts_with(DIRECTORY) => {
                Some((directory, DIRECTORY.len(), false))
            }
            _ => {
                let (value, length) = placeholder(text, before, self.arguments?, words)?;
                Some((value, length, true))
            }
        }
    }
}

/// Fills values in, in one pass: what a value says is never looked at again.
///
/// `$ARGUMENTS[N]` and `$N` are the N-th word, counted from zero, and `$ARGUMENTS` is all of them. A
/// text without placeholders for arguments gets the arguments as its last line.
pub(super) fn substitute(text: &str, values: Values<'_>) -> String {
    let (filled, found) = fill(text, values);
    values.add_unless(found, filled)
}

/// Fills in values. Returns `true` if there was a placeholder for arguments.
pub(super) fn fill(text: &str, values: Values<'_>) -> (String, bool) {
    let words: Vec<&str> = values.arguments.unwrap_or_default().split_whitespace().collect();
    let mut found = false;
    let filled = replaced(text, |from, before| {
        let (value, length, is_argument) = values.of(from, before, &words)?;
        found |= is_argument;
        Some((value.into(), length))
    });
    (filled, found)
}

/// Replaces placeholders in one pass. `value` receives a text that begins with `$`, and the character before it. It returns the
/// value of a placeholder and the placeholder's length.
fn replaced<'a>(
    text: &str,
    mut value: impl FnMut(&str, Option<char>) -> Option<(Cow<'a, str>, usize)>,
) -> String {
    let mut filled = String::with_capacity(text.len());
    let (mut rest, mut before) = (text, None);
    while let Some(at) = rest.find('$') {
        let (plain, from) = rest.split_at(at);
        filled.push_str(plain);
        before = plain.chars().next_back().or(before);
        let (value, length) = value(from, before).unwrap_or(("$".into(), 1));
        filled.push_str(&value);
        rest = &from[length..];
        // A placeholder can follow another one directly.
        before = Some('$');
    }
    filled + rest
}

/// Rewrites a text in which words have names: the first name stands for `$ARGUMENTS[0]`.
pub(super) fn numbered(text: &str, names: &[String]) -> String {
    replaced(text, |from, before| {
        let word = from[1..].split(|it| !is_word(it)).next().unwrap_or_default();
        let number = names.iter().position(|it| it == word);
        let number = number.filter(|_| !before.is_some_and(is_word))?;
        Some((format!("$ARGUMENTS[{number}]").into(), 1 + word.len()))
    })
}

/// Rewrites a text that counts words from one, as commands of other programs do: `$1` is its first word. A text with `$0`
/// counts from zero already.
pub(super) fn counted_from_zero(text: &str) -> String {
    let mut has_zero = false;
    let rewritten = replaced(text, |from, before| {
        let number = digit(from, before)?;
        has_zero |= number == 0;
        Some((format!("$ARGUMENTS[{}]", number.checked_sub(1)?).into(), 2))
    });
    if has_zero { text.to_owned() } else { rewritten }
}

/// Adds the arguments to a text that has no place for them.
fn appended(text: String, arguments: &str) -> String {
    if arguments.trim().is_empty() {
        return text;
    }
    format!("{}\n\nARGUMENTS: {arguments}", text.trim_end())
}

/// Returns the value of the placeholder that a text begins with, and the placeholder's length.
fn placeholder<'a>(
    text: &str,
    before: Option<char>,
    arguments: &'a str,
    words: &[&'a str],
) -> Option<(&'a str, usize)> {
    const ALL: &str = "$ARGUMENTS";
    let word = |index: usize| words.get(index).copied().unwrap_or_default();
    if let Some(after) = text.strip_prefix(ALL) {
        if let Some((digits, _)) = after.strip_prefix('[').and_then(|it| it.split_once(']'))
            && !digits.is_empty()
            && digits.bytes().all(|it| it.is_ascii_digit())
        {
            // A number that does not fit is beyond the last word.
            let value = digits.parse().map(word).unwrap_or_default();
            return Some((value, ALL.len() + digits.len() + 2));
        }
        return (!after.starts_with(is_word)).then_some((arguments, ALL.len()));
    }
    digit(text, before).map(|digit| (word(digit as usize), 2))
}

/// Returns the digit of a placeholder such as `$1` that a text begins with.
fn digit(text: &str, before: Option<char>) -> Option<u32> {
    let digit = text[1..].chars().next().and_then(|it| it.to_digit(10))?;
    let is_longer = text[2..].starts_with(|it: char| it.is_ascii_digit());
    (!is_longer && !before.is_some_and(is_word)).then_some(digit)
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}
