//! Events of summarization and compaction.

use loopwright_core::CustomEvent;
use serde::{Deserialize, Serialize};

/// The size of a conversation, or of a part of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TranscriptSize {
    /// Number of turns.
    pub turns: usize,
    /// Number of tokens, by the counter of the capability.
    pub tokens: u64,
}

/// The oldest turns of the conversation were moved to the buffer of turns to summarize. The model still reads them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MessagesMovedToBuffer {
    /// The part that was moved.
    pub moved: TranscriptSize,
    /// The part that stayed.
    pub kept: TranscriptSize,
}

/// Turns were replaced by a summary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MessageBufferSummarized {
    /// The part that the summary replaces, without what the previous summary replaced.
    pub buffer: TranscriptSize,
    /// The summary.
    pub summary: String,
    /// Number of tokens of the summary.
    pub tokens: u64,
}

/// A summary could not be written. The run continues with the conversation as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SummarizationFailed {
    /// The reason.
    pub error: String,
    /// Number of failures in a row.
    pub failures: u32,
    /// Number of steps until the next attempt.
    pub retry_after: u64,
}

impl CustomEvent for MessagesMovedToBuffer {
    const NAME: &'static str = "messages_moved_to_buffer";
}

impl CustomEvent for MessageBufferSummarized {
    const NAME: &'static str = "message_buffer_summarized";
}

impl CustomEvent for SummarizationFailed {
    const NAME: &'static str = "summarization_failed";
}

impl MessagesMovedToBuffer {
    /// Creates the event.
    pub fn new(moved: TranscriptSize, kept: TranscriptSize) -> Self {
        Self { moved, kept }
    }
}

impl MessageBufferSummarized {
    /// Creates the event.
    pub fn new(buffer: TranscriptSize, summary: String, tokens: u64) -> Self {
        Self { buffer, summary, tokens }
    }
}

impl SummarizationFailed {
    /// Creates the event.
    pub fn new(error: String, failures: u32, retry_after: u64) -> Self {
        Self { error, failures, retry_after }
    }
}
