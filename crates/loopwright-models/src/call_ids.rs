//! Ids of tool calls.

use std::collections::BTreeSet;

use loopwright_core::messages::{Exchange, ToolCall, TurnMeta};

/// Returns an id for each call, none of them twice.
///
/// A missing id is made of the step and the call's position, so that it is the same every time.
pub(crate) fn call_ids(exchange: &Exchange, meta: &TurnMeta) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let step = meta.step.unwrap_or(0);
    let id = |(index, call): (usize, &ToolCall)| {
        let id = match call.id.as_deref() {
            Some(id) if !id.is_empty() => id.to_owned(),
            _ => format!("call_{step}_{index}"),
        };
        let mut unique = id.clone();
        let mut number = 2;
        while !taken.insert(unique.clone()) {
            unique = format!("{id}_{number}");
            number += 1;
        }
        unique
    };
    exchange.reply().tool_calls().enumerate().map(id).collect()
}
