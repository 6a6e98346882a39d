//! Events of compaction.

use loopwright_core::CustomEvent;
use serde::{Deserialize, Serialize};

use crate::summarization::TranscriptSize;

/// The conversation was compacted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ConversationCompacted {
    /// The size before.
    pub before: TranscriptSize,
    /// The size after.
    pub after: TranscriptSize,
    /// The files with long tool outputs.
    pub files: Vec<String>,
    /// Problems.
    pub problems: Vec<String>,
}

impl CustomEvent for ConversationCompacted {
    const NAME: &'static str = "conversation_compacted";
}

impl ConversationCompacted {
    /// Creates the event, without files and problems.
    pub fn new(before: TranscriptSize, after: TranscriptSize) -> Self {
        Self { before, after, files: Vec::new(), problems: Vec::new() }
    }
}
