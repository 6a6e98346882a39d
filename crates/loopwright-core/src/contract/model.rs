//! The extension point for language models.

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
    /// Responds to a request, and reports fragments of the response as they arrive.
    ///
    /// A caller that does not need fragments passes [`DiscardDeltas`]. The response is complete: a
    /// truncated response is an error, never a short success. Dropping the future cancels the
    /// request and closes its connection.
    async fn infer(
        &self,
        request: &InferenceRequest,
        cx: InferCx<'_>,
    ) -> Result<InferenceResponse, ModelError>;

    /// Returns the model that is called when a request names none.
    fn model(&self) -> Option<Arc<str>> {
        None
    }

    /// Returns the minimum expected cost of a request before it is sent, or `None` if it is
    /// unknown.
    ///
    /// The loop does not send a request that costs more than the remaining budget.
    fn least_cost(&self, request: &InferenceRequest) -> Option<Cost> {
        let _ = request;
        None
    }

    /// Returns whether the model that a request names takes a kind of media; `None` if that is not
    /// known.
    fn takes(&self, request: &InferenceRequest, kind: MediaKind) -> Option<bool> {
        let _ = (request, kind);
        None
    }
}

/// A kind of content that not every model takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MediaKind {
    /// Images.
    Image,
    /// Files, such as PDF files.
    Document,
}

/// The context of a model call.
pub struct InferCx<'a> {
    /// Receives the fragments.
    pub deltas: &'a mut dyn DeltaSink,
    /// Fires when the run is being cancelled.
    pub cancel: &'a CancellationToken,
    /// The time after which the response is useless, as a reading of the clock's
    /// [`monotonic`](Clock::monotonic) time; setting the time of day does not move it. `None` means
    /// no deadline.
    pub deadline: Option<Duration>,
    /// The clock, for waits between attempts.
    pub clock: &'a dyn Clock,
    /// Data that the model stored with its last response in this run.
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

/// Data that a model stores from one response to the next in the same run, such as the bytes of its
/// request.
///
/// It is a cache and can be empty at any time: after a run was resumed, after a response was
/// abandoned, and after another model responded in between.
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
    /// Stores a value, which replaces the previous one.
    pub fn put<T: Any + Send>(&mut self, value: T) {
        self.0 = Some(Box::new(value));
    }

    /// Takes the stored value. Returns `None` if it is missing or of another type.
    pub fn take<T: Any + Send>(&mut self) -> Option<T> {
        self.0.take()?.downcast().ok().map(|value| *value)
    }
}

impl fmt::Debug for ModelCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ModelCache").field(&self.0.is_some()).finish()
    }
}

/// Receives the fragments of a response.
pub trait DeltaSink: Send {
    /// Receives one fragment. It must not block.
    fn push(&mut self, delta: Delta<'_>);
}

impl<F: FnMut(Delta<'_>) + Send> DeltaSink for F {
    fn push(&mut self, delta: Delta<'_>) {
        self(delta);
    }
}

/// A sink that discards all fragments.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiscardDeltas;

impl DeltaSink for DiscardDeltas {
    fn push(&mut self, _delta: Delta<'_>) {}
}

/// A fragment of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delta<'a> {
    /// More text.
    Text(&'a str),
    /// More reasoning.
    Reasoning(&'a str),
    /// A tool call starts.
    ToolCall {
        /// The position of the call in the response.
        index: u16,
        /// The provider's id.
        id: Option<&'a str>,
        /// The tool's name.
        name: &'a str,
    },
    /// More of a tool call's arguments.
    ToolArguments {
        /// The call's position in the response.
        index: u16,
        /// JSON text.
        fragment: &'a str,
    },
    /// The tokens so far.
    Usage(Usage),
    /// The response is complete. Exactly one of these ends a complete response.
    End,
}

impl Delta<'_> {
    /// Returns the fragment in its event form, or `None` if events do not include it.
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

/// Finds the model that a state selects.
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
    /// Returns the selected model, or the default one.
    ///
    /// # Errors
    ///
    /// Returns an error with a remedy if the provider is unknown or its key is missing.
    fn resolve(&self, llm: Option<&LlmConfig>) -> Result<Arc<dyn ChatModel>, ModelError>;
}

/// A provider that always returns the same model. The request still names the state's model.
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

/// A failed model call. Never contains a secret.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// The kind of failure.
    pub kind: ModelErrorKind,
    /// The message, for people.
    pub message: String,
    /// The status of the HTTP response.
    pub status: Option<u16>,
    /// The provider's own code.
    pub code: Option<String>,
    /// The provider's ID of the request.
    pub request_id: Option<String>,
    /// The wait that the provider requests.
    pub retry_after: Option<Duration>,
    /// The tokens that the failed call used.
    pub usage: Usage,
    /// The cost of the failed call, if prices are known.
    pub cost: Option<Cost>,
    /// The underlying error.
    #[source]
    pub source: Option<BoxError>,
}

/// The kind of a model failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ModelErrorKind {
    /// The connection failed or was lost.
    Network,
    /// The provider exceeded the timeout.
    Timeout,
    /// The provider limits the rate of requests.
    RateLimited,
    /// The provider is unavailable.
    Unavailable,
    /// The key is missing or invalid.
    Auth,
    /// The account has no credit left.
    Quota,
    /// The provider does not know the model.
    NotFound,
    /// The provider rejects the request.
    InvalidRequest,
    /// The request is too long for the model.
    ContextLength,
    /// The provider's response is invalid or incomplete.
    Protocol,
    /// No model is configured.
    NoModel,
    /// The run was cancelled.
    Cancelled,
}

impl ModelErrorKind {
    /// Returns `true` if the same request can succeed later.
    pub fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::Network | Self::Timeout | Self::RateLimited | Self::Unavailable | Self::Protocol
        )
    }
}

impl ModelError {
    /// Creates an error of a kind.
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

    /// Sets the underlying error.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<BoxError>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Returns the spend of the failed call.
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
