#![allow(unused_variables)]

use loopwright_macros::tool;

#[tool(crate = "loopwright_core")]
async fn silent(
    /// Says something.
    text: String,
) {
}

///
#[tool(crate = "loopwright_core")]
async fn blank() {}

#[doc = include_str!("descriptions.rs")]
#[tool(crate = "loopwright_core")]
async fn unknown_yet() {}

fn main() {}
