//! Functions that return whatever a tool may return.

use std::{fmt, io};

use loopwright_core::{AnyTool, BoxError, IntoToolOutput, Json, StopSignal, ToolError, ToolOutput};
use loopwright_macros::tool;

mod alias {
    pub(super) type Result<T> = std::result::Result<T, std::io::Error>;
}

/// Returns text.
#[tool(crate = "loopwright_core")]
async fn text() -> &'static str {
    "text"
}

/// Returns JSON.
#[tool(crate = "loopwright_core")]
async fn json() -> Json<Vec<u8>> {
    Json(vec![1])
}

/// Returns what a tool returns in the end.
#[tool(crate = "loopwright_core")]
async fn output() -> ToolOutput {
    ToolOutput::text("text")
}

/// Returns something or nothing.
#[tool(crate = "loopwright_core")]
async fn option() -> Option<String> {
    None
}

/// Returns something that it does not name.
#[tool(crate = "loopwright_core")]
async fn opaque() -> impl IntoToolOutput {
    1
}

/// Fails with text.
#[tool(crate = "loopwright_core")]
async fn fails_with_text() -> Result<(), String> {
    Err("no".to_owned())
}

/// Fails with any error.
#[tool(crate = "loopwright_core")]
async fn fails_with_any() -> Result<bool, BoxError> {
    Err("no".into())
}

/// Fails with a tool's own error.
#[tool(crate = "loopwright_core")]
async fn fails_with_tool_error(signal: bool) -> Result<bool, ToolError> {
    if signal {
        return Err(StopSignal::requested("tool", "enough").into());
    }
    Err(ToolError::InvalidArguments("no".to_owned()))
}

/// Fails with an error that an alias names.
#[tool(crate = "loopwright_core")]
async fn fails_behind_an_alias() -> alias::Result<Option<u8>> {
    Err(io::Error::other("no"))
}

/// Returns a result without parameters.
#[tool(crate = "loopwright_core")]
async fn fails_behind_a_closed_alias() -> fmt::Result {
    Ok(())
}

struct Private;

impl IntoToolOutput for Private {
    fn into_tool_output(self) -> Result<ToolOutput, BoxError> {
        Ok(ToolOutput::text("private"))
    }
}

/// Returns a type that is more private than the tool.
#[tool(crate = "loopwright_core")]
#[allow(private_interfaces)]
pub async fn private() -> Result<Private, fmt::Error> {
    Ok(Private)
}

#[test]
fn functions_return_whatever_a_tool_may_return() {
    let tools = [
        AnyTool::new(text),
        AnyTool::new(json),
        AnyTool::new(output),
        AnyTool::new(option),
        AnyTool::new(opaque),
        AnyTool::new(fails_with_text),
        AnyTool::new(fails_with_any),
        AnyTool::new(fails_with_tool_error),
        AnyTool::new(fails_behind_an_alias),
        AnyTool::new(fails_behind_a_closed_alias),
        AnyTool::new(private),
    ];
    assert_eq!(tools.len(), 11);
}
