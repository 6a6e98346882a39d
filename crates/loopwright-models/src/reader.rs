//! Readers of responses, and the framing of their events.

use std::fmt;

use loopwright_core::{
    DeltaSink, ModelError,
    messages::{InferenceResponse, Usage},
};

use crate::sse::Event;

/// The most tool calls of an answer. What comes after is read no further.
pub(crate) const MAX_CALLS: usize = 1024;

/// What an answer with more calls fails with.
pub(crate) const TOO_MANY_CALLS: &str = "too many tool calls; a response may have at most 1024";

/// Reads one response: the events of a stream, or one JSON text.
pub trait ResponseReader: fmt::Debug + Send {
    /// Reads an event of a stream, and pushes its fragments. [`Delta::End`](loopwright_core::Delta::End) is not
    /// pushed here.
    ///
    /// # Errors
    ///
    /// Returns an error if the event reports one, or cannot be read.
    fn event(&mut self, event: Event<'_>, deltas: &mut dyn DeltaSink) -> Result<(), ModelError>;

    /// Reads a response that is one JSON text, without a byte order mark.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is one, is cut off, or holds no response.
    fn whole(&mut self, body: &[u8]) -> Result<(), ModelError>;

    /// Returns `true` if the stream reported its end. Later events are not read.
    fn is_done(&self) -> bool;

    /// Returns the tokens so far. Returns `None` if the provider has not reported any.
    fn usage(&self) -> Option<Usage>;

    /// Returns the ID of the job if the provider computes the response in the background. The model then polls
    /// the path of the request with the ID as its last segment.
    fn job(&self) -> Option<&str> {
        None
    }

    /// Returns the response, after the last byte.
    ///
    /// # Errors
    ///
    /// Returns an error if the response is incomplete. A response that was cut off must never become a short one.
    fn end(self: Box<Self>) -> Result<InferenceResponse, ModelError>;
}

/// Splitting of a stream into events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Framing {
    /// Server-sent events.
    Sse,
    /// JSON lines.
    Lines,
    /// Binary messages of AWS.
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
