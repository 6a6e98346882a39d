//! Checksummed pieces of a file to which is only appended.
//!
//! | bytes | what they hold |
//! |---|---|
//! | 4 | [`MARK`] |
//! | 4 | length of the head |
//! | 4 | length of the body |
//! | 4 | checksum of the body |
//! | 4 | checksum of the place in the file, of the two lengths, of the body's checksum and of the head |
//! | | the head, then the body |
//! | 4 | length of it all |
//! | 4 | [`END`] |
//!
//! Numbers are little-endian, checksums CRC-32. A checksum holds the place, so bytes that were copied
//! from elsewhere, such as a log that is quoted in a body, are never taken for a frame.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    ops::Range,
};

use crc32fast::Hasher;

/// How a frame begins. Its first byte is in no text.
const MARK: [u8; 4] = *b"\xfeLWf";
/// How a frame ends.
const END: [u8; 4] = *b"fWL\xfe";
/// The bytes before the head.
const BEFORE: usize = 20;
/// The bytes after the body.
const AFTER: usize = 8;
/// What is read at first of a frame whose length is not known.
const GLANCE: u64 = 4 << 10;

/// A frame in some bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// Where it stands in the bytes.
    pub(super) at: Range<usize>,
    /// Where its head stands.
    pub(super) head: Range<usize>,
    /// Where its body stands.
    pub(super) body: Range<usize>,
}

/// A frame that was read by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwnedFrame {
    /// Where it begins in its file.
    pub(super) at: u64,
    pub(super) head: Vec<u8>,
    pub(super) body: Vec<u8>,
}

/// What some bytes hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scan {
    /// The frames before the first byte that is wrong.
    pub(super) frames: Vec<Frame>,
    /// Where they end in the file.
    pub(super) end: u64,
    pub(super) ending: LogTail,
}

/// What comes after the frames that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogTail {
    /// Nothing.
    Clean,
    /// A piece of a frame whose writing was cut short.
    Torn,
    /// A frame that was written whole and is not intact. A caller that wrote it may rely on it.
    CorruptTail,
    /// Something wrong, and then intact frames from this place in the file on.
    CorruptMiddle { again: u64 },
}

/// Adds a frame to bytes that begin at some place of a file.
pub(super) fn write(out: &mut Vec<u8>, base: u64, head: &[u8], body: &[u8]) -> io::Result<()> {
    let at = base + out.len() as u64;
    let whole = length(BEFORE + head.len() + body.len() + AFTER)?;
    let (head_length, body_length) = (length(head.len())?, length(body.len())?);
    let body_sum = crc32fast::hash(body).to_le_bytes();
    out.reserve(whole as usize);
    out.extend(MARK);
    out.extend(head_length.to_le_bytes());
    out.extend(body_length.to_le_bytes());
    out.extend(body_sum);
    let lengths = out.len() - 12..;
    let sum = head_sum(at, &out[lengths], head);
    out.extend(sum.to_le_bytes());
    out.extend(head);
    out.extend(body);
    out.extend(whole.to_le_bytes());
    out.extend(END);
    Ok(())
}

fn length(bytes: usize) -> io::Result<u32> {
    u32::try_from(bytes).map_err(|_| io::Error::other("the record is larger than 4 GiB"))
}

fn head_sum(at: u64, lengths: &[u8], head: &[u8]) -> u32 {
    let mut sum = Hasher::new();
    sum.update(&at.to_le_bytes());
    sum.update(lengths);
    sum.update(head);
    sum.finalize()
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*four))
}

/// Returns where the parts of a frame are that begins at `start` of bytes which begin at `base` of
/// a file, or `None` if its beginning is not intact. Its body need not be there.
fn parts(bytes: &[u8], base: u64, start: usize) -> Option<Frame> {
    if !bytes.get(start..)?.starts_with(&MARK) {
        return None;
    }
    let (head, body) = (number(bytes, start + 4)? as usize, number(bytes, start + 8)? as usize);
    let sum = number(bytes, start + 16)?;
    let head = start + BEFORE..(start + BEFORE).checked_add(head)?;
    let body = head.end..head.end.checked_add(body)?;
    let whole = start..body.end.checked_add(AFTER)?;
    let lengths = &bytes[start + 4..start + 16];
    let is_intact = head_sum(base + start as u64, lengths, bytes.get(head.clone())?) == sum;
    is_intact.then_some(Frame { at: whole, head, body })
}

/// Returns the frame that begins at `start` of bytes which begin at `base` of a file, or `None` if
/// there is no intact one.
pub(super) fn read(bytes: &[u8], base: u64, start: usize) -> Option<Frame> {
    let frame = parts(bytes, base, start)?;
    let trailer = bytes.get(frame.body.end..frame.at.end)?;
    let is_whole = number(trailer, 0)? as usize == frame.at.len() && trailer.ends_with(&END);
    let sum = number(bytes, start + 12)?;
    (is_whole && crc32fast::hash(&bytes[frame.body.clone()]) == sum).then_some(frame)
}

