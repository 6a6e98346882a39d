#![allow(unused_variables)]

use loopwright_macros::tool;

/// Takes an argument at times.
#[tool(crate = "loopwright_core")]
async fn at_times(#[cfg(unix)] mode: u32, #[arg::short] all: bool) {}

fn main() {}
