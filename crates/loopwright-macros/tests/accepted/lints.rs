//! What is made raises no lint that the function would not raise.

#![deny(
    warnings,
    missing_docs,
    missing_debug_implementations,
    missing_copy_implementations,
    unreachable_pub,
    unused_qualifications,
    rust_2018_idioms
)]

use loopwright_core::{AnyTool, ToolCx};
use loopwright_macros::tool;

/// Has a doc comment.
#[tool(crate = "loopwright_core", timeout = 30, side_effects = read_only, retry = 2, exclusive)]
pub async fn documented(
    /// Is one, too.
    text: String,
    cx: &ToolCx<'_>,
) -> usize {
    text.len() + cx.call.name.len()
}

#[tool(crate = "loopwright_core", description = "Has no doc comment.")]
pub async fn described() {}

/// Has attributes of its own.
#[doc(alias = "attribute")]
#[tool(crate = "loopwright_core")]
#[deprecated]
#[must_use]
#[allow(unused_variables)]
pub async fn attributed(ignored: u8) -> bool {
    true
}

/// Is not there.
#[tool(crate = "loopwright_core")]
#[cfg(any())]
pub async fn absent() {
    absent::run().await
}

#[allow(non_snake_case)]
mod shouting {
    /// Shouts.
    #[loopwright_macros::tool(crate = "loopwright_core")]
    pub(super) async fn SHOUT() {}
}

#[test]
fn a_tool_raises_no_lint_that_its_function_would_not_raise() {
    #[allow(deprecated)]
    let tools = [AnyTool::new(documented), AnyTool::new(described), AnyTool::new(attributed)];
    assert_eq!(tools.len(), 3);
    assert_eq!(&**AnyTool::new(shouting::SHOUT).name(), "SHOUT");
}
