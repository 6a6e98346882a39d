//! Arguments in a skill's text.

/// Fills arguments in, in one pass: what an argument says is never looked at again.
///
/// `$ARGUMENTS[N]` and `$N` are the N-th word, counted from zero, and `$ARGUMENTS` is all of them. A
/// text without placeholders gets the arguments as its last line. Without arguments it stays as it is.
pub(super) fn substitute(text: &str, arguments: Option<&str>) -> String {
    let Some(arguments) = arguments else { return text.to_owned() };
    let (filled, found) = fill(text, arguments);
    if found { filled } else { appended(filled, arguments) }
}

/// Fills in arguments. Returns `true` if there was a placeholder.
pub(super) fn fill(text: &str, arguments: &str) -> (String, bool) {
    let words: Vec<&str> = arguments.split_whitespace().collect();
    let (mut filled, mut found) = (String::with_capacity(text.len()), false);
    let mut rest = text;
    let mut before = None;
    while let Some(at) = rest.find('$') {
        let (plain, from) = rest.split_at(at);
        filled.push_str(plain);
        before = plain.chars().next_back().or(before);
        let Some((value, length)) = placeholder(from, before, arguments, &words) else {
            filled.push('$');
            (rest, before) = (&from[1..], Some('$'));
            continue;
        };
        filled.push_str(value);
        found = true;
        rest = &from[length..];
        before = from[..length].chars().next_back();
    }
    filled.push_str(rest);
    (filled, found)
}

/// Rewrites a text in which words have names: the first name stands for `$ARGUMENTS[0]`.
pub(super) fn numbered(text: &str, names: &[String]) -> String {
    let mut rewritten = String::with_capacity(text.len());
    let (mut rest, mut before) = (text, None);
    while let Some(at) = rest.find('$') {
        let (plain, from) = rest.split_at(at);
        rewritten.push_str(plain);
        before = plain.chars().next_back().or(before);
        let word = from[1..].split(|it| !is_word(it)).next().unwrap_or_default();
        let number =
            names.iter().position(|it| it == word).filter(|_| !before.is_some_and(is_word));
        match number {
            Some(number) => rewritten.extend(["$ARGUMENTS[", &number.to_string(), "]"]),
            None => rewritten.extend(["$", word]),
        }
        rest = &from[1 + word.len()..];
        before = from[..=word.len()].chars().next_back();
    }
    rewritten + rest
}

/// Rewrites a text that counts words from one, as commands of other programs do: `$1` is its first word. A text with `$0`
/// counts from zero already.
pub(super) fn counted_from_zero(text: &str) -> String {
    let mut rewritten = String::with_capacity(text.len());
    let (mut rest, mut before) = (text, None);
    while let Some(at) = rest.find('$') {
        let (plain, from) = rest.split_at(at);
        rewritten.push_str(plain);
        before = plain.chars().next_back().or(before);
        match digit(from, before) {
            Some(0) => return text.to_owned(),
            Some(number) => {
                rewritten.extend(["$ARGUMENTS[", &(number - 1).to_string(), "]"]);
                rest = &from[2..];
            }
            None => {
                rewritten.push('$');
                rest = &from[1..];
            }
        }
        before = Some('$');
    }
    rewritten + rest
}

/// Adds the arguments to a text that has no place for them.
pub(super) fn appended(text: String, arguments: &str) -> String {
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
