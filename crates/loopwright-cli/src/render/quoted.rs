//! Texts in command lines for shells.

/// Quotes a text for shells, where it needs that.
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_for_shells_where_they_need_it() {
        assert_eq!(quoted("files:/a/b.c"), "files:/a/b.c");
        assert_eq!(quoted("it's a b"), r"'it'\''s a b'");
        assert_eq!(quoted(""), "''");
    }
}
