//! Untrusted text of servers: cleaned and truncated.

/// The longest description of a tool, in characters.
pub(crate) const MAX_DESCRIPTION: usize = 2_000;

/// Replaces control characters, and characters that hide or reorder text, by `\u{…}`. Line breaks
/// and tabs stay.
pub fn clean(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    for c in text.chars() {
        if is_shown(c) { cleaned.push(c) } else { cleaned.extend(c.escape_unicode()) }
    }
    cleaned
}

fn is_shown(c: char) -> bool {
    match c {
        '\n' | '\t' => true,
        // Marks that reorder text, characters without width, and tags, which models read and people do not see.
        '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{e0000}'..='\u{e0fff}' => false,
        c => !c.is_control(),
    }
}

/// Cuts a text to this many characters, and says so.
pub(crate) fn cut(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((at, _)) => format!("{}… [truncated after {max} characters]", &text[..at]),
        None => text.to_owned(),
    }
}

/// Cleans and cuts a text to one line, for errors.
pub(crate) fn line(text: &str) -> String {
    let text = cut(text.trim(), 300);
    clean(&text).replace(['\n', '\t'], " ")
}

/// Joins the texts of an error and its causes, without repeating what an error says of its cause.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_and_hidden_characters_become_visible() {
        assert_eq!(
            clean("a\u{1b}[31mb\u{202e}c\u{e0041}d\n"),
            "a\\u{1b}[31mb\\u{202e}c\\u{e0041}d\n"
        );
        assert_eq!(clean("größe 日本 🎈"), "größe 日本 🎈");
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(cut("äöü", 2), "äö… [truncated after 2 characters]");
        assert_eq!(cut("äöü", 3), "äöü");
        assert_eq!(line(" a\nb\r"), "a b");
    }
}
