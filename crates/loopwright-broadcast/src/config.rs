//! The selection of broadcast events.

use serde::{Deserialize, Serialize};

/// The selection of broadcast events. [`standard`](BroadcastConfig::standard) is the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate switch in the configuration")]
pub struct BroadcastConfig {
    /// Whether to include fragments of responses as they arrive.
    pub include_stream_chunks: bool,
    /// Whether to include the decision about another step, with its reason.
    pub include_continuation_trace: bool,
    /// Whether to include the complete arguments of tools, not only a summary.
    pub include_tool_args: bool,
    /// The maximum number of characters of an argument, of a result's summary, of an error and of a
    /// text of a custom event.
    pub max_arg_length: usize,
    /// Whether the start and the completion of a run change the status. A run that fails or is
    /// stopped always does.
    pub auto_status_tracking: bool,
}

impl BroadcastConfig {
    /// Includes statuses, steps and tools, without fragments of responses.
    pub const fn minimal() -> Self {
        Self { include_stream_chunks: false, ..Self::standard() }
    }

    /// Also includes fragments of responses.
    pub const fn standard() -> Self {
        Self {
            include_stream_chunks: true,
            include_continuation_trace: false,
            include_tool_args: false,
            max_arg_length: 100,
            auto_status_tracking: true,
        }
    }

    /// Includes everything, with the arguments of tools.
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
