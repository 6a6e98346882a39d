//! What is broadcast.

use serde::{Deserialize, Serialize};

/// What is broadcast. [`standard`](BroadcastConfig::standard) is the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own in configuration")]
pub struct BroadcastConfig {
    /// Whether fragments of answers are told as they come.
    pub include_stream_chunks: bool,
    /// Whether it is told why another step is taken or not.
    pub include_continuation_trace: bool,
    /// Whether tools' arguments are told as a whole, and not only in a few words.
    pub include_tool_args: bool,
    /// How many characters of an argument, of a result's summary, of an error and of a text of a custom event are told.
    pub max_arg_length: usize,
    /// Whether a run that begins and one that completes change the status. A run that fails or is
    /// stopped does so in any case.
    pub auto_status_tracking: bool,
}

impl BroadcastConfig {
    /// Tells statuses, steps and tools, and no fragments of answers.
    pub const fn minimal() -> Self {
        Self { include_stream_chunks: false, ..Self::standard() }
    }

    /// Tells fragments of answers, too.
    pub const fn standard() -> Self {
        Self {
            include_stream_chunks: true,
            include_continuation_trace: false,
            include_tool_args: false,
            max_arg_length: 100,
            auto_status_tracking: true,
        }
    }

    /// Tells everything, with the arguments of tools.
    pub const fn debug() -> Self {
        Self {
            include_continuation_trace: true,
            include_tool_args: true,
            max_arg_length: 500,
            ..Self::standard()
        }
    }
}

impl Default for BroadcastConfig {
    fn default() -> Self {
        Self::standard()
    }
}
