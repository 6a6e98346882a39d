//! A tool in the format of chat completions, which other wires adopted.

use loopwright_core::messages::ToolSpec;
use serde::Serialize;
use serde_json::Value;

/// A tool in the form that models see.
#[derive(Serialize)]
pub(crate) struct FunctionTool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    parameters: &'a Value,
}

impl<'a> FunctionTool<'a> {
    pub(crate) fn of(tool: &'a ToolSpec) -> Self {
        let (name, description) = (&*tool.name, &*tool.description);
        let function = Function { name, description, parameters: &tool.parameters };
        Self { kind: "function", function }
    }
}
