//! The crate that the expansion refers to may be found under any path.

use loopwright_core::AnyTool;
use loopwright_macros::tool;

mod facade {
    pub(super) use loopwright_core::__private;
}

/// Finds it below this crate.
#[tool(crate = "crate::accepted::crate_path::facade")]
async fn below() {}

/// Finds it with a path from the root.
#[tool(crate = "::loopwright_core")]
async fn from_the_root() {}

#[test]
fn a_crate_is_found_under_any_path() {
    assert_eq!(&**AnyTool::new(below).name(), "below");
    assert_eq!(&**AnyTool::new(from_the_root).name(), "from_the_root");
}
