//! A question to a model and its answer.

use std::{
    collections::BTreeMap,
    ops::{Deref, DerefMut},
    sync::{Arc, LazyLock},
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    message::Message,
    prompt::{CacheBreak, Prompt, ToolCallFormat},
    tool::ToolSpecs,
    transcript::Mark,
    usage::{Cost, Usage},
};

/// What a model is asked, in no provider's terms.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InferenceRequest {
    /// The model; the wire's own default if there is none.
    pub model: Option<Arc<str>>,
    /// Instructions, kept apart so that providers can cache them.
    pub system: Option<Arc<str>>,
    /// The tools on offer.
    pub tools: ToolSpecs,
    /// Whether the model may, must or must not call them.
    pub tool_choice: ToolChoice,
    /// Whether several calls may be made at once; the provider's default if there is none.
    pub parallel_tool_calls: Option<bool>,
    /// The form of the answer; free text if there is none.
    pub response_format: Option<ResponseFormat>,
    /// The conversation.
    pub prompt: Prompt,
    /// Everything else.
    pub options: InferenceOptions,
}

/// Settings of a model call, shared until they are changed: they hardly ever differ from one request to the
/// next.
///
/// ```
/// # use loopwright_messages::InferenceOptions;
/// let mut options = InferenceOptions::default().with_seed(7);
/// let same = options.clone();
/// options.temperature = Some(0.0);
/// assert_eq!((options.seed, same.temperature), (Some(7), None));
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "InferenceSettings", into = "InferenceSettings")]
pub struct InferenceOptions(Option<Arc<InferenceSettings>>);

/// The fields of [`InferenceOptions`]. What is `None` is left to the provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct InferenceSettings {
    /// The most tokens that may be written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// How freely words are chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The share of likely words to choose from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Texts that end the answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// Makes answers repeatable, where the provider can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// How much to think.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Whether the answer is streamed; streaming is the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
    /// Fields of the provider's own, put into the request as they are.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
    /// Headers of the provider's own.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

/// What options say that say nothing.
static NOTHING: LazyLock<InferenceSettings> = LazyLock::new(InferenceSettings::default);

impl Deref for InferenceOptions {
    type Target = InferenceSettings;

    fn deref(&self) -> &InferenceSettings {
        self.0.as_ref().map_or_else(|| &*NOTHING, Arc::as_ref)
    }
}

impl DerefMut for InferenceOptions {
    fn deref_mut(&mut self) -> &mut InferenceSettings {
        Arc::make_mut(self.0.get_or_insert_default())
    }
}

impl PartialEq for InferenceOptions {
    fn eq(&self, other: &Self) -> bool {
        let is_one = match (&self.0, &other.0) {
            (None, None) => true,
            (Some(one), Some(another)) => Arc::ptr_eq(one, another),
            _ => false,
        };
        is_one || **self == **other
    }
}

impl From<InferenceSettings> for InferenceOptions {
    fn from(settings: InferenceSettings) -> Self {
        Self((settings != *NOTHING).then(|| Arc::new(settings)))
    }
}

impl From<InferenceOptions> for InferenceSettings {
    fn from(options: InferenceOptions) -> Self {
        options.0.map(Arc::unwrap_or_clone).unwrap_or_default()
    }
}

impl InferenceOptions {
    /// Lays these settings over defaults: what is set here counts, fields and headers of the provider's own
    /// come together.
    #[must_use]
    pub fn with_defaults(&self, defaults: &Self) -> Self {
        if self.is_empty() {
            return defaults.clone();
        }
        let mut merged = defaults.clone();
        let fields = &mut *merged;
        fields.max_output_tokens = self.max_output_tokens.or(fields.max_output_tokens);
        fields.temperature = self.temperature.or(fields.temperature);
        fields.top_p = self.top_p.or(fields.top_p);
        fields.seed = self.seed.or(fields.seed);
        fields.reasoning_effort = self.reasoning_effort.or(fields.reasoning_effort);
        fields.stream = self.stream.or(fields.stream);
        if !self.stop.is_empty() {
            fields.stop.clone_from(&self.stop);
        }
        fields.extra.extend(self.extra.clone());
        fields.headers.extend(self.headers.clone());
        merged
    }

    /// Returns `true` if everything is left to the provider.
    pub fn is_empty(&self) -> bool {
        self.0.as_deref().is_none_or(|it| it == &*NOTHING)
    }

    /// Sets the most tokens that may be written.
    #[must_use]
    pub fn with_max_output_tokens(mut self, tokens: u64) -> Self {
        self.max_output_tokens = Some(tokens);
        self
    }

    /// Sets how freely words are chosen.
    #[must_use]
    pub fn with_temperature(mut self, temperature: f64) -> Self {
        self.temperature = Some(temperature);
        self
    }

    /// Sets how much to think.
    #[must_use]
    pub fn with_reasoning_effort(mut self, effort: ReasoningEffort) -> Self {
        self.reasoning_effort = Some(effort);
        self
    }

    /// Sets whether the answer is streamed.
    #[must_use]
    pub fn with_stream(mut self, stream: bool) -> Self {
        self.stream = Some(stream);
        self
    }

