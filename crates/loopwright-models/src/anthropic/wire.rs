//! The wire format, borrowed from the input if it needs no unescaping.
//!
//! Every field may be missing, and unknown fields are ignored or kept unchanged.

use loopwright_core::messages::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lenient::{Count, Text};

/// An event of a stream.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireEvent<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    pub(super) index: Option<u64>,
    #[serde(borrow)]
    pub(super) delta: Option<WireDelta<'a>>,
    #[serde(borrow)]
    pub(super) content_block: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) message: Option<WireMessage<'a>>,
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

/// What is added to a block, or to the message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireDelta<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) text: Text<'a>,
    #[serde(borrow)]
    pub(super) thinking: Text<'a>,
    #[serde(borrow)]
    pub(super) signature: Text<'a>,
    #[serde(borrow)]
    pub(super) partial_json: Text<'a>,
    #[serde(borrow)]
    pub(super) citation: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) stop_reason: Text<'a>,
    #[serde(borrow)]
    pub(super) container: Option<&'a RawValue>,
}

/// A whole answer, or the beginning of a streamed one.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireMessage<'a> {
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) content: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    pub(super) stop_reason: Text<'a>,
    #[serde(borrow)]
    pub(super) container: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

/// Token counts. Those of the cache are not part of the input's.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireUsage {
    input_tokens: Count,
    cache_read_input_tokens: Count,
    cache_creation_input_tokens: Count,
    output_tokens: Count,
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    thinking_tokens: Count,
}

impl WireUsage {
    /// Reads counts. Returns `None` if it is no object.
    pub(super) fn read(raw: &RawValue) -> Option<Self> {
        serde_json::from_str(raw.get()).ok()
    }

    /// Replaces the counts that are reported again, each separately.
    pub(super) fn correct(&mut self, by: Self) {
        for (mine, new) in [
            (&mut self.input_tokens, by.input_tokens),
            (&mut self.cache_read_input_tokens, by.cache_read_input_tokens),
            (&mut self.cache_creation_input_tokens, by.cache_creation_input_tokens),
            (&mut self.output_tokens, by.output_tokens),
        ] {
            mine.0 = new.0.or(mine.0);
        }
        self.output_tokens_details = by.output_tokens_details.or(self.output_tokens_details);
    }

    pub(super) fn to_usage(self) -> Usage {
        let count = |count: Count| count.0.unwrap_or(0);
        let cached = count(self.cache_read_input_tokens);
        let cache_write = count(self.cache_creation_input_tokens);
        let input = count(self.input_tokens).saturating_add(cached).saturating_add(cache_write);
        let reasoning = self.output_tokens_details.unwrap_or_default().thinking_tokens;
        let (output, reasoning) = (count(self.output_tokens), count(reasoning));
        Usage { input, output, cache_read: cached, cache_write, reasoning }
    }
}
