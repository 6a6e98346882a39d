//! The policy of a compaction.

use serde::Deserialize;

/// The policy of a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CompactionPolicy {
    /// The number of newest exchanges that stay: a message of the model, with its tool results and
    /// the message before it; 4 by default, at least one.
    pub keep_exchanges: usize,
    /// The maximum number of tokens of these exchanges; 16,384 by default, and at most half of the
    /// compaction threshold. If they have more, fewer exchanges stay, but always the newest one.
    pub keep_tokens: u64,
    /// The maximum number of tokens of a tool output; 1,024 by default. Longer outputs move to
    /// files, except those of the newest exchange.
    pub max_output_tokens: u64,
    /// The number of characters of such an output that stay, half from its beginning and half from
    /// its end; 600 by default.
    pub preview_chars: usize,
    /// The maximum number of tokens of the summary; 1,024 by default, and at most an eighth of the
    /// compaction threshold.
    pub max_summary_tokens: u64,
    /// The maximum number of tokens to summarize in one request; 32,768 by default, and at most
    /// half of the compaction threshold. Longer conversations are summarized in several requests.
    pub max_input_tokens: u64,
}

impl CompactionPolicy {
    /// Keeps less after several consecutive requests were too long: half as much each time.
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
