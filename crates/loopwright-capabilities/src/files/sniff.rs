//! Detection of file types by their first bytes.

use loopwright_core::messages::PictureFormat;

/// How many bytes are looked at.
pub(super) const WINDOW: usize = 8 << 10;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Empty,
    Text,
    /// A picture that models can look at, with its media type.
    Image(&'static str),
    /// A document that providers read, with its media type.
    Document(&'static str),
    /// Something else: what it seems to be, and what to do about it.
    Binary(&'static str, &'static str),
}

/// Tells what a file is that begins with these bytes.
pub(super) fn kind(head: &[u8]) -> Kind {
    const SHELL: &str = "inspect it with a command that supports this format";
    let begins = |magic: &[u8]| head.starts_with(magic);
    if let Some(format) = PictureFormat::of(head) {
        return Kind::Image(format.mime());
    }
    match head {
        [] => Kind::Empty,
        _ if begins(b"\xFF\xFE") || begins(b"\xFE\xFF") => {
            Kind::Binary("UTF-16", "convert it to UTF-8 with a command such as `iconv`")
        }
        _ if begins(b"%PDF-") => Kind::Document("application/pdf"),
        _ if begins(b"\x7FELF") => Kind::Binary("a program", SHELL),
        _ if begins(b"PK\x03\x04") || begins(b"\x1F\x8B") => Kind::Binary("an archive", SHELL),
        _ if head.contains(&0) || is_mostly_noise(head) => Kind::Binary("binary data", SHELL),
        _ => Kind::Text,
    }
}

/// Text of another encoding has a few bytes that are not UTF-8; what has many is no text.
fn is_mostly_noise(head: &[u8]) -> bool {
    let noise: usize = head
        .utf8_chunks()
        .map(|it| it.invalid().len() + it.valid().bytes().filter(|it| is_odd_control(*it)).count())
        .sum();
    noise * 10 > head.len() * 3
}

fn is_odd_control(byte: u8) -> bool {
    byte.is_ascii_control() && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x0C | 0x1B)
}

#[cfg(test)]
mod tests;
