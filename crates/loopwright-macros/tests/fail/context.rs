#![allow(unused_variables)]

use loopwright_macros::tool;

use loopwright_core::ToolCx;

/// Takes the context twice.
#[tool(crate = "loopwright_core")]
async fn twice(cx: &ToolCx<'_>, text: String, also_cx: &ToolCx<'_>) {}

/// Wants the context for itself.
#[tool(crate = "loopwright_core")]
async fn wants(cx: &mut ToolCx<'_>) {}

/// Wants to keep the context.
#[tool(crate = "loopwright_core")]
async fn keeps(cx: ToolCx<'_>) {}

fn main() {}
