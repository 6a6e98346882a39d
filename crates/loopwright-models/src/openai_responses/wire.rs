//! The wire format, borrowed from the input if it needs no unescaping.
//!
//! Every field may be missing, and unknown fields are ignored: items are kept unchanged.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lenient::{Arguments, Count, Few, Text};

/// An event of a stream.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Event<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    pub(super) output_index: Option<u64>,
    pub(super) content_index: Option<u64>,
    pub(super) summary_index: Option<u64>,
    #[serde(borrow)]
    pub(super) item_id: Text<'a>,
    #[serde(borrow)]
    pub(super) delta: Text<'a>,
    #[serde(borrow)]
    pub(super) text: Text<'a>,
    #[serde(borrow)]
    pub(super) refusal: Text<'a>,
    #[serde(borrow)]
    pub(super) arguments: Text<'a>,
    #[serde(borrow)]
    pub(super) input: Text<'a>,
    #[serde(borrow)]
    pub(super) item: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) response: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

/// An answer: the whole body, or what the last event of a stream holds.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Response<'a> {
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) status: Text<'a>,
    #[serde(borrow)]
    pub(super) output: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) incomplete_details: Option<IncompleteDetails<'a>>,
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
}

/// Just enough of an answer to know it again.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Named<'a> {
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    pub(super) background: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct IncompleteDetails<'a> {
    #[serde(borrow)]
    pub(super) reason: Text<'a>,
}

/// An item of an answer.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Item<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) call_id: Text<'a>,
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) arguments: Arguments<'a>,
    #[serde(borrow)]
    pub(super) input: Text<'a>,
    #[serde(borrow)]
    pub(super) content: Option<Few<Entry<'a>>>,
    #[serde(borrow)]
    pub(super) summary: Option<Few<Entry<'a>>>,
    #[serde(borrow)]
    pub(super) encrypted_content: Text<'a>,
    #[serde(borrow)]
    pub(super) execution: Text<'a>,
    #[serde(borrow)]
    pub(super) environment: Option<Environment<'a>>,
    #[serde(borrow)]
    pub(super) action: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) actions: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) operation: Option<&'a RawValue>,
}

/// A piece of what a message or a thought says.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Entry<'a> {
    #[serde(borrow)]
    pub(super) text: Text<'a>,
    #[serde(borrow)]
    pub(super) refusal: Text<'a>,
}

/// Where a command is to be run.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Environment<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Cow<'a, str>,
}

/// Token counts.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireUsage {
    pub(super) input_tokens: Count,
    pub(super) output_tokens: Count,
    pub(super) input_tokens_details: Option<InputDetails>,
    pub(super) output_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct InputDetails {
    pub(super) cached_tokens: Count,
    pub(super) cache_write_tokens: Count,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct OutputDetails {
    pub(super) reasoning_tokens: Count,
}
