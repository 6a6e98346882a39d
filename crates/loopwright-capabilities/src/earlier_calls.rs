//! The concurrent calls of a step: none of them sees the state effects of the others.

use loopwright_core::{ToolCx, messages::ToolCall};
use serde::de::DeserializeOwned;

/// Returns what the calls of the same tool before this one, in the same step, were given, as far as it
/// can be read: what they do to the state is not in the state yet.
pub(crate) fn earlier<A: DeserializeOwned>(cx: &ToolCx<'_>) -> Vec<A> {
    let open = cx.state.execution().and_then(|it| it.open_step());
    let before = 0..cx.key.call.unwrap_or(0);
    let calls = before.filter_map(|index| open?.call(index));
    let same = calls.filter(|call| call.name == cx.call.name);
    same.filter_map(read).collect()
}

fn read<A: DeserializeOwned>(call: &ToolCall) -> Option<A> {
    serde_json::from_value(call.parse_arguments().ok()?).ok()
}
