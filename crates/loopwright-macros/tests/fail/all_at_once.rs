#![allow(unused_variables)]

use loopwright_macros::tool;

#[tool(crate = "loopwright_core", timout = 3, retry = 0)]
unsafe fn all<T>(text: &str, (a, b): (T, T)) {}

// A tool that cannot be made is not a problem for its users.
fn uses_it() {
    loopwright_core::ToolSet::new().add(all);
}

fn main() {}
