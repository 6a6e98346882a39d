//! A request to a model and its response.

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

/// A request to a model, independent of the provider.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InferenceRequest {
    /// The model; `None` means the wire's own default.
    pub model: Option<Arc<str>>,
    /// Instructions, stored separately so that providers can cache them.
    pub system: Option<Arc<str>>,
    /// The available tools.
    pub tools: ToolSpecs,
    /// Whether the model can, must or must not call tools.
    pub tool_choice: ToolChoice,
    /// Whether several calls are allowed at once; `None` means the provider's default.
    pub parallel_tool_calls: Option<bool>,
    /// The response format; `None` means free text.
    pub response_format: Option<ResponseFormat>,
    /// The conversation.
    pub prompt: Prompt,
    /// All other settings.
    pub options: InferenceOptions,
}

/// Settings of a model call. Clones share them until they are changed, because they rarely differ
/// from one request to the next.
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

/// The fields of [`InferenceOptions`]. `None` means the provider's default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct InferenceSettings {
    /// The maximum number of output tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// The sampling temperature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The probability mass for nucleus sampling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Stop sequences, which end the response.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// The seed for repeatable responses, where the provider supports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The reasoning effort.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Whether the response is streamed; streaming is the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
    /// Provider-specific fields, added to the request unchanged.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
    /// Provider-specific headers.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

/// Settings of empty options.
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
    /// Merges these settings with defaults. Settings here take precedence; provider-specific fields
    /// and headers are combined.
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

    /// Returns `true` if no setting is set.
    pub fn is_empty(&self) -> bool {
        self.0.as_deref().is_none_or(|it| it == &*NOTHING)
    }

    /// Sets the maximum number of output tokens.
    #[must_use]
    pub fn with_max_output_tokens(mut self, tokens: u64) -> Self {
        self.max_output_tokens = Some(tokens);
        self
    }

    /// Sets the sampling temperature.
    #[must_use]
    pub fn with_temperature(mut self, temperature: f64) -> Self {
        self.temperature = Some(temperature);
        self
    }

    /// Sets the reasoning effort.
    #[must_use]
    pub fn with_reasoning_effort(mut self, effort: ReasoningEffort) -> Self {
        self.reasoning_effort = Some(effort);
        self
    }

    /// Sets whether the response is streamed.
    #[must_use]
    pub fn with_stream(mut self, stream: bool) -> Self {
        self.stream = Some(stream);
        self
    }

    /// Sets the seed for repeatable responses.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Adds a provider-specific field.
    #[must_use]
    pub fn with_extra(mut self, key: impl Into<String>, value: Value) -> Self {
        self.extra.insert(key.into(), value);
        self
    }
}

/// The reasoning effort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReasoningEffort {
    /// Minimal effort.
    Minimal,
    /// Low effort.
    Low,
    /// Medium effort.
    Medium,
    /// High effort.
    High,
}

/// Whether the model calls tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// The model must call at least one.
    Required,
    /// The model must not call tools.
    None,
    /// The model must call this tool.
    Tool(Arc<str>),
}

/// The response format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ResponseFormat {
    /// Free text.
    Text,
    /// Any JSON object.
    JsonObject,
    /// JSON that matches a schema.
    JsonSchema {
        /// The schema's name.
        name: Arc<str>,
        /// The schema.
        schema: Arc<Value>,
        /// Whether the provider enforces the schema.
        strict: bool,
    },
}

impl ResponseFormat {
    /// Creates a format of JSON that matches a schema, enforced by the provider.
    pub fn json_schema(name: impl Into<Arc<str>>, schema: Value) -> Self {
        Self::JsonSchema { name: name.into(), schema: Arc::new(schema), strict: true }
    }
}

/// A model's response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InferenceResponse {
    /// The message of the model.
    pub message: Message,
    /// The reason why the model ended its response.
    pub finish_reason: FinishReason,
    /// The tokens of the call.
    pub usage: Usage,
    /// The cost, if prices are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// The provider's ID of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Arc<str>>,
}

impl InferenceResponse {
    /// Creates a response from a message. Its finish reason is tool calls if the message has any.
    pub fn new(message: Message, usage: Usage) -> Self {
        let finish = match message.tool_calls().next() {
            Some(_) => FinishReason::ToolCalls,
            None => FinishReason::Stop,
        };
        Self { message, finish_reason: finish, usage, cost: None, id: None }
    }
}

/// The reason why a model stopped.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FinishReason {
    /// The response is complete.
    Stop,
    /// The model waits for tool results.
    ToolCalls,
    /// The response was cut off at the token limit: the text is partial, and calls must not run.
    Length,
    /// The provider's filter cut off the response.
    ContentFilter,
    /// The model declined to answer.
    Refusal,
    /// Any other reason, in the provider's term.
    Other(Arc<str>),
}

impl FinishReason {
    /// Returns the name of the reason in events and configuration.
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

    /// Returns `true` if the response is complete.
    pub fn is_complete(&self) -> bool {
        matches!(self, Self::Stop | Self::ToolCalls)
    }
}

/// The data of a request that is needed to check whether the next request begins with it.
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
    /// Replaces this request with the next one. Returns the cause if the next one does not begin
    /// with this one, in constant time.
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

    /// Returns the cause if a request does not begin with this one, in constant time.
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
    /// Returns the prefix that the next request should begin with.
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

    /// Returns the cause if `next` does not begin with the stable part of this request, in constant
    /// time.
    pub fn prefix_broken_by(&self, next: &Self) -> Option<CacheBreak> {
        self.stable_part().break_cause(next)
    }
}
