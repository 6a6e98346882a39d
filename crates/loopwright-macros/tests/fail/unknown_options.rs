#![allow(unused_variables)]

use loopwright_macros::tool;

/// Does nothing.
#[tool(crate = "loopwright_core", timout = "30s", desc = "Nothing.", colour = "red", Exclusive)]
async fn nothing() {}

fn main() {}
