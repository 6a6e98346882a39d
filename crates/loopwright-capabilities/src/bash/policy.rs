//! What is shown of a command's output, and what is said about the command.

use std::time::Duration;

use loopwright_sandbox::OutputLimits;
use serde::{Deserialize, Serialize};

use crate::bash::danger::OnDangerousCommand;

/// How long a command may take, how much of its output is kept and shown, and what is said about
/// dangerous ones. All sizes are bytes; cuts fall on whole characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BashPolicy {
    /// How much is shown of each stream; 32 KiB by default.
    pub max_output_chars: usize,
    /// How much of that is the beginning; 8 KiB by default.
    pub head_chars: usize,
    /// How much of that is the end; 24 KiB by default. It grows to fill what the beginning leaves.
    pub tail_chars: usize,
    /// How long a command may take; 120 s by default.
    #[serde(with = "crate::written::seconds")]
    pub timeout: Duration,
    /// How much is kept of each stream while the command runs; 128 KiB by default.
    pub capture_bytes: usize,
    /// What commands are said to be dangerous. This is a hint and no protection: what a command can do
    /// is up to the sandbox.
    pub dangerous_patterns: Vec<String>,
    /// What becomes of such a command; by default it is run, and the answer has a note.
    pub on_danger: OnDangerousCommand,
}

impl Default for BashPolicy {
    fn default() -> Self {
        const PATTERNS: [&str; 6] =
            ["rm -rf /", "mkfs", "shutdown", "reboot", "dd if=/dev/zero", "> :"];
        Self {
            max_output_chars: 32_768,
            head_chars: 8192,
            tail_chars: 24_576,
            timeout: Duration::from_mins(2),
            capture_bytes: 131_072,
            dangerous_patterns: PATTERNS.map(str::to_owned).to_vec(),
            on_danger: OnDangerousCommand::default(),
        }
    }
}

impl BashPolicy {
    /// Shows so much of each stream, of that so much of its beginning and of its end.
    pub fn with_limits(max_output_chars: usize, head_chars: usize, tail_chars: usize) -> Self {
        Self { max_output_chars, head_chars, tail_chars, ..Self::default() }
    }

    /// Returns what a sandbox is to keep of each stream.
    pub(super) fn caps(&self) -> OutputLimits {
        let head = self.window().0.min(self.capture_bytes / 2);
        OutputLimits { head, tail: self.capture_bytes - head, ..OutputLimits::default() }
    }

    /// Returns how much is shown of the beginning and of the end of a stream that is too long.
    pub(super) fn window(&self) -> (usize, usize) {
        let head = self.head_chars.min(self.max_output_chars);
        (head, self.max_output_chars - head)
    }
}

#[cfg(test)]
mod tests;
