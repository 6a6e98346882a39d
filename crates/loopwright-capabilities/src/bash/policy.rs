//! Limits for the output of commands, and remarks about them.

use std::time::Duration;

use loopwright_sandbox::OutputLimits;
use serde::{Deserialize, Serialize};

use crate::bash::danger::OnDangerousCommand;

/// Limits for the duration and the output of commands, and the handling of dangerous ones. All
/// sizes are in bytes; cuts fall between characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BashPolicy {
    /// The shown size of each stream; 32 KiB by default.
    pub max_output_chars: usize,
    /// The part of it from the beginning of the stream; 8 KiB by default.
    pub head_chars: usize,
    /// The part of it from the end of the stream; 24 KiB by default. It also uses space that the
    /// beginning does not need.
    pub tail_chars: usize,
    /// The timeout of a command; 120 s by default.
    #[serde(with = "crate::written::seconds")]
    pub timeout: Duration,
    /// The captured size of each stream while the command runs; 128 KiB by default.
    pub capture_bytes: usize,
    /// The patterns of dangerous commands. They are a hint, not a protection: the sandbox decides
    /// what a command can do.
    pub dangerous_patterns: Vec<String>,
    /// The action for such a command; by default it runs, and the result contains a note.
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
    /// Creates a policy with these sizes: the shown part of each stream, its beginning and its end.
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
