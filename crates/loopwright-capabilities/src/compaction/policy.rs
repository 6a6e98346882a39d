//! What a compaction leaves.

use serde::Deserialize;

/// What a compaction leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CompactionPolicy {
    /// How many of the newest exchanges stay: what the model said, with the results of what it called and
    /// what was said to it right before; 4 by default, at least one.
    pub keep_exchanges: usize,
    /// The most tokens of these; 16,384 by default, and never more than half of the size at which it is
    /// time to compact. If they have more, fewer stay, but the newest does.
    pub keep_tokens: u64,
    /// The most tokens of an output of a tool; 1,024 by default. One that has more goes to a file, unless
    /// it is of the newest exchange.
    pub max_output_tokens: u64,
    /// How many characters of such an output stay, half of them its beginning and half its end; 600 by
    /// default.
    pub preview_chars: usize,
    /// The most tokens of the summary; 1,024 by default, and never more than an eighth of the size at which
    /// it is time to compact.
    pub max_summary_tokens: u64,
    /// The most tokens that a summary is made of at once; 32,768 by default, and never more than half of the
    /// size at which it is time to compact. What is longer is summed up in several requests.
    pub max_input_tokens: u64,
}

impl CompactionPolicy {
    /// Keeps less, after so many requests in a row were too long: half as much each time.
    pub(super) fn stricter(self, failed: u32) -> Self {
        let half = |tokens: u64| tokens.checked_shr(failed).unwrap_or(0);
        Self {
            keep_exchanges: self.keep_exchanges.checked_shr(failed).unwrap_or(0).max(1),
            keep_tokens: half(self.keep_tokens),
            max_output_tokens: half(self.max_output_tokens),
            max_input_tokens: half(self.max_input_tokens).max(1),
            ..self
        }
    }
}

impl Default for CompactionPolicy {
    fn default() -> Self {
        Self {
            keep_exchanges: 4,
            keep_tokens: 16_384,
            max_output_tokens: 1024,
            preview_chars: 600,
            max_summary_tokens: 1024,
            max_input_tokens: 32_768,
        }
    }
}
