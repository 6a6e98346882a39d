//! The selection of the parts of a state to keep.

use serde::{Deserialize, Serialize};

/// The selection of the parts of a state to keep. [`standard`](SlimSerializationConfig::standard)
/// is the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate switch in the configuration")]
pub struct SlimSerializationConfig {
    /// The number of latest messages to keep; a call of the assistant and its results are kept
    /// together or not at all.
    pub max_messages: usize,
    /// The number of latest steps to keep.
    pub max_steps: usize,
    /// The number of characters to keep of a message.
    pub max_content_length: usize,
    /// Whether to keep tool results.
    pub include_tool_results: bool,
    /// Whether to keep steps.
    pub include_steps: bool,
    /// Whether to keep the decision after the last step.
    pub include_continuation_trace: bool,
    /// Whether to keep only the names and IDs of calls.
    pub redact_tool_args: bool,
}

impl SlimSerializationConfig {
    /// Keeps little: the beginnings of the latest messages, and the names of calls.
    pub const fn minimal() -> Self {
        Self {
            max_messages: 20,
            max_steps: 0,
            max_content_length: 500,
            include_tool_results: false,
            include_steps: false,
            ..Self::standard()
        }
    }

    /// Keeps the data for a user interface.
    pub const fn standard() -> Self {
        Self {
            max_messages: 50,
            max_steps: 20,
            max_content_length: 2000,
            include_tool_results: true,
            include_steps: true,
            include_continuation_trace: false,
            redact_tool_args: false,
        }
    }

    /// Keeps most data.
    pub const fn full() -> Self {
        Self {
            max_messages: 100,
            max_steps: 50,
            max_content_length: 5000,
            include_continuation_trace: true,
            ..Self::standard()
        }
    }
}

impl Default for SlimSerializationConfig {
    fn default() -> Self {
        Self::standard()
    }
}
