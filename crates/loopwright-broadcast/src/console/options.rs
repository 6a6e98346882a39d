//! What is shown of events.

use serde::{Deserialize, Serialize};

/// What is shown of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own in configuration")]
pub struct ConsoleOptions {
    /// Labels in colours.
    pub use_colors: bool,
    /// The time of day, in UTC.
    pub show_timestamps: bool,
    /// The ends of the ids of the agent and of the one it works for.
    pub show_agent_ids: bool,
    /// Whether another step is taken, and who decided it.
    pub show_continuation: bool,
    /// What tools are asked.
    pub show_tool_args: bool,
    /// What is asked of models.
    pub show_inference: bool,
    /// Sub-agents that begin and end.
    pub show_subagents: bool,
    /// Hooks.
    pub show_hooks: bool,
    /// Decisions and answers that could not be read.
    pub show_failures: bool,
    /// How many characters of an argument are shown.
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
