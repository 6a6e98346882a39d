//! Framing of response bodies.

use std::io;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, HeaderMap, TRANSFER_ENCODING};
use memchr::memchr;

use super::head::{invalid, names};

/// A line between two chunks that is longer than this is none.
const MAX_LINE: usize = 16 * 1024;

/// What follows the last chunk is no longer than this.
const MAX_TRAILER: usize = 64 * 1024;

/// What is still to come of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// So many bytes.
    Length(u64),
    /// Chunks, each after a line with its size.
    Chunked(Chunk),
    /// Everything until the connection is closed.
    UntilClose,
}

/// Where in a chunk we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chunk {
    /// Before the line with its size.
    Size,
    /// Before this number of bytes of it.
    Data(u64),
    /// Before the end of line that follows them.
    DataEnd,
    /// After the last chunk and so many bytes of what follows it, before a line that is empty.
    Trailer(usize),
    /// After everything.
    Done,
}

/// What can be taken of a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A part of it.
    Bytes(Bytes),
    /// Unknown until more is read, of which this number of bytes is expected.
    Missing(u64),
    /// Nothing any more.
    End,
}

impl Framing {
    /// Reads how the body of an answer is framed.
    pub(super) fn of(status: u16, headers: &HeaderMap) -> io::Result<Self> {
        let encodings = headers.get_all(CONTENT_ENCODING).into_iter().flat_map(names);
        if encodings.into_iter().any(|it| !it.is_empty() && !it.eq_ignore_ascii_case("identity")) {
            return Err(invalid(
                "the response is compressed, although compression was not \
                requested",
            ));
        }
        if matches!(status, 204 | 304) {
            return Ok(Self::Length(0));
        }
        let mut codings = headers.get_all(TRANSFER_ENCODING).into_iter().flat_map(names);
        match (codings.next(), codings.next()) {
            (None, _) => {}
            (Some(coding), None) if coding.eq_ignore_ascii_case("chunked") => {
                return Ok(Self::Chunked(Chunk::Size));
            }
            _ => return Err(invalid("the response has an encoding that was not requested")),
        }
        let mut lengths = headers.get_all(CONTENT_LENGTH).into_iter().flat_map(names);
        let Some(length) = lengths.next() else { return Ok(Self::UntilClose) };
        let is_number = !length.is_empty() && length.bytes().all(|it| it.is_ascii_digit());
        match length.parse() {
            Ok(number) if is_number && lengths.all(|it| it == length) => Ok(Self::Length(number)),
            _ => Err(invalid("the response length is not a number")),
        }
    }

    /// Returns `true` if an end that comes with the connection's is too early.
    pub(super) fn has_an_end(self) -> bool {
        self != Self::UntilClose
    }

    /// Takes what there is.
    pub(super) fn take(&mut self, buffer: &mut BytesMut) -> io::Result<Piece> {
        match self {
            Self::Length(0) => Ok(Piece::End),
            Self::Length(left) => Ok(data(left, buffer)),
            Self::UntilClose if buffer.is_empty() => Ok(Piece::Missing(0)),
            Self::UntilClose => Ok(Piece::Bytes(buffer.split().freeze())),
            Self::Chunked(chunk) => chunk.take(buffer),
        }
    }
}

impl Chunk {
    fn take(&mut self, buffer: &mut BytesMut) -> io::Result<Piece> {
        loop {
            match self {
                Self::Data(0) => *self = Self::DataEnd,
                Self::Data(left) => return Ok(data(left, buffer)),
                Self::Done => return Ok(Piece::End),
                Self::Size | Self::DataEnd | Self::Trailer(_) => {
                    let Some(line) = line(buffer)? else { return Ok(Piece::Missing(0)) };
                    *self = self.after(&line)?;
                }
            }
        }
    }

    /// Goes on after a line.
    fn after(self, line: &[u8]) -> io::Result<Self> {
        match self {
            Self::Size => {
                match size(line).ok_or_else(|| invalid("the size of a chunk is not a number"))? {
                    0 => Ok(Self::Trailer(0)),
                    size => Ok(Self::Data(size)),
                }
            }
            Self::DataEnd if line.is_empty() => Ok(Self::Size),
            Self::DataEnd => Err(invalid("a chunk is longer than its declared size")),
            Self::Trailer(_) if line.is_empty() => Ok(Self::Done),
            Self::Trailer(before) => match before + line.len() + 1 {
                most @ ..=MAX_TRAILER => Ok(Self::Trailer(most)),
                _ => Err(invalid("the response trailers are too long")),
            },
            at => Ok(at),
        }
    }
}

/// Takes no more than what is left.
fn data(left: &mut u64, buffer: &mut BytesMut) -> Piece {
    if buffer.is_empty() {
        return Piece::Missing(*left);
    }
    let most = usize::try_from(*left).unwrap_or(usize::MAX).min(buffer.len());
    *left -= most as u64;
    Piece::Bytes(buffer.split_to(most).freeze())
}

/// Takes a line without its end. Returns `None` if it is not there as a whole.
fn line(buffer: &mut BytesMut) -> io::Result<Option<BytesMut>> {
    let Some(end) = memchr(b'\n', buffer) else {
        let is_too_long = buffer.len() > MAX_LINE;
        return if is_too_long {
            Err(invalid("a line between chunks is too long"))
        } else {
            Ok(None)
        };
    };
    let mut line = buffer.split_to(end + 1);
    line.truncate(end);
    if line.last() == Some(&b'\r') {
        line.truncate(end - 1);
    }
    Ok(Some(line))
}

/// Reads the size of a chunk; extensions are of no use here.
fn size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|it| *it == b';').next()?.trim_ascii();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests;
