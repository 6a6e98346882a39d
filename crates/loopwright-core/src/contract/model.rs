//! The seam to language models.

use std::{any::Any, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use loopwright_messages::{Cost, InferenceRequest, InferenceResponse, Usage};
use tokio_util::sync::CancellationToken;

use crate::{
    BoxError, budget::Spend, clock::Clock, event::StreamFragment, failure::FailureKind,
    llm::LlmConfig,
};

/// A language model behind a provider's API.
///
/// ```
/// use async_trait::async_trait;
/// use loopwright_core::{
///     ChatModel, Delta, InferCx, ModelError,
///     messages::{InferenceRequest, InferenceResponse, Message, Usage},
/// };
///
/// /// Answers every request with the same text.
/// struct Parrot(&'static str);
///
/// #[async_trait]
/// impl ChatModel for Parrot {
///     async fn infer(
///         &self,
///         _request: &InferenceRequest,
///         cx: InferCx<'_>,
///     ) -> Result<InferenceResponse, ModelError> {
///         cx.deltas.push(Delta::Text(self.0));
///         cx.deltas.push(Delta::End);
///         Ok(InferenceResponse::new(Message::assistant(self.0), Usage::new(1, 1)))
///     }
/// }
/// ```
#[async_trait]
pub trait ChatModel: Send + Sync {
    /// Answers a request, reporting fragments of the answer as they arrive.
    ///
    /// There is one way to ask; whoever does not care for fragments passes [`DiscardDeltas`]. The answer
    /// is whole: an answer that broke off is an error, never a short success. Dropping the future
    /// gives up the request and closes its connection.
    async fn infer(
        &self,
        request: &InferenceRequest,
        cx: InferCx<'_>,
    ) -> Result<InferenceResponse, ModelError>;

    /// Returns the name of the model that is asked when a request names none.
    fn model(&self) -> Option<Arc<str>> {
        None
    }

    /// Returns what a request is expected to cost at least, before it is sent; `None` if that is unknown.
    ///
    /// The loop does not send a request that costs more than what is left of a budget.
    fn least_cost(&self, request: &InferenceRequest) -> Option<Cost> {
        let _ = request;
        None
    }
}

/// What a model call may use.
pub struct InferCx<'a> {
    /// Where fragments go.
    pub deltas: &'a mut dyn DeltaSink,
    /// Fires when the run is being cancelled.
    pub cancel: &'a CancellationToken,
    /// When the answer is of no use any more, as a reading of the clock's
    /// [`monotonic`](Clock::monotonic) time; setting the time of day does not move it. `None` means never.
    pub deadline: Option<Duration>,
    /// The time, for waits between attempts.
    pub clock: &'a dyn Clock,
    /// What the model kept from its last answer in this run.
    pub memory: &'a mut ModelCache,
}

impl InferCx<'_> {
    /// Returns the time until the deadline, zero if it has passed; `None` without a deadline.
    pub fn time_left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_sub(self.clock.monotonic()))
    }
}

impl fmt::Debug for InferCx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InferCx").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

/// What a model keeps from one answer to the next of the same run, such as the bytes of its request.
///
/// It is a cache and may be empty at any time: in a run that was resumed, after an answer that was given
/// up, and where another model answered in between.
///
/// ```
/// use loopwright_core::ModelCache;
///
/// let mut cache = ModelCache::default();
/// cache.put("request 1".to_owned());
/// assert_eq!(cache.take::<String>().as_deref(), Some("request 1"));
/// assert_eq!(cache.take::<String>(), None);
/// ```
#[derive(Default)]
pub struct ModelCache(Option<Box<dyn Any + Send>>);

impl ModelCache {
    /// Keeps a value in the place of what was kept.
    pub fn put<T: Any + Send>(&mut self, value: T) {
        self.0 = Some(Box::new(value));
    }

    /// Takes out what was kept; `None` if that is of another type.
    pub fn take<T: Any + Send>(&mut self) -> Option<T> {
        self.0.take()?.downcast().ok().map(|value| *value)
    }
}

impl fmt::Debug for ModelCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ModelCache").field(&self.0.is_some()).finish()
    }
}