    /// Sets what makes answers repeatable.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Adds a field of the provider's own.
    #[must_use]
    pub fn with_extra(mut self, key: impl Into<String>, value: Value) -> Self {
        self.extra.insert(key.into(), value);
        self
    }
}

/// How much to think.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReasoningEffort {
    /// As little as possible.
    Minimal,
    /// Little.
    Low,
    /// As the provider thinks best.
    Medium,
    /// Much.
    High,
}

/// Whether tools are called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// At least one is called.
    Required,
    /// None is called.
    None,
    /// This one is called.
    Tool(Arc<str>),
}

/// The form of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ResponseFormat {
    /// Free text.
    Text,
    /// Any JSON object.
    JsonObject,
    /// JSON of a schema.
    JsonSchema {
        /// The schema's name.
        name: Arc<str>,
        /// The schema.
        schema: Arc<Value>,
        /// Whether the provider is to enforce it.
        strict: bool,
    },
}

impl ResponseFormat {
    /// Asks for JSON of a schema, enforced by the provider.
    pub fn json_schema(name: impl Into<Arc<str>>, schema: Value) -> Self {
        Self::JsonSchema { name: name.into(), schema: Arc::new(schema), strict: true }
    }
}

/// A model's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InferenceResponse {
    /// What the model said.
    pub message: Message,
    /// Why it stopped there.
    pub finish_reason: FinishReason,
    /// What was read and written.
    pub usage: Usage,
    /// What it cost, where prices are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// The provider's id of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Arc<str>>,
}

impl InferenceResponse {
    /// Makes an answer of a message: it ends with calls if the message has any.
    pub fn new(message: Message, usage: Usage) -> Self {
        let finish = match message.tool_calls().next() {
            Some(_) => FinishReason::ToolCalls,
            None => FinishReason::Stop,
        };
        Self { message, finish_reason: finish, usage, cost: None, id: None }
    }
}

/// Why a model stopped writing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FinishReason {
    /// It was done.
    Stop,
    /// It waits for tools.
    ToolCalls,
    /// The token limit cut it off: the text is partial, and calls must not be run.
    Length,
    /// The provider's filter cut it off.
    ContentFilter,
    /// It declined.
    Refusal,
    /// Anything else, in the provider's word.
    Other(Arc<str>),
}

impl FinishReason {
    /// Returns the reason as it is written in events and configuration.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Stop => "stop",
            Self::ToolCalls => "tool_calls",
            Self::Length => "length",
            Self::ContentFilter => "content_filter",
            Self::Refusal => "refusal",
            Self::Other(word) => word,
        }
    }

    /// Returns `true` if the answer is complete.
    pub fn is_complete(&self) -> bool {
        matches!(self, Self::Stop | Self::ToolCalls)
    }
}

/// What of a request the next one begins with, as far as it takes to tell whether it does.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestPrefix {
    model: Option<Arc<str>>,
    system: Option<Arc<str>>,
    tools: ToolSpecs,
    dialect: ToolCallFormat,
    head: Mark,
    turns: Mark,
}

impl RequestPrefix {
    /// Remembers the next request in the place of this one. Returns why it does not begin with this one, in
    /// constant time.
    pub fn advance(&mut self, next: &InferenceRequest) -> Option<CacheBreak> {
        let broken = self.break_cause(next);
        if broken.is_some() || !self.tools.ptr_eq(&next.tools) {
            *self = next.stable_part();
        } else {
            // Everything else is the same.
            (self.head, self.turns) = (next.prompt.head.mark(), next.prompt.turns.mark());
        }
        broken
    }

    /// Returns why a request does not begin with this, in constant time.
    pub fn break_cause(&self, next: &InferenceRequest) -> Option<CacheBreak> {
        if self.model != next.model {
            return Some(CacheBreak::ModelChanged);
        }
        if !self.tools.ptr_eq(&next.tools) && self.tools != next.tools {
            let only_more = !self.tools.is_empty() && next.tools.starts_with(&self.tools);
            let more = only_more.then_some(CacheBreak::ToolAdded);
            return more.or(Some(CacheBreak::ToolsChanged));
        }
        if self.system != next.system {
            return Some(CacheBreak::PromptEdited);
        }
        let prompt = &next.prompt;
        let same_head = prompt.head.mark() == self.head && prompt.dialect == self.dialect;
        if same_head && prompt.turns.extends(self.turns) {
            return None;
        }
        Some(prompt.prefix_break.clone().unwrap_or(CacheBreak::HookRewrote))
    }
}

impl InferenceRequest {
    /// Remembers what the next request is to begin with.
    pub fn stable_part(&self) -> RequestPrefix {
        RequestPrefix {
            model: self.model.clone(),
            system: self.system.clone(),
            tools: self.tools.clone(),
            dialect: self.prompt.dialect,
            head: self.prompt.head.mark(),
            turns: self.prompt.turns.mark(),
        }
    }

    /// Returns why `next` does not begin with the stable part of this request, in constant time.
    pub fn prefix_broken_by(&self, next: &Self) -> Option<CacheBreak> {
        self.stable_part().break_cause(next)
    }
}
