//! `tools`.

use std::sync::Arc;

use loopwright_agent::ACTIVATED_TOOLS;
use loopwright_core::{
    AnyTool, BoxError, SideEffects, Tool, ToolCx, ToolDescriptor, ToolOptions, ToolOutput,
    ToolRegistry, ToolVisibility,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::earlier_calls;
use crate::tool_registry::capability::ToolExposure;

/// Lists, searches and describes the tools of a registry, and adds them to later requests.
#[derive(Clone, Debug)]
pub struct ToolsTool {
    registry: Arc<ToolRegistry>,
    offer: ToolExposure,
}

/// The arguments of the tool `tools`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolsArgs {
    /// The action; `list` if omitted.
    #[serde(default)]
    pub action: ToolsAction,
    /// Name of the tool to describe or activate.
    #[serde(default)]
    pub tool: Option<String>,
    /// Words to search for in names and descriptions.
    #[serde(default)]
    pub query: Option<String>,
    /// Maximum number of tools to show, from 1 to 100.
    #[serde(default)]
    pub limit: Option<i64>,
}

/// An action on tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolsAction {
    /// List them.
    #[default]
    List,
    /// Describe one.
    Help,
    /// Search for tools.
    Search,
    /// Activate one, so that it can be called.
    Activate,
}

/// An error of `tools`, for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolsError {
    /// The tool name is missing.
    #[error("no tool given; pass its name as `tool`")]
    NoTool,
    /// The tool is unknown.
    #[error("unknown tool `{0}`; find tools with action `search`")]
    Unknown(String),
    /// The search text is missing.
    #[error("no search text; pass it as `query`")]
    NoQuery,
    /// The tools cannot be activated.
    #[error("tools cannot be activated here")]
    OnlyDescribed,
}

/// The most tools that are shown at once.
const MAX: i64 = 100;

impl ToolsTool {
    /// Creates the tool with a registry.
    pub fn new(registry: Arc<ToolRegistry>, offer: ToolExposure) -> Self {
        Self { registry, offer }
    }

    fn list(&self, args: &ToolsArgs, cx: &ToolCx<'_>) -> Value {
        let names: Vec<&str> = self.names(cx).collect();
        let shown = names.iter().take(limit(args)).filter_map(|name| self.find(name, cx));
        let tools: Vec<Value> = shown.map(|tool| about(tool.descriptor())).collect();
        json!({ "success": true, "count": names.len(), "tools": tools })
    }

    fn search(&self, args: &ToolsArgs, cx: &ToolCx<'_>) -> Result<Value, ToolsError> {
        let query = args.query.as_deref().unwrap_or_default().trim();
        if query.is_empty() {
            return Err(ToolsError::NoQuery);
        }
        let lower = query.to_lowercase();
        let tools = self.names(cx).filter_map(|name| self.find(name, cx));
        let found: Vec<AnyTool> = tools.filter(|it| mentions(it.descriptor(), &lower)).collect();
        let shown = found.iter().take(limit(args)).map(|tool| about(tool.descriptor()));
        let tools: Vec<Value> = shown.collect();
        Ok(json!({ "success": true, "query": query, "count": found.len(), "tools": tools }))
    }

    fn help(&self, args: &ToolsArgs, cx: &ToolCx<'_>) -> Result<Value, ToolsError> {
        let tool = self.named(args, cx)?;
        let tool = tool.descriptor();
        let instructions = json!({
            "name": tool.name(),
            "description": tool.description(),
            "parameters": tool.parameters(),
            "usage": tool.instructions(),
        });
        Ok(json!({ "success": true, "tool": instructions }))
    }

    fn activate(&self, args: &ToolsArgs, cx: &ToolCx<'_>) -> Result<ToolOutput, BoxError> {
        if self.offer == ToolExposure::DescribeOnly {
            return Err(ToolsError::OnlyDescribed.into());
        }
        let tool = self.named(args, cx)?;
        let mut active = cx.state.get(&ACTIVATED_TOOLS).unwrap_or_default();
        let earlier: Vec<ToolsArgs> = earlier_calls::earlier(cx);
        let asked = earlier.iter().filter(|it| it.action == ToolsAction::Activate);
        let added = asked.filter_map(|it| self.named(it, cx).ok()).chain([tool.clone()]);
        for name in added.map(|it| Arc::clone(it.name())) {
            if !active.contains(&name) {
                active.push(name);
            }
        }
        let note = "the tool can be called from the next step on";
        let value = json!({ "success": true, "tool": tool.name(), "note": note });
        Ok(ToolOutput::json(value).with_value(&ACTIVATED_TOOLS, &active)?)
    }

