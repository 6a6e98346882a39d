//! The wire format, borrowed from the input if it needs no unescaping.
//!
//! Every field may be missing, and unknown fields are ignored; so is `p`, which is padding.

use loopwright_core::messages::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    lenient::{Count, Text},
    object::Object,
};

/// An event of a stream.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WireEvent<'a> {
    pub(super) content_block_index: Option<u64>,
    #[serde(borrow)]
    pub(super) start: Object<'a>,
    #[serde(borrow)]
    pub(super) delta: WireDelta<'a>,
    #[serde(borrow)]
    pub(super) stop_reason: Text<'a>,
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
}

/// What is added to a block. One of the fields is there.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WireDelta<'a> {
    #[serde(borrow)]
    pub(super) text: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) tool_use: Option<ToolDelta<'a>>,
    #[serde(borrow)]
    pub(super) tool_result: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    pub(super) reasoning_content: Option<ReasoningDelta<'a>>,
    #[serde(borrow)]
    pub(super) citation: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ToolDelta<'a> {
    #[serde(borrow)]
    pub(super) input: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ReasoningDelta<'a> {
    #[serde(borrow)]
    pub(super) text: Text<'a>,
    #[serde(borrow)]
    pub(super) signature: Text<'a>,
    #[serde(borrow)]
    pub(super) redacted_content: Text<'a>,
}

/// A whole answer.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WireAnswer<'a> {
    #[serde(borrow)]
    pub(super) output: Option<WireOutput<'a>>,
    #[serde(borrow)]
    pub(super) stop_reason: Text<'a>,
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireOutput<'a> {
    #[serde(borrow)]
    pub(super) message: Option<WireMessage<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireMessage<'a> {
    #[serde(borrow)]
    pub(super) content: Option<Vec<&'a RawValue>>,
}

/// Token counts. Those of the cache are not part of the input's.
#[expect(clippy::struct_field_names, reason = "these are the wire's names")]
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WireUsage {
    input_tokens: Count,
    output_tokens: Count,
    cache_read_input_tokens: Count,
    cache_write_input_tokens: Count,
}

impl WireUsage {
    /// Reads counts. Returns `None` if it is no object.
    pub(super) fn read(raw: &RawValue) -> Option<Usage> {
        let wire: Self = serde_json::from_str(raw.get()).ok()?;
        let count = |count: Count| count.0.unwrap_or(0);
        let (cached, cache_write) =
            (count(wire.cache_read_input_tokens), count(wire.cache_write_input_tokens));
        let input = count(wire.input_tokens).saturating_add(cached).saturating_add(cache_write);
        let output = count(wire.output_tokens);
        Some(Usage { input, output, cache_read: cached, cache_write, reasoning: 0 })
    }
}
