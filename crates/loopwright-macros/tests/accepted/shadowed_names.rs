//! What is made does not depend on what the names of the prelude mean where it stands.

use loopwright_macros::tool;

#[allow(dead_code)]
mod hostile {
    pub(super) trait Clone {}
    pub(super) trait Copy {}
    pub(super) trait Debug {}
    pub(super) trait Into {}
    pub(super) struct Some;
    pub(super) struct Ok;
    pub(super) enum Option {}
    pub(super) enum Result {}
    pub(super) mod std {}
    pub(super) mod core {}
    pub(super) mod serde {}
    pub(super) mod schemars {}
    pub(super) mod loopwright_core {}
}

#[allow(unused_imports)]
use hostile::*;

/// Fails.
#[tool(crate = "loopwright_core", timeout = 30, namespace = "n", instructions = "i")]
async fn fails(text: String) -> ::std::result::Result<(), String> {
    Err(text)
}

#[test]
fn a_tool_does_not_depend_on_the_names_around_it() {
    assert_eq!(&**::loopwright_core::AnyTool::new(fails).name(), "fails");
}
