//! How much of a conversation stays as it was said.

use loopwright_core::messages::SectionName;
use serde::Deserialize;

/// How much of a conversation stays as it was said.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SummarizationPolicy {
    /// The most tokens of the conversation; 4,096 by default. The excess goes to the buffer, oldest
    /// first, but for what came since the model spoke last, and what it spoke then.
    pub max_message_tokens: u64,
    /// The most tokens of the buffer; 8,192 by default. If there are more, it is summarised.
    pub max_buffer_tokens: u64,
    /// The most tokens of a summary; 512 by default. One that is longer is cut.
    pub max_summary_tokens: u64,
    /// The most tokens that a summary is made of at once; 32,768 by default. It matters where summaries
    /// failed for some time: the rest stays in the buffer until the next step.
    pub max_input_tokens: u64,
    /// The section that is the buffer; `buffer` by default.
    pub buffer_section: SectionName,
    /// The section that holds the summary; `summary` by default.
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
