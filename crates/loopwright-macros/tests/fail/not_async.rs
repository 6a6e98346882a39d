#![allow(unused_variables)]

use loopwright_macros::tool;

/// Adds two numbers.
#[tool(crate = "loopwright_core")]
fn add(a: i64, b: i64) -> i64 {
    a + b
}

fn main() {}
