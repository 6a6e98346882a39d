//! The log of a server.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::text;

/// Bytes that are kept of a server's standard error and log messages.
const MAX_BYTES: usize = 64 << 10;

/// A longer line is kept in pieces.
const MAX_LINE: usize = 4 << 10;

/// Hosts that are noted as refused.
const MAX_REFUSED: usize = 100;

/// The last lines that a server has written to its standard error or sent as log messages. Clones share the lines.
#[derive(Clone, Debug, Default)]
pub struct ServerLog(Arc<Mutex<Lines>>);

#[derive(Debug, Default)]
struct Lines {
    complete: VecDeque<String>,
    bytes: usize,
    open: Vec<u8>,
    dropped: u64,
    /// The hosts that the sandbox refused, in order.
    refused: Vec<String>,
}

impl ServerLog {
    /// Adds output as it arrives, in any pieces.
    pub(crate) fn push_bytes(&self, bytes: &[u8]) {
        let mut lines = self.lines();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = MAX_LINE.saturating_sub(lines.open.len());
            lines.open.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.ends_with(b"\n") || lines.open.len() >= MAX_LINE {
                let open = std::mem::take(&mut lines.open);
                lines.push(&String::from_utf8_lossy(&open));
            }
        }
    }

    /// Adds a line.
    pub(crate) fn push(&self, line: &str) {
        self.lines().push(&text::cut(line, MAX_LINE));
    }

    /// Adds a host that the sandbox refused, once.
    pub(crate) fn refuse(&self, host: &str, reason: &str) {
        let mut lines = self.lines();
        if lines.refused.len() < MAX_REFUSED && !lines.refused.iter().any(|it| it == host) {
            lines.refused.push(host.to_owned());
            lines.push(&text::cut(&format!("[the sandbox refused {host}: {reason}]"), MAX_LINE));
        }
    }

    /// Returns the number of hosts that the sandbox refused so far.
    pub(crate) fn refused_count(&self) -> usize {
        self.lines().refused.len()
    }

    /// Returns the hosts that the sandbox refused after so many others.
    pub(crate) fn refused_after(&self, count: usize) -> Vec<String> {
        self.lines()
            .refused
            .get(count..)
            .unwrap_or_default()
            .iter()
            .map(|it| text::line(it))
            .collect()
    }

    /// Returns the lines, oldest first, with control characters made visible.
    pub fn to_lines(&self) -> Vec<String> {
        let lines = self.lines();
        let open = String::from_utf8_lossy(&lines.open);
        let open = (!open.trim().is_empty()).then(|| text::clean(open.trim_end()));
        lines.complete.iter().cloned().chain(open).collect()
    }

    /// Returns the last line that says something, or `None` if there is none.
    pub(crate) fn last(&self) -> Option<String> {
        self.to_lines().into_iter().rev().find(|line| !line.trim().is_empty())
    }

    /// Returns the number of lines that were dropped because there were too many.
    pub fn dropped(&self) -> u64 {
        self.lines().dropped
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lines {
    fn push(&mut self, line: &str) {
        let line = text::clean(line.trim_end_matches(['\n', '\r']));
        self.bytes += line.len() + 1;
        self.complete.push_back(line);
        while self.bytes > MAX_BYTES
            && let Some(first) = self.complete.pop_front()
        {
            self.bytes -= first.len() + 1;
            self.dropped += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_put_together_and_cleaned() {
        let log = ServerLog::default();
        for piece in ["a", "b\nc\u{1b}[0m\r\n", "", "d"] {
            log.push_bytes(piece.as_bytes());
        }
        assert_eq!(log.to_lines(), ["ab", "c\\u{1b}[0m", "d"]);
        assert_eq!(log.last().as_deref(), Some("d"));
    }

    #[test]
    fn a_flood_keeps_the_last_lines_only() {
        let log = ServerLog::default();
        log.push_bytes(&vec![b'x'; 1 << 20]);
        for number in 0..20_000 {
            log.push_bytes(format!("line {number}\n").as_bytes());
        }
        let lines = log.to_lines();
        assert!(lines.iter().map(|it| it.len() + 1).sum::<usize>() <= MAX_BYTES);
        assert_eq!(lines.last().map(String::as_str), Some("line 19999"));
        assert!(log.dropped() > 10_000);
    }
}
