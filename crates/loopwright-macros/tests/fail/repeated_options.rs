#![allow(unused_variables)]

use loopwright_macros::tool;

/// Does nothing.
#[tool(crate = "loopwright_core", name = "one", exclusive, name = "two", exclusive)]
async fn nothing() {}

fn main() {}
