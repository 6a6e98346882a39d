//! What stands on the wire, borrowed from it where it needs no unescaping.
//!
//! Providers fill fields they do not mean with null, nothing, zeros and empty texts, and add fields of
//! their own. So every field may be missing, and what is not named here is let go.

use std::{borrow::Cow, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor, value::SeqAccessDeserializer},
};
use serde_json::value::RawValue;

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
pub(crate) struct Function<'a> {
    #[serde(borrow)]
    pub(crate) name: Text<'a>,
    #[serde(borrow)]
    pub(crate) arguments: Arguments<'a>,
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

/// A list that nearly always has one item, which then needs no memory of its own.
#[derive(Debug)]
pub(crate) struct Few<T> {
    first: Option<T>,
    rest: Vec<T>,
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self { first: None, rest: Vec::new() }
    }
}

impl<T> Few<T> {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(&self.rest)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Few<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FewVisitor(PhantomData))
    }
}

struct FewVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for FewVisitor<T> {
    type Value = Few<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list or null")
    }

    fn visit_unit<E>(self) -> Result<Few<T>, E> {
        Ok(Few::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Few<T>, A::Error> {
        let first = list.next_element()?;
        let rest = Vec::deserialize(SeqAccessDeserializer::new(list))?;
        Ok(Few { first, rest })
    }
}

/// A text; what is not a text counts as an empty one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

impl std::ops::Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Lenient).map(|it| match it {
            Content::Text(text) => text,
            Content::Parts(_) => Self::default(),
        })
    }
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
        f.write_str("a text or a list of parts")
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

/// Arguments: a text of JSON, or from some servers the JSON itself.
#[derive(Debug, Default)]
pub(crate) struct Arguments<'a>(pub(crate) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Arguments<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Some(raw) = Option::<&'a RawValue>::deserialize(deserializer)? else {
            return Ok(Self::default());
        };
        if !raw.get().starts_with('"') {
            return Ok(Self(Cow::Borrowed(raw.get())));
        }
        let text: Text<'a> = serde_json::from_str(raw.get()).map_err(serde::de::Error::custom)?;
        Ok(Self(text.0))
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

/// A number of tokens, if it is one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count(pub(crate) Option<u64>);

impl<'de> Deserialize<'de> for Count {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Option::<&RawValue>::deserialize(deserializer)?;
        let number = raw.and_then(|raw| raw.get().parse::<f64>().ok()).filter(|it| it.is_finite());
        // Token counts are far below the 53 bits that a float keeps.
        Ok(Self(number.map(|it| it as u64)))
    }
}
