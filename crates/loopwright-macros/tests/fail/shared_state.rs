#![allow(unused_variables)]

use std::cell::Cell;

use loopwright_macros::tool;

/// Counts where threads cannot.
#[tool(crate = "loopwright_core")]
async fn counts(#[state] calls: &Cell<u32>) {}

fn main() {}
