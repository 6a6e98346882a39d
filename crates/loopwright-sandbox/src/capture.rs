//! The captured part of a stream: its beginning and its end.

use std::collections::VecDeque;

use bytes::Bytes;

/// The captured part of one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapturedOutput {
    /// The first bytes, or all bytes if none were omitted.
    pub head: Bytes,
    /// The last bytes, if they are not part of `head`.
    pub tail: Bytes,
    /// The number of bytes that the command wrote.
    pub total: u64,
}

impl CapturedOutput {
    /// Captures a complete short stream.
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        let head = bytes.into();
        Self { total: head.len() as u64, head, tail: Bytes::new() }
    }

    /// Returns the number of omitted bytes between head and tail.
    pub fn omitted(&self) -> u64 {
        self.total - self.head.len() as u64 - self.tail.len() as u64
    }

    /// Returns the captured bytes as text, with a line in place of omitted bytes. Cuts fall between
    /// characters; invalid bytes become replacement characters.
    pub fn to_text(&self) -> String {
        if self.omitted() == 0 {
            let whole = [&self.head[..], &self.tail[..]].concat();
            return String::from_utf8_lossy(&whole).into_owned();
        }
        let head = &self.head[..whole_characters(&self.head)];
        let tail = &self.tail[continuation_bytes(&self.tail)..];
        let omitted = self.total - head.len() as u64 - tail.len() as u64;
        let (head, tail) = (String::from_utf8_lossy(head), String::from_utf8_lossy(tail));
        format!("{head}\n[{omitted} bytes omitted]\n{tail}")
    }
}

/// The length without a last character that is cut in two.
fn whole_characters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(&bytes[bytes.len().saturating_sub(4)..]) {
        Ok(_) => bytes.len(),
        Err(_) => (bytes.len().saturating_sub(3)..bytes.len())
            .rev()
            .find(|at| bytes[*at] >= 0xC0 && at + width(bytes[*at]) > bytes.len())
            .unwrap_or(bytes.len()),
    }
}

/// How many bytes a character has that begins with this one.
const fn width(first: u8) -> usize {
    match first {
        0xF0.. => 4,
        0xE0.. => 3,
        0xC0.. => 2,
        _ => 1,
    }
}

/// How many bytes at the beginning belong to a character that began before.
fn continuation_bytes(bytes: &[u8]) -> usize {
    bytes.iter().take(3).take_while(|byte| (0x80..0xC0).contains(*byte)).count()
}

/// Keeps the beginning and the end of a stream while it flows; memory stays within both.
#[derive(Debug)]
pub(crate) struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_limit: usize,
    tail_limit: usize,
    total: u64,
}

impl Capture {
    pub(crate) fn new(head_limit: usize, tail_limit: usize) -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), head_limit, tail_limit, total: 0 }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.head_limit - self.head.len();
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(self.tail_limit)..];
        let surplus = (self.tail.len() + rest.len()).saturating_sub(self.tail_limit);
        self.tail.drain(..surplus);
        self.tail.extend(rest);
    }

    pub(crate) const fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn finish(self) -> CapturedOutput {
        let tail: Vec<u8> = self.tail.into();
        CapturedOutput { head: self.head.into(), tail: tail.into(), total: self.total }
    }
}

#[cfg(test)]
mod tests;