/// Takes the fragments of an answer.
pub trait DeltaSink: Send {
    /// Takes one. It must not block.
    fn push(&mut self, delta: Delta<'_>);
}

impl<F: FnMut(Delta<'_>) + Send> DeltaSink for F {
    fn push(&mut self, delta: Delta<'_>) {
        self(delta);
    }
}

/// Lets fragments go.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiscardDeltas;

impl DeltaSink for DiscardDeltas {
    fn push(&mut self, _delta: Delta<'_>) {}
}

/// A fragment of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delta<'a> {
    /// More text.
    Text(&'a str),
    /// More reasoning.
    Reasoning(&'a str),
    /// A tool call begins.
    ToolCall {
        /// Its position in the answer.
        index: u16,
        /// The provider's id.
        id: Option<&'a str>,
        /// The tool's name.
        name: &'a str,
    },
    /// More of a tool call's arguments.
    ToolArguments {
        /// The call's position in the answer.
        index: u16,
        /// JSON text.
        fragment: &'a str,
    },
    /// The tokens so far.
    Usage(Usage),
    /// Nothing more comes. Exactly one of these ends a whole answer.
    End,
}

impl Delta<'_> {
    /// Returns the fragment as events carry it; `None` for what events do not carry.
    pub fn to_owned(&self) -> Option<StreamFragment> {
        Some(match *self {
            Self::Text(text) => StreamFragment::Text(text.into()),
            Self::Reasoning(text) => StreamFragment::Reasoning(text.into()),
            Self::ToolCall { index, name, .. } => {
                StreamFragment::ToolCall { index, name: name.into() }
            }
            Self::ToolArguments { index, fragment } => {
                StreamFragment::ToolArguments { index, fragment: fragment.into() }
            }
            Self::Usage(_) => return None,
            Self::End => StreamFragment::End,
        })
    }
}

/// Finds the model that a state asks for.
///
/// ```
/// use std::sync::Arc;
///
/// use loopwright_core::{ChatModel, LlmConfig, ModelError, ModelErrorKind, ModelProvider};
///
/// struct TwoModels {
///     small: Arc<dyn ChatModel>,
///     large: Arc<dyn ChatModel>,
/// }
///
/// impl ModelProvider for TwoModels {
///     fn resolve(&self, llm: Option<&LlmConfig>) -> Result<Arc<dyn ChatModel>, ModelError> {
///         match llm.and_then(|llm| llm.model.as_deref()) {
///             None | Some("small") => Ok(Arc::clone(&self.small)),
///             Some("large") => Ok(Arc::clone(&self.large)),
///             Some(other) => {
///                 let error = format!("unknown model `{other}`; available: small, large");
///                 Err(ModelError::new(ModelErrorKind::NoModel, error))
///             }
///         }
///     }
/// }
/// ```
pub trait ModelProvider: Send + Sync {
    /// Returns the model of a selection, or the default one.
    ///
    /// # Errors
    ///
    /// If there is no such provider, or its key is missing: the error names the remedy.
    fn resolve(&self, llm: Option<&LlmConfig>) -> Result<Arc<dyn ChatModel>, ModelError>;
}

/// One model, whatever a state asks for; the request still names the state's model.
#[derive(Clone)]
pub struct FixedModel(pub Arc<dyn ChatModel>);

impl ModelProvider for FixedModel {
    fn resolve(&self, _llm: Option<&LlmConfig>) -> Result<Arc<dyn ChatModel>, ModelError> {
        Ok(Arc::clone(&self.0))
    }
}

impl fmt::Debug for FixedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FixedModel")
    }
}

/// Why a model did not answer. Never holds a secret.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// What kind of trouble it is.
    pub kind: ModelErrorKind,
    /// For people.
    pub message: String,
    /// The status of the HTTP answer.
    pub status: Option<u16>,
    /// The provider's own code.
    pub code: Option<String>,
    /// The provider's id of the request.
    pub request_id: Option<String>,
    /// How long the provider asks to wait.
    pub retry_after: Option<Duration>,
    /// What was consumed nevertheless.
    pub usage: Usage,
    /// What that cost, where prices are known.
    pub cost: Option<Cost>,
    /// What lies beneath.
    #[source]
    pub source: Option<BoxError>,
}

/// What kind of trouble a provider is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ModelErrorKind {
    /// The connection could not be made or broke.
    Network,
    /// The provider took too long.
    Timeout,
    /// The provider asks to slow down.
    RateLimited,
    /// The provider is in trouble.
    Unavailable,
    /// The key is missing or wrong.
    Auth,
    /// The account has no money left.
    Quota,
    /// The provider does not know the model.
    NotFound,
    /// The provider does not accept the request.
    InvalidRequest,
    /// The request is too long for the model.
    ContextLength,
    /// The provider's answer makes no sense, or broke off.
    Protocol,
    /// No model is configured.
    NoModel,
    /// The run was cancelled.
    Cancelled,
}

impl ModelErrorKind {
    /// Returns `true` if the same request may succeed later.
    pub fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::Network | Self::Timeout | Self::RateLimited | Self::Unavailable | Self::Protocol
        )
    }
}

impl ModelError {
    /// Makes an error that says what kind of trouble it is.
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            status: None,
            code: None,
            request_id: None,
            retry_after: None,
            usage: Usage::default(),
            cost: None,
            source: None,
        }
    }

    /// Adds what lies beneath.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<BoxError>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Returns what was consumed nevertheless.
    pub(crate) fn spend(&self) -> Spend {
        Spend { usage: self.usage, cost: self.cost.unwrap_or_default() }
    }

    pub(crate) fn failure_kind(&self) -> FailureKind {
        match self.kind {
            ModelErrorKind::RateLimited => FailureKind::RateLimit,
            ModelErrorKind::Timeout => FailureKind::Timeout,
            ModelErrorKind::Network => FailureKind::Network,
            ModelErrorKind::NoModel | ModelErrorKind::Auth => FailureKind::NoModel,
            ModelErrorKind::ContextLength => FailureKind::ContextLength,
            _ => FailureKind::Model,
        }
    }
}
