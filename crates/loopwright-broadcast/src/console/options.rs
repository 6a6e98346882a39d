//! Options of the console output.

use serde::{Deserialize, Serialize};

/// Options of the console output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate switch in the configuration")]
pub struct ConsoleOptions {
    /// Whether labels are colored.
    pub use_colors: bool,
    /// Whether to show the time of day, in UTC.
    pub show_timestamps: bool,
    /// Whether to show the ends of the IDs of the agent and its parent.
    pub show_agent_ids: bool,
    /// Whether to show decisions about another step, with the deciding criterion.
    pub show_continuation: bool,
    /// Whether to show tool arguments.
    pub show_tool_args: bool,
    /// Whether to show model calls.
    pub show_inference: bool,
    /// Whether to show the start and the end of sub-agents.
    pub show_subagents: bool,
    /// Whether to show hook calls.
    pub show_hooks: bool,
    /// Whether to show invalid decisions and answers.
    pub show_failures: bool,
    /// The number of characters of an argument to show.
    pub max_arg_length: usize,
}

impl Default for ConsoleOptions {
    fn default() -> Self {
        Self {
            use_colors: true,
            show_timestamps: true,
            show_agent_ids: true,
            show_continuation: true,
            show_tool_args: true,
            show_inference: true,
            show_subagents: true,
            show_hooks: false,
            show_failures: true,
            max_arg_length: 100,
        }
    }
}
