#![allow(unused_variables)]

use loopwright_macros::tool;

/// Has effects with a slip of the pen.
#[tool(crate = "loopwright_core", side_effects = "idempotant")]
async fn slip() {}

/// Has effects that there are not.
#[tool(crate = "loopwright_core", side_effects = harmless)]
async fn harmless() {}

/// Has effects by their path.
#[tool(crate = "loopwright_core", side_effects = SideEffects::ReadOnly)]
async fn path() {}

fn main() {}
