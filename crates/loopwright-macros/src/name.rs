//! What a tool may be called.

/// The longest name that providers accept.
const MAX_LENGTH: usize = 64;

/// Says what is wrong with a name, if anything is.
pub(crate) fn name_error(name: &str) -> Option<String> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    if let Some(letter) = name.chars().find(|letter| !fits(*letter)) {
        return Some(format!(
            "providers do not accept `{letter}` in a tool name: \
             use the letters `a` to `z` and `A` to `Z`, digits, `_` and `-`"
        ));
    }
    // Every character is one byte by now.
    match name.len() {
        1..=MAX_LENGTH => None,
        length => Some(format!(
            "providers do not accept a tool name with {length} characters: use 1 to {MAX_LENGTH}"
        )),
    }
}
