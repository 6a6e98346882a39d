//! The wire format, borrowed from the input if it needs no unescaping.
//!
//! Every field may be missing. A list in a complete response is a single value in an event.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lenient::{Count, Text};

/// An event of a stream.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Event<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    pub(super) index: Option<u64>,
    #[serde(borrow)]
    pub(super) delta: Option<Delta<'a>>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) message: Option<&'a RawValue>,
}

/// What an event adds.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta<'a> {
    #[serde(borrow)]
    pub(super) message: Option<Said<'a>>,
    #[serde(borrow)]
    pub(super) finish_reason: Text<'a>,
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

/// A whole answer.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Whole<'a> {
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) message: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) finish_reason: Text<'a>,
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
}

/// What the model said.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Said<'a> {
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) tool_plan: Text<'a>,
    #[serde(borrow)]
    pub(super) tool_calls: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) citations: Option<&'a RawValue>,
}

/// A block of content.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Block<'a> {
    #[serde(borrow)]
    pub(super) text: Text<'a>,
    #[serde(borrow)]
    pub(super) thinking: Text<'a>,
}

/// Returns what stands in a field, be it a list, one thing or nothing.
pub(super) fn each<'a, T: Deserialize<'a>>(
    raw: Option<&'a RawValue>,
) -> Result<Vec<T>, serde_json::Error> {
    match raw.map_or("null", RawValue::get) {
        "null" => Ok(Vec::new()),
        list if list.starts_with('[') => serde_json::from_str(list),
        one => Ok(vec![serde_json::from_str(one)?]),
    }
}

/// Token counts: all of them, and those that are paid for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireUsage {
    pub(super) tokens: Option<Tokens>,
    pub(super) billed_units: Option<Tokens>,
    pub(super) cached_tokens: Count,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Tokens {
    pub(super) input_tokens: Count,
    pub(super) output_tokens: Count,
}
