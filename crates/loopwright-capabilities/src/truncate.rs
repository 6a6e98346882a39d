//! Truncation of long texts.

use std::borrow::Cow;

/// Truncates a text to this number of characters, half from its beginning and half from its end.
pub(crate) fn window(text: &str, most: usize) -> Cow<'_, str> {
    // Bytes are no fewer than characters.
    if text.len() <= most {
        return text.into();
    }
    let length = text.chars().count();
    if length <= most {
        return text.into();
    }
    let (head, tail) = (most / 2, most - most / 2);
    let at = |number: usize| text.char_indices().nth(number).map_or(text.len(), |(at, _)| at);
    let (end, begin) = (at(head), at(length - tail));
    format!("{}\n[{} characters omitted]\n{}", &text[..end], length - most, &text[begin..]).into()
}
