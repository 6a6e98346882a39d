#![allow(unused_variables)]

use loopwright_macros::tool;

/// Has promises to keep.
#[tool(crate = "loopwright_core")]
async unsafe fn careless() {}

/// Is known before it runs.
#[tool(crate = "loopwright_core")]
const fn constant() {}

/// Is called from afar.
#[tool(crate = "loopwright_core")]
async extern "C" fn foreign() {}

fn main() {}
