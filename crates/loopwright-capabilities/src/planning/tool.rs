//! `plan_with_subagent`.

use std::{borrow::Cow, sync::Arc};

use loopwright_agent::NameList;
use loopwright_core::{
    BoxError, Budget, ExecutionStatus, IntoTool, Reach, SideEffects, Tool, ToolCx, ToolOptions,
    ToolOutput, ToolSet,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    child::{ChildAgent, ChildError, MAX_DEPTH},
    planning::prompt,
};

const NAME: &str = "plan_with_subagent";

/// What a planner never calls: it is the one who plans, and it hands nothing on.
const NEVER: [&str; 2] = [NAME, "spawn_subagent"];

/// Lets a sub-agent plan the work of a specification.
#[derive(Clone, Debug)]
#[must_use]
pub struct PlanWithSubagent {
    pub(super) prompt: Cow<'static, str>,
    pub(super) tools: Option<NameList>,
    pub(super) own_tools: ToolSet,
    pub(super) budget: Budget,
    pub(super) max_depth: u32,
}

/// The arguments of the tool `plan_with_subagent`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanArgs {
    /// The work to plan: goal, context, expected outcomes, acceptance criteria and constraints.
    pub specification: String,
}

impl Default for PlanWithSubagent {
    fn default() -> Self {
        Self {
            prompt: prompt::PLANNER.into(),
            tools: None,
            own_tools: ToolSet::new(),
            budget: Budget::unlimited(),
            max_depth: MAX_DEPTH,
        }
    }
}

impl PlanWithSubagent {
    /// Sets the system prompt of the planner; blank means none.
    pub fn with_prompt(mut self, prompt: impl Into<Cow<'static, str>>) -> Self {
        self.prompt = prompt.into();
        self
    }

    /// Limits the planner to these tools; an empty list means all.
    pub fn with_tools(mut self, tools: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.tools = Some(tools.into_iter().collect()).filter(|it: &NameList| !it.is_empty());
        self
    }

    /// Gives the planner a tool that its parent does not have.
    pub fn with_tool(mut self, tool: impl IntoTool) -> Self {
        self.own_tools.add(tool);
        self
    }

    /// Caps the planner's budget.
    pub fn with_budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Sets the maximum nesting depth of sub-agents; 3 by default.
    pub fn with_max_depth(mut self, max: u32) -> Self {
        self.max_depth = max;
        self
    }

    /// Returns what returns `true` for the names of the tools that the planner may call.
    fn may_call(&self) -> impl Fn(&str) -> bool + Send + Sync + use<> {
        let tools = self.tools.clone();
        move |name| {
            let is_listed = tools.as_ref().is_none_or(|tools| tools.contains(name));
            is_listed && !NEVER.contains(&name)
        }
    }
}

impl Tool for PlanWithSubagent {
    type Args = PlanArgs;
    type Output = ToolOutput;
    type Error = BoxError;

    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &'static str {
        "Lets a sub-agent plan the work in a specification before you start, and returns the \
            plan. The planner sees nothing of this conversation, so the specification must \
            contain everything it needs to know."
    }

    fn options(&self) -> ToolOptions {
        ToolOptions {
            side_effects: SideEffects::Resumable,
            // The planner may do what the agent may, and use the tools that were given to it.
            reach: if self.own_tools.is_empty() { Reach::Agent } else { Reach::World },
            namespace: Some("planning".into()),
            ..ToolOptions::default()
        }
    }

    async fn call(&self, args: PlanArgs, cx: &ToolCx<'_>) -> Result<ToolOutput, BoxError> {
        let specification: Arc<str> = args.specification.trim().into();
        if specification.is_empty() {
            return Err("`specification` is missing; describe the work to plan".into());
        }
        let child = ChildAgent::of(cx, "planner")
            .with_own_tools(&self.own_tools)
            .keep_tools(self.may_call())
            .cap(&self.budget)
            .with_max_depth(self.max_depth);
        let system = self.prompt.clone();
        let ended = child
            .run(&specification, |state| {
                let state = state.with_system_prompt(system.as_ref());
                state.with_user_message(Arc::clone(&specification))
            })
            .await
            .map_err(ChildError::into_tool_error)?;
        let plan = ended.answer().map_err(ChildError::into_tool_error)?;
        let is_stopped = matches!(ended.state.status(), ExecutionStatus::Stopped(_));
        let text = if plan.text.is_empty() && !is_stopped {
            prompt::NO_PLAN.to_owned()
        } else {
            plan.to_text()
        };
        Ok(ended.to_output(text))
    }
}
