//! The wire format, borrowed from the input if it needs no unescaping.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lenient::{Call, Count, Few, Text};

/// A whole answer, or a line of a streamed one.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Line<'a> {
    #[serde(borrow)]
    pub(super) message: Option<Said<'a>>,
    pub(super) done: Option<bool>,
    #[serde(borrow)]
    pub(super) done_reason: Text<'a>,
    pub(super) prompt_eval_count: Count,
    pub(super) eval_count: Count,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

/// What the model said.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Said<'a> {
    #[serde(borrow)]
    pub(super) content: Text<'a>,
    #[serde(borrow)]
    pub(super) thinking: Text<'a>,
    #[serde(borrow)]
    pub(super) tool_calls: Few<Call<'a>>,
}
