#![allow(unused_variables)]

use loopwright_macros::tool;

struct Page;

/// Borrows what it is given.
#[tool(crate = "loopwright_core")]
async fn borrow(
    text: &str,
    path: &'static std::path::Path,
    numbers: &[u8],
    page: &mut Page,
    maybe: Option<&str>,
    cow: std::borrow::Cow<'_, str>,
) {
}

fn main() {}
