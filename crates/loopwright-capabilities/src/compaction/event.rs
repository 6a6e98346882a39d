//! What compaction reports.

use loopwright_core::CustomEvent;
use serde::{Deserialize, Serialize};

use crate::summarization::TranscriptSize;

/// The conversation was compacted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ConversationCompacted {
    /// What the model saw before.
    pub before: TranscriptSize,
    /// What the model sees from now on.
    pub after: TranscriptSize,
    /// The files that hold long outputs of tools.
    pub files: Vec<String>,
    /// What could not be done.
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
