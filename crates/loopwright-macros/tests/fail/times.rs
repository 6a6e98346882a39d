#![allow(unused_variables)]

use loopwright_macros::tool;

/// Has a number with a unit.
#[tool(crate = "loopwright_core", timeout = 30s)]
async fn suffix() {}

/// Has a fraction.
#[tool(crate = "loopwright_core", timeout = 1.5)]
async fn fraction() {}

/// Has text without a unit.
#[tool(crate = "loopwright_core", timeout = "30")]
async fn no_unit() {}

/// Has a negative number.
#[tool(crate = "loopwright_core", timeout = -1)]
async fn negative() {}

/// Has words.
#[tool(crate = "loopwright_core", timeout = "a while")]
async fn words() {}

fn main() {}
