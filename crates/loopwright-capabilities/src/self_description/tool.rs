//! `describe_self`.

use loopwright_agent::DescribeAgent as _;
use loopwright_core::{Json, Reach, SideEffects, Tool, ToolCx, ToolOptions};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// Describes the composition of the agent.
#[derive(Clone, Copy, Debug, Default)]
pub struct DescribeSelf;

/// The arguments of the tool `describe_self`.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DescribeSelfArgs {
    /// The section to describe; all sections if omitted.
    #[serde(default)]
    pub section: Section,
}

/// A part of a description.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Section {
    /// Its tools.
    Tools,
    /// Its capabilities.
    Capabilities,
    /// Its hooks.
    Hooks,
    /// Everything.
    #[default]
    All,
}

impl Section {
    fn of(self, whole: Value) -> Value {
        let key = match self {
            Self::Tools => "tools",
            Self::Capabilities => "capabilities",
            Self::Hooks => "hooks",
            Self::All => return whole,
        };
        json!({ key: whole[key] })
    }
}

impl Tool for DescribeSelf {
    type Args = DescribeSelfArgs;
    type Output = Json<Value>;
    type Error = serde_json::Error;

    fn name(&self) -> &'static str {
        "describe_self"
    }

    fn description(&self) -> &'static str {
        "Describes this agent: its name, model, tools, capabilities and hooks."
    }

    fn options(&self) -> ToolOptions {
        ToolOptions {
            side_effects: SideEffects::ReadOnly,
            reach: Reach::Agent,
            ..ToolOptions::default()
        }
    }

    async fn call(
        &self,
        args: DescribeSelfArgs,
        cx: &ToolCx<'_>,
    ) -> Result<Json<Value>, serde_json::Error> {
        let whole = serde_json::to_value(cx.agent.describe())?;
        Ok(Json(args.section.of(whole)))
    }
}
