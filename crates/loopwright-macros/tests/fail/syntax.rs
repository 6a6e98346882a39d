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

/// Is no function.
#[tool(crate = "loopwright_core")]
struct Add {
    a: i64,
}

fn main() {}
