//! Messages whose text is broken, as servers send that cut text between the halves of a character.

use std::borrow::Cow;

/// What stands for text that is none.
const REPLACEMENT: &[u8] = b"\\ufffd";

/// Returns a line of JSON with a replacement character for bytes that are no UTF-8, and for escapes of one half of a
/// character.
pub(crate) fn repaired(line: &[u8]) -> Vec<u8> {
    let line = match String::from_utf8_lossy(line) {
        Cow::Borrowed(_) => Cow::Borrowed(line),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    };
    let mut repaired = Vec::with_capacity(line.len());
    let mut rest: &[u8] = &line;
    while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
        repaired.extend_from_slice(&rest[..at]);
        rest = &rest[at..];
        let (escape, length): (&[u8], usize) = match (unit(rest), rest.get(6..).and_then(unit)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => (&rest[..12], 12),
            (Some(0xd800..=0xdfff), _) => (REPLACEMENT, 6),
            _ => (&rest[..rest.len().min(2)], rest.len().min(2)),
        };
        repaired.extend_from_slice(escape);
        rest = &rest[length..];
    }
    repaired.extend_from_slice(rest);
    repaired
}

/// Returns the value of an escape `\uXXXX`.
fn unit(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_characters_are_replaced_and_everything_else_is_kept() {
        for (line, expected) in [
            (r#"{"a":"b\n\u00e4\\\"c"}"#, r#"{"a":"b\n\u00e4\\\"c"}"#),
            (r#""\ud83d\ude00""#, r#""\ud83d\ude00""#),
            (r#""\ud83d""#, r#""\ufffd""#),
            (r#""\ude00\ud83d x""#, r#""\ufffd\ufffd x""#),
            (r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#""\\ud83d""#, r#""\\ud83d""#),
            (r#""\ud83d\n""#, r#""\ufffd\n""#),
            (r#""\u+123 \ud8"#, r#""\u+123 \ud8"#),
            ("\\", "\\"),
        ] {
            assert_eq!(String::from_utf8(repaired(line.as_bytes())).unwrap(), expected, "{line}");
        }
        assert_eq!(repaired(b"\"a\xffb\""), "\"a\u{fffd}b\"".as_bytes());
    }
}
