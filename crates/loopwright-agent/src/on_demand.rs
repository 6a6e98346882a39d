//! Tools that the model sees only after it has asked for them.

use std::sync::Arc;

use loopwright_core::{AgentState, AnyTool, Key, ToolSet, ToolVisibility};

/// The names of the deferred tools that the model has asked for, in order. Without this list in the
/// state, the model sees all tools.
pub const ACTIVATED_TOOLS: Key<Vec<Arc<str>>> = Key::session("tool_registry", "active");

/// Returns the tools that the model sees.
pub(crate) fn shown(state: &AgentState, tools: &ToolSet) -> ToolSet {
    let is_on_demand = |tool: &AnyTool| tool.options().visibility == ToolVisibility::Deferred;
    if !tools.iter().any(is_on_demand) {
        return tools.clone();
    }
    let Some(activated) = state.get(&ACTIVATED_TOOLS) else { return tools.clone() };
    tools.filter(|tool| !is_on_demand(tool) || activated.contains(tool.name()))
}
