//! The limits of a conversation.

use loopwright_core::messages::SectionName;
use serde::Deserialize;

/// The limits of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SummarizationPolicy {
    /// The maximum number of tokens of the conversation; 4,096 by default. Older turns move to the
    /// buffer, except the last message of the model and everything after it.
    pub max_message_tokens: u64,
    /// The maximum number of tokens of the buffer; 8,192 by default. A larger buffer is summarized.
    pub max_buffer_tokens: u64,
    /// The maximum number of tokens of a summary; 512 by default. Longer summaries are truncated.
    pub max_summary_tokens: u64,
    /// The maximum number of tokens to summarize at once; 32,768 by default. It matters after
    /// summaries have failed for some time: the rest stays in the buffer until the next step.
    pub max_input_tokens: u64,
    /// The section of the buffer; `buffer` by default.
    pub buffer_section: SectionName,
    /// The section of the summary; `summary` by default.
    pub summary_section: SectionName,
}

impl Default for SummarizationPolicy {
    fn default() -> Self {
        Self {
            max_message_tokens: 4096,
            max_buffer_tokens: 8192,
            max_summary_tokens: 512,
            max_input_tokens: 32_768,
            buffer_section: SectionName::BUFFER.into(),
            summary_section: SectionName::SUMMARY.into(),
        }
    }
}
