//! Long texts in short.

use std::borrow::Cow;

/// Cuts a text to so many characters, half of them its beginning and half its end.
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
    format!("{}\n[{} characters left out]\n{}", &text[..end], length - most, &text[begin..]).into()
}
