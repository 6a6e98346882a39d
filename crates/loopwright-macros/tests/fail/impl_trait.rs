#![allow(unused_variables)]

use loopwright_macros::tool;

/// Takes something.
#[tool(crate = "loopwright_core")]
async fn something(text: impl Into<String>, texts: Vec<impl AsRef<str>>) {}

fn main() {}
