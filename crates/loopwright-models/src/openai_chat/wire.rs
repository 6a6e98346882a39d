//! The wire format, borrowed from the input if it needs no unescaping.
//!
//! Providers fill unset fields with null, zeros or empty strings, omit them, and add their own
//! fields. So every field may be missing, and unknown fields are ignored.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor, value::SeqAccessDeserializer},
};
use serde_json::value::RawValue;

use crate::lenient::{Count, Few, Function, Text};

/// A whole answer, or a piece of a streamed one.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Chunk<'a> {
    #[serde(borrow)]
    pub(crate) id: Text<'a>,
    #[serde(borrow)]
    pub(crate) object: Text<'a>,
    #[serde(borrow, rename = "type")]
    pub(crate) kind: Text<'a>,
    #[serde(borrow)]
    pub(crate) choices: Option<Few<Choice<'a>>>,
    #[serde(borrow)]
    pub(crate) usage: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) error: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) message: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) detail: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) x_groq: Option<Groq<'a>>,
}

/// What Groq adds.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Groq<'a> {
    #[serde(borrow)]
    pub(crate) usage: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) error: Option<&'a RawValue>,
}

/// One of the answers that were asked for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Choice<'a> {
    pub(crate) index: Option<u64>,
    #[serde(borrow)]
    pub(crate) delta: Option<Said<'a>>,
    #[serde(borrow)]
    pub(crate) message: Option<Said<'a>>,
    #[serde(borrow)]
    pub(crate) finish_reason: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) error: Option<&'a RawValue>,
}

/// What the model said.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Said<'a> {
    #[serde(borrow)]
    pub(crate) content: Content<'a>,
    #[serde(borrow)]
    pub(crate) refusal: Text<'a>,
    #[serde(borrow)]
    pub(crate) reasoning_content: Text<'a>,
    #[serde(borrow)]
    pub(crate) reasoning: Text<'a>,
    #[serde(borrow)]
    pub(crate) reasoning_details: Few<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) tool_calls: Few<Call<'a>>,
    #[serde(borrow)]
    pub(crate) function_call: Option<Function<'a>>,
    /// What Gemini adds to messages, such as the signature of a thought that led to no call.
    #[serde(borrow)]
    pub(crate) extra_content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) thought_signature: Text<'a>,
}

/// A tool call or a fragment of one.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Call<'a> {
    pub(crate) index: Option<i64>,
    #[serde(borrow)]
    pub(crate) id: Text<'a>,
    #[serde(borrow)]
    pub(crate) function: Option<Function<'a>>,
    #[serde(borrow)]
    pub(crate) custom: Option<Custom<'a>>,
    #[serde(borrow)]
    pub(crate) extra_content: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Custom<'a> {
    #[serde(borrow)]
    pub(crate) name: Text<'a>,
    #[serde(borrow)]
    pub(crate) input: Text<'a>,
}

/// One of the `reasoning_details`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Detail<'a> {
    #[serde(borrow, rename = "type")]
    pub(crate) kind: Text<'a>,
    pub(crate) index: Option<i64>,
    #[serde(borrow)]
    pub(crate) id: Text<'a>,
    #[serde(borrow)]
    pub(crate) format: Text<'a>,
    #[serde(borrow)]
    pub(crate) text: Text<'a>,
    #[serde(borrow)]
    pub(crate) summary: Text<'a>,
    #[serde(borrow)]
    pub(crate) data: Text<'a>,
    #[serde(borrow)]
    pub(crate) signature: Text<'a>,
}

/// What stands under `content`: a text or a list of parts.
#[derive(Debug)]
pub(crate) enum Content<'a> {
    Text(Text<'a>),
    Parts(Vec<ContentPart<'a>>),
}

impl Default for Content<'_> {
    fn default() -> Self {
        Self::Text(Text::default())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Lenient)
    }
}

/// A part of a list of content: `text` and Mistral's `thinking` are understood.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ContentPart<'a> {
    #[serde(borrow, rename = "type")]
    pub(crate) kind: Text<'a>,
    #[serde(borrow)]
    pub(crate) text: Text<'a>,
    #[serde(borrow)]
    pub(crate) refusal: Text<'a>,
    #[serde(borrow)]
    pub(crate) thinking: Content<'a>,
    #[serde(borrow)]
    pub(crate) signature: Text<'a>,
}

/// Takes texts and lists of parts, and lets everything else count as nothing.
struct Lenient;

impl<'de> Visitor<'de> for Lenient {
    type Value = Content<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text or a list of parts")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Content::Text(Text(Cow::Borrowed(text))))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Content::Text(Text(Cow::Owned(text.to_owned()))))
    }

    fn visit_string<E>(self, text: String) -> Result<Self::Value, E> {
        Ok(Content::Text(Text(Cow::Owned(text))))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Content::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Content::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Content::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Content::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Content::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(Content::Parts)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Content::default())
    }
}

/// Token counts, in the words of all providers that speak this wire.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WireUsage {
    pub(crate) prompt_tokens: Count,
    pub(crate) completion_tokens: Count,
    pub(crate) total_tokens: Count,
    pub(crate) prompt_tokens_details: Option<PromptDetails>,
    pub(crate) completion_tokens_details: Option<CompletionDetails>,
    pub(crate) prompt_cache_hit_tokens: Count,
    pub(crate) cached_tokens: Count,
    pub(crate) num_cached_tokens: Count,
    pub(crate) cache_creation_input_tokens: Count,
    pub(crate) reasoning_tokens: Count,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PromptDetails {
    pub(crate) cached_tokens: Count,
    pub(crate) cache_write_tokens: Count,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CompletionDetails {
    pub(crate) reasoning_tokens: Count,
}
