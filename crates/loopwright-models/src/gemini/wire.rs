//! The wire format, borrowed from the input if it needs no unescaping.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::{Number, value::RawValue};

use crate::lenient::{Count, Few, Text};

/// A whole answer, or a piece of a streamed one.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Chunk<'a> {
    #[serde(borrow)]
    pub(super) response_id: Text<'a>,
    #[serde(borrow)]
    pub(super) candidates: Option<Few<Candidate<'a>>>,
    #[serde(borrow)]
    pub(super) usage_metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) prompt_feedback: Option<PromptFeedback<'a>>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) message: Option<&'a RawValue>,
}

/// What the provider thinks of the prompt.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PromptFeedback<'a> {
    #[serde(borrow)]
    pub(super) block_reason: Text<'a>,
}

/// One of the answers that were asked for.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Candidate<'a> {
    pub(super) index: Option<u64>,
    #[serde(borrow)]
    pub(super) content: Option<Said<'a>>,
    #[serde(borrow)]
    pub(super) finish_reason: Text<'a>,
    #[serde(borrow)]
    pub(super) finish_message: Text<'a>,
    #[serde(borrow)]
    pub(super) grounding_metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) citation_metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) url_context_metadata: Option<&'a RawValue>,
}

/// What the model said.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Said<'a> {
    #[serde(borrow)]
    pub(super) parts: Few<WirePart<'a>>,
}

/// A part, and the very text of it.
#[derive(Debug)]
pub(super) struct WirePart<'a> {
    pub(super) raw: &'a str,
    pub(super) fields: PartFields<'a>,
}

impl<'de: 'a, 'a> Deserialize<'de> for WirePart<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&'a RawValue>::deserialize(deserializer)?.get();
        let fields = serde_json::from_str(raw).map_err(serde::de::Error::custom)?;
        Ok(Self { raw, fields })
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PartFields<'a> {
    #[serde(borrow)]
    pub(super) text: Option<Text<'a>>,
    pub(super) thought: Option<bool>,
    #[serde(borrow)]
    pub(super) thought_signature: Text<'a>,
    #[serde(borrow)]
    pub(super) function_call: Option<FunctionCall<'a>>,
    #[serde(borrow)]
    pub(super) inline_data: Option<InlineData<'a>>,
}

/// A call, or a piece of one.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct FunctionCall<'a> {
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) args: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) partial_args: Option<Few<PartialArg<'a>>>,
    pub(super) will_continue: Option<bool>,
}

/// A value, or a piece of a text, somewhere in the arguments.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PartialArg<'a> {
    #[serde(borrow)]
    pub(super) json_path: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) string_value: Option<Cow<'a, str>>,
    pub(super) number_value: Option<Number>,
    pub(super) bool_value: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct InlineData<'a> {
    #[serde(borrow)]
    pub(super) mime_type: Text<'a>,
    #[serde(borrow)]
    pub(super) data: Text<'a>,
}

/// Token counts, in the wire's words.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireUsage {
    #[serde(rename = "promptTokenCount")]
    pub(super) prompt: Count,
    #[serde(rename = "toolUsePromptTokenCount")]
    pub(super) tool_use: Count,
    #[serde(rename = "cachedContentTokenCount")]
    pub(super) cached: Count,
    #[serde(rename = "candidatesTokenCount")]
    pub(super) candidates: Count,
    #[serde(rename = "thoughtsTokenCount")]
    pub(super) thoughts: Count,
}
