#![allow(unused_variables)]

use loopwright_macros::tool;

/// Is tried again without a word on its effects.
#[tool(crate = "loopwright_core", retry = 3)]
async fn silent() {}

/// Is tried again although it must not be.
#[tool(crate = "loopwright_core", retry = 3, side_effects = "at_most_once")]
async fn once() {}

/// Is tried again although it would be entered again.
#[tool(crate = "loopwright_core", side_effects = resumable, retry = 3)]
async fn resumable() {}

/// Has one problem, not two.
#[tool(crate = "loopwright_core", side_effects = "purr", retry = 3)]
async fn purr() {}

fn main() {}