/// Reads the frames of bytes that begin at some place of a file.
pub(super) fn scan(bytes: &[u8], base: u64) -> Scan {
    let (mut frames, mut end) = (Vec::new(), 0);
    while let Some(frame) = read(bytes, base, end) {
        end = frame.at.end;
        frames.push(frame);
    }
    let ending = match find(bytes, base, end) {
        _ if end == bytes.len() => LogTail::Clean,
        Some(again) => LogTail::CorruptMiddle { again: base + again.at.start as u64 },
        None if was_whole(bytes, base, end) => LogTail::CorruptTail,
        None => LogTail::Torn,
    };
    Scan { frames, end: base + end as u64, ending }
}

/// Returns all intact frames of bytes that begin at some place of a file, whatever is between them.
pub(super) fn all(bytes: &[u8], base: u64) -> Vec<Frame> {
    let next = |from| find(bytes, base, from);
    std::iter::successors(next(0), |frame| next(frame.at.end)).collect()
}

/// Returns `true` if bytes in which no frame is intact from `start` on were a frame once.
fn was_whole(bytes: &[u8], base: u64, start: usize) -> bool {
    let reaches_its_end = |it: Frame| it.at.end <= bytes.len();
    parts(bytes, base, start).is_some_and(reaches_its_end)
        || bytes[start..].windows(END.len()).any(|it| it == END)
}

/// Returns the first intact frame that begins at `from` or later.
pub(super) fn find(bytes: &[u8], base: u64, mut from: usize) -> Option<Frame> {
    loop {
        from += bytes.get(from..)?.iter().position(|it| *it == MARK[0])?;
        if let Some(frame) = read(bytes, base, from) {
            return Some(frame);
        }
        from += 1;
    }
}

/// Reads the head of the frame that begins at some place of a file. Returns `None` if it is not
/// intact. Its body is not looked at.
pub(super) fn head_at(file: &mut File, at: u64) -> io::Result<Option<Vec<u8>>> {
    let bytes = glance(file, at)?;
    Ok(parts(&bytes, at, 0).map(|it| bytes[it.head].to_vec()))
}

/// Reads the frame that begins at some place of a file. Returns `None` if there is no intact one.
pub(super) fn beginning_at(file: &mut File, at: u64) -> io::Result<Option<OwnedFrame>> {
    let mut bytes = glance(file, at)?;
    let Some(frame) = parts(&bytes, at, 0) else { return Ok(None) };
    if frame.at.end > bytes.len() {
        bytes = part(file, at, frame.at.end as u64)?;
    }
    Ok(read(&bytes, at, 0).map(|it| owned(&bytes, at, it)))
}

/// Reads the frame that ends at some place of a file. Returns `None` if there is no intact one.
pub(super) fn ending_at(file: &mut File, end: u64) -> io::Result<Option<OwnedFrame>> {
    let from = end.saturating_sub(GLANCE);
    let mut bytes = part(file, from, end - from)?;
    let Some(trailer) = bytes.last_chunk::<AFTER>().filter(|it| it.ends_with(&END)) else {
        return Ok(None);
    };
    let Some(at) = number(trailer, 0).and_then(|it| end.checked_sub(u64::from(it))) else {
        return Ok(None);
    };
    let mut base = from;
    if at < from {
        (base, bytes) = (at, part(file, at, end - at)?);
    }
    let start = usize::try_from(at - base).map_err(io::Error::other)?;
    let frame = read(&bytes, base, start).filter(|it| base + it.at.end as u64 == end);
    Ok(frame.map(|it| owned(&bytes, at, it)))
}

/// Reads the beginning of a file's frame, its head included.
fn glance(file: &mut File, at: u64) -> io::Result<Vec<u8>> {
    let bytes = part(file, at, GLANCE)?;
    let head = number(&bytes, 4).filter(|_| bytes.starts_with(&MARK));
    let wanted = BEFORE as u64 + head.map_or(0, u64::from);
    if wanted > bytes.len() as u64 { part(file, at, wanted) } else { Ok(bytes) }
}

fn owned(bytes: &[u8], at: u64, frame: Frame) -> OwnedFrame {
    OwnedFrame { at, head: bytes[frame.head].to_vec(), body: bytes[frame.body].to_vec() }
}

/// Reads this number of bytes of a file from a position on, or as many as exist.
pub(super) fn part(file: &mut File, at: u64, length: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(at))?;
    let there = file.metadata()?.len().saturating_sub(at).min(length);
    let mut bytes = Vec::with_capacity(usize::try_from(there).unwrap_or_default());
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
