//! The last lines of a command that runs.

use std::sync::{Arc, Mutex, PoisonError};

use super::words::{fit, sanitize_terminal};

/// How much is kept of what a command printed, in bytes. At times, it is twice as much.
const KEPT: usize = 1 << 12;

/// The end of what a command has printed so far. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct RunningOutput(Arc<Mutex<Vec<u8>>>);

impl RunningOutput {
    /// Adds what the command printed now.
    pub(super) fn push(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(&bytes[bytes.len().saturating_sub(KEPT)..]);
        if kept.len() > 2 * KEPT {
            let excess = kept.len() - KEPT;
            kept.drain(..excess);
        }
    }

    /// Returns the last lines with text, without styles, each at most this wide.
    pub(super) fn last_lines(&self, most: usize, width: usize) -> Vec<String> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let text = anstream::adapter::strip_str(&String::from_utf8_lossy(&kept)).to_string();
        // A program that shows its progress begins its line again with a carriage return.
        let shown = |line: &str| {
            let line = line.trim_end_matches('\r').rsplit('\r').next().unwrap_or_default();
            fit(&sanitize_terminal(&line.replace('\t', "  ")), width)
        };
        let lines: Vec<String> =
            text.lines().map(shown).filter(|it| !it.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(most)..].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_plain_and_fit() {
        let output = RunningOutput::default();
        assert_eq!(output.last_lines(3, 20), [""; 0]);
        output.push(b"one\n\x1b[1mtwo\x1b[0m\n\n10 %\r90");
        output.push(b" %\r\nfo\tur and some more words");
        assert_eq!(output.last_lines(3, 12), ["two", "90 %", "fo  ur and…"]);
        output.push("\n漢漢漢漢".as_bytes());
        assert_eq!(output.last_lines(1, 6), ["漢漢…"]);
    }

    #[test]
    fn of_a_flood_only_the_end_is_kept() {
        let output = RunningOutput::default();
        for number in 0..10_000 {
            output.push(format!("line {number}\n").as_bytes());
        }
        output.push("x".repeat(100_000).as_bytes());
        output.push(b"\nlast");
        assert!(output.0.lock().unwrap().len() <= 2 * KEPT);
        assert_eq!(output.last_lines(1, 20), ["last"]);
    }
}
