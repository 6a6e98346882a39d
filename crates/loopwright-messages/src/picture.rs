//! Pictures by their bytes, without decoding them.

use std::fmt;

/// What the bytes of a picture say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Picture {
    /// The media type, whatever the name of the file or another program says.
    pub mime: &'static str,
    /// The width and the height in pixels; `None` if they cannot be found.
    pub pixels: Option<(u32, u32)>,
}

/// Why no provider accepts a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PictureError {
    /// The bytes are those of something else.
    #[error("the data is not a PNG, JPEG, GIF or WebP image")]
    Other,
    /// The end of the picture is missing.
    #[error("the {0} image is truncated: its end is missing")]
    Truncated(PictureFormat),
    /// The picture contradicts its format.
    #[error("the {0} image is damaged: its header is invalid")]
    Damaged(PictureFormat),
}

/// The format of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PictureFormat {
    /// PNG.
    Png,
    /// JPEG.
    Jpeg,
    /// GIF.
    Gif,
    /// WebP.
    WebP,
}

impl PictureFormat {
    /// Returns the format of a picture that begins with these bytes.
    pub fn of(head: &[u8]) -> Option<Self> {
        match head {
            _ if head.starts_with(b"\x89PNG\r\n\x1a\n") => Some(Self::Png),
            _ if head.starts_with(b"\xFF\xD8\xFF") => Some(Self::Jpeg),
            _ if head.starts_with(b"GIF87a") || head.starts_with(b"GIF89a") => Some(Self::Gif),
            _ if head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP") => Some(Self::WebP),
            _ => None,
        }
    }

    /// Returns the media type.
    pub fn mime(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::WebP => "image/webp",
        }
    }
}

impl fmt::Display for PictureFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Png => "PNG",
            Self::Jpeg => "JPEG",
            Self::Gif => "GIF",
            Self::WebP => "WebP",
        })
    }
}

impl Picture {
    /// The largest edge in pixels that providers accept.
    pub const MAX_EDGE: u32 = 8_000;

    /// Looks at the bytes of a picture, without decoding it.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not those of a whole picture.
    pub fn of(bytes: &[u8]) -> Result<Self, PictureError> {
        let format = PictureFormat::of(bytes).ok_or(PictureError::Other)?;
        let pixels = match format {
            PictureFormat::Png => png(bytes),
            PictureFormat::Jpeg => jpeg(bytes),
            PictureFormat::Gif => gif(bytes),
            PictureFormat::WebP => webp(bytes),
        };
        let pixels = pixels.map_err(|problem| match problem {
            Problem::Truncated => PictureError::Truncated(format),
            Problem::Damaged => PictureError::Damaged(format),
        })?;
        if pixels.is_some_and(|(width, height)| width == 0 || height == 0) {
            return Err(PictureError::Damaged(format));
        }
        Ok(Self { mime: format.mime(), pixels })
    }
}

enum Problem {
    Truncated,
    Damaged,
}

type Pixels = Result<Option<(u32, u32)>, Problem>;

fn number(bytes: &[u8], at: usize) -> Result<u32, Problem> {
    let four = bytes.get(at..at + 4).and_then(|it| it.try_into().ok());
    four.map(u32::from_be_bytes).ok_or(Problem::Truncated)
}

fn short(bytes: &[u8], at: usize) -> Result<[u8; 2], Problem> {
    bytes.get(at..at + 2).and_then(|it| it.try_into().ok()).ok_or(Problem::Truncated)
}

/// Walks over the chunks, of which the first one has the size and the last one is empty.
fn png(bytes: &[u8]) -> Pixels {
    let header = bytes.get(8..16).ok_or(Problem::Truncated)?;
    if header != b"\0\0\0\rIHDR" {
        return Err(Problem::Damaged);
    }
    let pixels = (number(bytes, 16)?, number(bytes, 20)?);
    let mut at = 8_usize;
    loop {
        let length = number(bytes, at)? as usize;
        let kind = bytes.get(at + 4..at + 8).ok_or(Problem::Truncated)?;
        // The length, the kind and a sum stand around the data.
        at = at.checked_add(length).and_then(|it| it.checked_add(12)).ok_or(Problem::Truncated)?;
        if at > bytes.len() {
            return Err(Problem::Truncated);
        }
        if kind == b"IEND" {
            return Ok(Some(pixels));
        }
    }
}

