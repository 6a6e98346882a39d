#![allow(unused_variables)]

use loopwright_macros::tool;

/// Takes anything.
#[tool(crate = "loopwright_core")]
async fn generic<T: Send, const N: usize>(values: [T; N]) -> usize {
    values.len()
}

/// Borrows.
#[tool(crate = "loopwright_core")]
async fn lifetime<'a>(cx: &'a loopwright_core::ToolCx<'a>) -> usize {
    cx.call.name.len()
}

fn main() {}
