//! Sanitizing and truncation of untrusted text.

/// Replaces terminal control characters; line breaks and tabs stay.
pub fn sanitize_terminal(text: &str) -> String {
    let replace = |c: char| if is_harmless(c) { c } else { char::REPLACEMENT_CHARACTER };
    text.chars().map(replace).collect()
}

/// Control characters, and those that turn the direction of writing round.
fn is_harmless(c: char) -> bool {
    let turns = matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
    matches!(c, '\n' | '\t') || !(c.is_control() || turns)
}

/// Converts a text to one line of at most this number of characters.
pub fn single_line(text: &str, most: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    truncate(&sanitize_terminal(&words.join(" ")), most)
}

/// Truncates a text to this number of characters, including the truncation mark.
pub fn truncate(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    kept.trim_end().to_owned() + "…"
}

/// Keeps the first characters of a text that is longer than a limit, and adds a truncation mark.
pub fn shorten(text: &str, limit: usize, kept: usize) -> String {
    if text.len() <= limit || text.char_indices().nth(limit).is_none() {
        return text.to_owned();
    }
    let end = text.char_indices().nth(kept).map_or(text.len(), |(at, _)| at);
    format!("{}...", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_not_steered_by_texts_of_others() {
        assert_eq!(
            sanitize_terminal("a\u{1b}[31mb\tc\nd\u{7}\u{202E}e\r"),
            "a\u{fffd}[31mb\tc\nd\u{fffd}\u{fffd}e\u{fffd}"
        );
        assert_eq!(single_line(" a\n b\u{1b}  c ", 80), "a b\u{fffd} c");
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(truncate("äöü", 3), "äöü");
        assert_eq!(truncate("äöüß", 3), "äö…");
        assert_eq!(shorten("äöüß", 4, 2), "äöüß");
        assert_eq!(shorten("äöüßa", 4, 2), "äö...");
        assert_eq!(shorten("äöüßa", 0, 0), "...");
    }
}
