//! Functions of every allowed shape.

use std::{borrow::Cow, collections::BTreeMap};

use loopwright_core::{AnyTool, ToolCx};
use loopwright_macros::tool;

/// Takes nothing.
#[tool(crate = "loopwright_core")]
async fn nothing() {}

/// Takes owned values of many types.
#[tool(crate = "loopwright_core")]
async fn owned(
    mut number: u8,
    text: Cow<'static, str>,
    list: Vec<Option<(i32, f64)>>,
    map: BTreeMap<String, bool>,
    #[allow(unused_variables)] ignored: char,
) -> usize {
    number += 1;
    usize::from(number) + text.len() + list.len() + map.len()
}

/// Takes the context first.
#[tool(crate = "loopwright_core")]
async fn first(cx: &ToolCx<'_>, number: u8) -> String {
    format!("{} {number}", cx.call.name)
}

/// Takes the context last, by its path, and takes it apart.
#[tool(crate = "loopwright_core")]
async fn last(number: u8, ToolCx { call, .. }: &loopwright_core::ToolCx<'_>) -> String {
    format!("{} {number}", call.name)
}

/// Takes the context and leaves it.
#[tool(crate = "loopwright_core")]
async fn only(_: &ToolCx<'_>) {}

/// Borrows the context while it waits.
#[tool(crate = "loopwright_core")]
async fn waits(cx: &ToolCx<'_>) {
    let name = &cx.call.name;
    std::future::ready(()).await;
    assert!(!name.is_empty());
}

macro_rules! tools {
    ($($name:ident($parameter:ident: $type:ty) -> $output:ty = $text:expr, $seconds:expr;)*) => {$(
        #[doc = $text]
        #[tool(crate = "loopwright_core", timeout = $seconds)]
        async fn $name($parameter: $type, cx: &ToolCx<'_>) -> $output {
            let _ = cx;
            Ok($parameter)
        }
    )*};
}

tools! {
    same_text(text: String) -> Result<String, String> = "Returns the text.", 30;
    same_number(number: u8) -> Result<u8, String> = "Returns the number.", "5m";
}

#[test]
fn functions_of_every_allowed_shape_are_tools() {
    let tools =
        [AnyTool::new(nothing), AnyTool::new(owned), AnyTool::new(first), AnyTool::new(last)];
    assert_eq!(tools.len(), 4);
    let tools = [
        AnyTool::new(only),
        AnyTool::new(waits),
        AnyTool::new(same_text),
        AnyTool::new(same_number),
    ];
    assert_eq!(tools.len(), 4);
}
