#![allow(unused_variables)]

use loopwright_macros::tool;

/// Names what needs no name.
#[tool(crate = "loopwright_core", "Does nothing.")]
async fn text() {}

/// Writes an option like a call.
#[tool(crate = "loopwright_core", name("nothing"))]
async fn call() {}

/// Forgets a comma.
#[tool(crate = "loopwright_core" exclusive)]
async fn comma() {}

/// Forgets values.
#[tool(crate = "loopwright_core", name, side_effects, retry, timeout =)]
async fn values() {}

fn main() {}
