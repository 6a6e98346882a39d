//! What is kept of a state.

use serde::{Deserialize, Serialize};

/// What is kept of a state. [`standard`](SlimSerializationConfig::standard) is the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own in configuration")]
pub struct SlimSerializationConfig {
    /// How many messages are kept, the last ones; an assistant's call and its results are kept together
    /// or not at all.
    pub max_messages: usize,
    /// How many steps are kept, the last ones.
    pub max_steps: usize,
    /// How many characters of a message are kept.
    pub max_content_length: usize,
    /// Whether what tools returned is kept.
    pub include_tool_results: bool,
    /// Whether steps are kept.
    pub include_steps: bool,
    /// Whether it is kept what was decided after the last step.
    pub include_continuation_trace: bool,
    /// Whether only names and ids are kept of calls.
    pub redact_tool_args: bool,
}

impl SlimSerializationConfig {
    /// Keeps little: the beginnings of the last messages, and what was called.
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

    /// Keeps what a user interface shows.
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

    /// Keeps much.
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
