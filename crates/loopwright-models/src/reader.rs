//! What a wire makes of an answer, and how its events are told apart.

use std::fmt;

use loopwright_core::{
    DeltaSink, ModelError,
    messages::{InferenceResponse, Usage},
};

use crate::sse::Event;

/// The most tool calls of an answer. What comes after is read no further.
pub(crate) const MAX_CALLS: usize = 1024;

/// What an answer with more calls fails with.
pub(crate) const TOO_MANY_CALLS: &str = "too many tool calls: an answer may have 1024";

/// What a wire makes of the events, or of the JSON text, of one answer.
pub(crate) trait ResponseReader: fmt::Debug + Send {
    /// Takes an event of a stream and passes on what it says, but for the end.
    ///
    /// # Errors
    ///
    /// If it says that something went wrong, or makes no sense.
    fn event(&mut self, event: Event<'_>, deltas: &mut dyn DeltaSink) -> Result<(), ModelError>;

    /// Takes an answer that is one JSON text, without a byte order mark.
    ///
    /// # Errors
    ///
    /// If it is an error, is cut off, or holds no answer.
    fn whole(&mut self, body: &[u8]) -> Result<(), ModelError>;

    /// Returns `true` if the stream said that it is done. Later events are not handed over.
    fn is_done(&self) -> bool;

    /// Returns what was consumed so far, if the provider said so.
    fn usage(&self) -> Option<Usage>;

    /// Returns the id of the job if the provider still works on the answer in the background.
    fn job(&self) -> Option<&str> {
        None
    }

    /// Returns the answer, after the last byte.
    ///
    /// # Errors
    ///
    /// If it broke off or makes no sense.
    fn end(self: Box<Self>) -> Result<InferenceResponse, ModelError>;
}

/// How the events of a stream are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// As server-sent events.
    Sse,
    /// Each is a line of JSON.
    Lines,
    /// As binary messages.
    #[cfg(feature = "bedrock")]
    EventStream,
}

impl Framing {
    /// Returns the content type that is asked for.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Sse => "text/event-stream",
            Self::Lines => "application/x-ndjson",
            #[cfg(feature = "bedrock")]
            Self::EventStream => "application/vnd.amazon.eventstream",
        }
    }
}
