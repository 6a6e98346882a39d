#![allow(unused_variables)]

use loopwright_macros::tool;

/// Has a dot in its name.
#[tool(crate = "loopwright_core", name = "web.read")]
async fn dot() {}

/// Has a long name.
#[tool(
    crate = "loopwright_core",
    name = "a234567890123456789012345678901234567890123456789012345678901234x"
)]
async fn long() {}

/// Has a letter that is not in ASCII.
#[tool(crate = "loopwright_core")]
async fn größe() {}

/// Has the name of a variable.
#[tool(crate = "loopwright_core")]
async fn schema() {}

fn main() {}
