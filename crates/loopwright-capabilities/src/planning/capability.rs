//! The capability for planning.

use std::borrow::Cow;

use loopwright_agent::{BuildError, Capability, Configurator};
use loopwright_core::{Budget, IntoTool};

use crate::planning::{PlanWithSubagent, prompt};

/// Adds the tool `plan_with_subagent`, and instructions on when to call it.
///
/// ```
/// use loopwright_capabilities::planning::UsePlanningSubagent;
/// use loopwright_core::Budget;
///
/// let planning = UsePlanningSubagent::default()
///     .with_planner_tools(["read_file", "list_dir", "search_files", "grep"])
///     .with_planner_budget(Budget { steps: Some(10), ..Budget::unlimited() });
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct UsePlanningSubagent {
    instructions: Cow<'static, str>,
    tool: PlanWithSubagent,
}

impl Default for UsePlanningSubagent {
    fn default() -> Self {
        Self { instructions: prompt::PARENT.into(), tool: PlanWithSubagent::default() }
    }
}

impl UsePlanningSubagent {
    /// Sets the instructions of the agent about planning; blank means none.
    pub fn with_parent_instructions(mut self, instructions: impl Into<Cow<'static, str>>) -> Self {
        self.instructions = instructions.into();
        self
    }

    /// Sets the system prompt of the planner; blank means none.
    pub fn with_planner_prompt(mut self, prompt: impl Into<Cow<'static, str>>) -> Self {
        self.tool = self.tool.with_prompt(prompt);
        self
    }

    /// Limits the planner to these tools of its parent; an empty list means all.
    pub fn with_planner_tools(
        mut self,
        tools: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        self.tool = self.tool.with_tools(tools);
        self
    }

    /// Gives the planner a tool that its parent does not have.
    pub fn with_planner_tool(mut self, tool: impl IntoTool) -> Self {
        self.tool = self.tool.with_tool(tool);
        self
    }

    /// Caps the planner's budget.
    pub fn with_planner_budget(mut self, budget: Budget) -> Self {
        self.tool = self.tool.with_budget(budget);
        self
    }

    /// Sets the maximum nesting depth of sub-agents; 3 by default.
    pub fn with_max_depth(mut self, max: u32) -> Self {
        self.tool = self.tool.with_max_depth(max);
        self
    }
}

impl Capability for UsePlanningSubagent {
    fn name(&self) -> Cow<'static, str> {
        "use_planning_subagent".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        agent.tools.add(self.tool.clone());
        let instructions = self.instructions.trim();
        if !instructions.is_empty() {
            agent.prompt.add(65, "planning", instructions);
        }
        Ok(())
    }
}