/// Walks over the segments to the size, and looks for the mark of the end.
fn jpeg(bytes: &[u8]) -> Pixels {
    let mut at = 2;
    let pixels = loop {
        let [mark, kind] = short(bytes, at)?;
        match (mark, kind) {
            (0xFF, 0xFF) => at += 1,
            (0xFF, 0xC0..=0xCF) if !matches!(kind, 0xC4 | 0xC8 | 0xCC) => {
                let height = u16::from_be_bytes(short(bytes, at + 5)?);
                let width = u16::from_be_bytes(short(bytes, at + 7)?);
                // A height of 0 is given behind the first scan.
                break (height > 0).then_some((u32::from(width), u32::from(height)));
            }
            // The image begins without a size.
            (0xFF, 0xDA | 0xD9) => break None,
            (0xFF, _) => at += 2 + usize::from(u16::from_be_bytes(short(bytes, at + 2)?)),
            _ => return Err(Problem::Damaged),
        }
    };
    let is_whole = bytes.windows(2).rev().any(|it| it == [0xFF, 0xD9]);
    if is_whole { Ok(pixels) } else { Err(Problem::Truncated) }
}

fn gif(bytes: &[u8]) -> Pixels {
    let width = u16::from_le_bytes(short(bytes, 6)?);
    let height = u16::from_le_bytes(short(bytes, 8)?);
    let last = bytes.iter().rev().find(|it| **it != 0);
    if last == Some(&b';') {
        Ok(Some((width.into(), height.into())))
    } else {
        Err(Problem::Truncated)
    }
}

/// The header has the length of the rest.
fn webp(bytes: &[u8]) -> Pixels {
    let length = number(bytes, 4)?.swap_bytes() as usize;
    let whole = length.checked_add(8).ok_or(Problem::Truncated)?;
    // The last byte can be a filler that some programs omit.
    if bytes.len() + 1 < whole { Err(Problem::Truncated) } else { Ok(None) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A PNG of one pixel.
    const PNG: &[u8] = b"\x89\x50\x4e\x47\x0d\x0a\x1a\x0a\x00\x00\x00\x0d\x49\x48\x44\x52\x00\x00\x00\x01\x00\x00\x00\x01\x08\x00\x00\x00\x00\x3a\x7e\x9b\x55\x00\x00\x00\x0a\x49\x44\x41\x54\x78\x9c\x63\x60\x00\x00\x00\x02\x00\x01\x48\xaf\xa4\x71\x00\x00\x00\x00\x49\x45\x4e\x44\xae\x42\x60\x82";

    fn jpeg_of(width: u8, height: u8) -> Vec<u8> {
        let size = [0xFF, 0xC0, 0, 11, 8, 0, height, 0, width, 1, 1, 0x11, 0];
        let segments: [&[u8]; 4] =
            [b"\xFF\xD8\xFF\xE0\0\x04ab", &size, b"\xFF\xDA\0\x02data", b"\xFF\xD9"];
        segments.concat()
    }

    #[test]
    fn a_whole_picture_has_its_type_and_its_size() {
        let of = |bytes: &[u8]| Picture::of(bytes).map(|it| (it.mime, it.pixels));
        assert_eq!(of(PNG), Ok(("image/png", Some((1, 1)))));
        assert_eq!(of(&[PNG, b"more"].concat()), Ok(("image/png", Some((1, 1)))));
        assert_eq!(of(&jpeg_of(3, 2)), Ok(("image/jpeg", Some((3, 2)))));
        assert_eq!(of(b"GIF89a\x02\0\x01\0data;\0"), Ok(("image/gif", Some((2, 1)))));
        assert_eq!(of(b"RIFF\x08\0\0\0WEBPdata"), Ok(("image/webp", None)));
    }

    #[test]
    fn a_picture_that_ends_early_is_truncated_wherever_that_is() {
        for whole in [PNG.to_vec(), jpeg_of(3, 2), b"GIF89a\x02\0\x01\0data;".to_vec()] {
            let format = PictureFormat::of(&whole).unwrap();
            for end in 8..whole.len() {
                assert_eq!(
                    Picture::of(&whole[..end]),
                    Err(PictureError::Truncated(format)),
                    "{format} {end}"
                );
            }
        }
        let webp = Picture::of(b"RIFF\x08\0\0\0WEBPda");
        assert_eq!(webp, Err(PictureError::Truncated(PictureFormat::WebP)));
    }

    #[test]
    fn other_bytes_and_impossible_headers_are_errors() {
        for other in [b"".as_slice(), b"text", b"%PDF-1.7", b"RIFF\0\0\0\0WAVE"] {
            assert_eq!(Picture::of(other), Err(PictureError::Other));
        }
        let mut empty = PNG.to_vec();
        empty[16..20].fill(0);
        assert_eq!(Picture::of(&empty), Err(PictureError::Damaged(PictureFormat::Png)));
        let other = [&PNG[..8], b"not a header of a picture"].concat();
        assert_eq!(Picture::of(&other), Err(PictureError::Damaged(PictureFormat::Png)));
        let odd = b"\xFF\xD8\xFF\xE0\0\x02ab";
        assert_eq!(Picture::of(odd), Err(PictureError::Damaged(PictureFormat::Jpeg)));
    }
}