    fn named(&self, args: &ToolsArgs, cx: &ToolCx<'_>) -> Result<AnyTool, ToolsError> {
        let name = args.tool.as_deref().map(str::trim).filter(|it| !it.is_empty());
        let name = name.ok_or(ToolsError::NoTool)?;
        let there = self.find(name, cx).filter(|tool| self.offers(tool));
        there.ok_or_else(|| ToolsError::Unknown(name.to_owned()))
    }

    /// Returns the names of the tools that this agent may know of: those of the registry, and those that a source of the
    /// agent keeps out of requests.
    fn names<'a>(&'a self, cx: &'a ToolCx<'_>) -> impl Iterator<Item = &'a str> {
        let is_callable = self.offer == ToolExposure::Callable;
        let tools = cx.agent.tools();
        let is_there =
            move |name: &&str| !is_callable || tools.get(name).is_some_and(|it| !it.is_withdrawn());
        let others = tools
            .iter()
            .filter(move |it| is_callable && !it.is_withdrawn() && self.is_from_source(it));
        let others = others.map(|tool| &**tool.name());
        self.registry.names().filter(is_there).chain(others)
    }

    fn offers(&self, tool: &AnyTool) -> bool {
        let is_known = self.registry.contains(tool.name()) || self.is_from_source(tool);
        is_known && !tool.is_withdrawn()
    }

    /// Returns `true` for a tool on demand that the registry does not have.
    fn is_from_source(&self, tool: &AnyTool) -> bool {
        let is_on_demand = tool.options().visibility == ToolVisibility::Deferred;
        is_on_demand && !self.registry.contains(tool.name())
    }

    /// Returns a tool: the agent's own, from which some may have been taken, or one that is made now.
    fn find(&self, name: &str, cx: &ToolCx<'_>) -> Option<AnyTool> {
        match self.offer {
            ToolExposure::Callable => cx.agent.tools().get(name).cloned(),
            ToolExposure::DescribeOnly => self.registry.get(name).ok(),
        }
    }
}

fn limit(args: &ToolsArgs) -> usize {
    usize::try_from(args.limit.unwrap_or(MAX).clamp(1, MAX)).unwrap_or(1)
}

fn about(tool: ToolDescriptor<'_>) -> Value {
    let mut about = json!({ "name": tool.name(), "summary": tool.summary() });
    if let Some(namespace) = tool.namespace() {
        about["namespace"] = json!(namespace);
    }
    about
}

fn mentions(tool: ToolDescriptor<'_>, lower: &str) -> bool {
    let texts = [tool.name(), tool.description(), tool.namespace().unwrap_or_default()];
    texts.iter().any(|text| text.to_lowercase().contains(lower))
}

impl Tool for ToolsTool {
    type Args = ToolsArgs;
    type Output = ToolOutput;
    type Error = BoxError;

    fn name(&self) -> &'static str {
        "tools"
    }

    fn description(&self) -> &'static str {
        match self.offer {
            ToolExposure::Callable => {
                "Finds more tools. Some tools are not shown to you: list them, search for what \
                    you need, read about one with `help`, and activate it to call it from the next \
                    step on."
            }
            ToolExposure::DescribeOnly => {
                "Describes the available tools: list them, search among them, or read about one \
                    with `help`."
            }
        }
    }

    fn options(&self) -> ToolOptions {
        ToolOptions { side_effects: SideEffects::ReadOnly, ..ToolOptions::default() }
    }

    async fn call(&self, args: ToolsArgs, cx: &ToolCx<'_>) -> Result<ToolOutput, BoxError> {
        let value = match args.action {
            ToolsAction::List => self.list(&args, cx),
            ToolsAction::Help => self.help(&args, cx)?,
            ToolsAction::Search => self.search(&args, cx)?,
            ToolsAction::Activate => return self.activate(&args, cx),
        };
        Ok(ToolOutput::json(value))
    }
}
