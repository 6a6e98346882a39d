//! The crate that the expansion refers to may be found under any path.

use loopwright_core::AnyTool;
use loopwright_macros::tool;

mod facade {
    pub use loopwright_core::__private;
}

/// Finds it below this crate.
#[tool(crate = "crate::facade")]
async fn below() {}

/// Finds it with a path from the root.
#[tool(crate = "::loopwright_core")]
async fn from_the_root() {}

fn main() {
    assert_eq!(&**AnyTool::new(below).name(), "below");
    assert_eq!(&**AnyTool::new(from_the_root).name(), "from_the_root");
}
