#![allow(unused_variables)]

use loopwright_macros::tool;

/// Has values of the wrong kind.
#[tool(
    crate = "loopwright_core",
    name = 7,
    description = 7,
    instructions = true,
    namespace = web,
    timeout = true,
    side_effects = 7,
    retry = "3",
    exclusive = true
)]
async fn kinds() {}

/// Has empty values.
#[tool(
    crate = "loopwright_core",
    name = "",
    description = " ",
    instructions = "",
    namespace = "",
    timeout = 0,
    side_effects = "",
    retry = 0
)]
async fn empty() {}

/// Refers to no crate.
#[tool(crate = "loopwright-core")]
async fn no_path() {}

fn main() {}
