//! A page of a text file: some of its lines, with their numbers.

use std::io::{self, BufRead};

use tokio_util::sync::CancellationToken;

use crate::files::shown::floor_boundary;

/// How much is shown of a line that is longer than a page.
pub(super) const PREVIEW: usize = 4096;

/// Where a page begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Start {
    /// Lines that end before it.
    pub(super) line: u64,
    /// Bytes before it.
    pub(super) byte: u64,
    /// Whether the line begins there, or it is the rest of one.
    pub(super) at: At,
}

/// Whether a line begins at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    Beginning,
    Middle,
}

/// How large a page may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) lines: u64,
    /// Numbers and line ends included.
    pub(super) bytes: usize,
}

/// Some lines of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) text: String,
    /// Whether some bytes were not text and are shown by a placeholder.
    pub(super) has_noise: bool,
    /// Lines that end before the end of the page.
    pub(super) line: u64,
    /// Bytes before the end of the page.
    pub(super) byte: u64,
    pub(super) end: End,
}

/// Why a page ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The file does.
    File,
    /// It is full.
    Full,
    /// Its first line does not fit, and is shown in part.
    LongLine,
}

/// Reads lines until the page is full. The reader stands where the page begins.
pub(super) fn read(reader: &mut impl BufRead, start: Start, bounds: Bounds) -> io::Result<Page> {
    let mut page = Page {
        text: String::new(),
        has_noise: false,
        line: start.line,
        byte: start.byte,
        end: End::File,
    };
    let mut at = start.at;
    for _ in 0..bounds.lines {
        let prefix = prefix(page.line + 1, at);
        let left = bounds.bytes.saturating_sub(page.text.len() + prefix.len());
        let is_first = page.text.is_empty();
        let most = if is_first { left.max(PREVIEW) } else { left };
        let Some(line) = take_line(reader, most.saturating_add(1))? else { return Ok(page) };
        if line.len() > left && !is_first {
            page.end = End::Full;
            return Ok(page);
        }
        if line.len() > most {
            let kept = if at == At::Middle { most } else { PREVIEW };
            page.preview(&prefix, &line[..floor_boundary(&line, kept)]);
            page.end = End::LongLine;
            return Ok(page);
        }
        page.push(&prefix, &line);
        at = At::Beginning;
    }
    if !reader.fill_buf()?.is_empty() {
        page.end = End::Full;
    }
    Ok(page)
}

fn prefix(number: u64, at: At) -> String {
    match at {
        At::Beginning => format!("{number:>6}\t"),
        At::Middle => format!("{number:>6}\t…"),
    }
}

impl Page {
    fn push(&mut self, prefix: &str, line: &[u8]) {
        self.text.push_str(prefix);
        self.push_text(line);
        self.byte += line.len() as u64;
        if line.ends_with(b"\n") {
            self.line += 1;
        } else {
            self.text.push('\n');
        }
    }

    fn preview(&mut self, prefix: &str, line: &[u8]) {
        self.text.push_str(prefix);
        self.push_text(line);
        self.text.push_str("…\n");
        self.byte += line.len() as u64;
    }

    fn push_text(&mut self, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let has_nul = text.contains('\0');
        self.has_noise |= has_nul || matches!(text, std::borrow::Cow::Owned(_));
        if has_nul {
            self.text.push_str(&text.replace('\0', "\u{FFFD}"));
        } else {
            self.text.push_str(&text);
        }
    }
}

/// Takes a line with its end, or its first `most` bytes; none at the end of the file.
fn take_line(reader: &mut impl BufRead, most: usize) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let mut limited = io::Read::take(reader, most as u64);
    limited.read_until(b'\n', &mut line)?;
    Ok((!line.is_empty()).then_some(line))
}

/// Skips lines, and tells where that ends: after how many lines and bytes. A last line without an end
/// counts.
pub(super) fn skip(
    reader: &mut impl BufRead,
    lines: u64,
    stop: &CancellationToken,
) -> io::Result<(u64, u64)> {
    let (mut line, mut byte) = (0, 0);
    let mut is_open = false;
    while line < lines {
        if stop.is_cancelled() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok((line + u64::from(is_open), byte));
        }
        let mut used = buffer.len();
        is_open = true;
        for end in memchr::memchr_iter(b'\n', buffer) {
            line += 1;
            is_open = end + 1 < buffer.len();
            if line == lines {
                used = end + 1;
                break;
            }
        }
        reader.consume(used);
        byte += used as u64;
    }
    Ok((line, byte))
}

#[cfg(test)]
mod tests;
