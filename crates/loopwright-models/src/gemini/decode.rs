//! Decodes responses.
//!
//! The wire has no marker for the end of a stream. The last event has a finish reason, but so may
//! earlier events, with more of the response after them. A response therefore counts as complete if
//! the bytes ended cleanly, there was a finish reason, nothing followed the last one, and all code
//! that the provider runs has a result. The transport reports connections that close early, except
//! with HTTP/1.0; such a stream that is cut right after an early finish reason cannot be
//! distinguished from a complete one.

use std::sync::Arc;

use loopwright_core::{
    Delta, DeltaSink, ModelError, ModelErrorKind,
    messages::{FinishReason, InferenceResponse, Message, ModelOrigin, Role, Usage},
};
use serde_json::value::RawValue;

use super::{
    answer::{Answer, Parts},
    wire::{Candidate, Chunk, WirePart, WireUsage},
};
use crate::{
    error::{ErrorContext, with_usage},
    lenient::Few,
};

/// An answer as far as it has been read.
#[derive(Debug)]
pub(super) struct GeminiReading {
    origin: Arc<ModelOrigin>,
    pub(super) context: ErrorContext,
    answer: Answer,
    pub(super) finish: Option<Finish>,
    /// Whether an answer, or the refusal of one, has appeared.
    pub(super) seen: bool,
    pub(super) usage: Option<Usage>,
    id: Option<Arc<str>>,
    pub(super) stream: Stream,
}

/// How far a stream has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    /// The answer is none.
    None,
    /// More may come.
    Open,
    /// It said `[DONE]`, as gateways do.
    Done,
}

/// Why the model stopped, in the provider's words.
#[derive(Debug)]
pub(super) struct Finish {
    reason: String,
    message: String,
}

impl GeminiReading {
    pub(super) fn new(origin: Arc<ModelOrigin>, context: ErrorContext) -> Self {
        Self {
            origin,
            context,
            answer: Answer::default(),
            finish: None,
            seen: false,
            usage: None,
            id: None,
            stream: Stream::None,
        }
    }

    /// Takes a chunk, or a whole body.
    pub(super) fn take(
        &mut self,
        text: &[u8],
        parts: Parts,
        deltas: &mut dyn DeltaSink,
    ) -> Result<(), ModelError> {
        let chunk: Chunk<'_> = serde_json::from_slice(text).map_err(|error| self.broken(error))?;
        if let Some(usage) = chunk.usage_metadata.and_then(read_usage) {
            if self.usage != Some(usage) {
                deltas.push(Delta::Usage(usage));
            }
            self.usage = Some(usage);
        }
        if is_error(&chunk) {
            return Err(with_usage(self.context.of_body(text), self.usage));
        }
        if self.id.is_none() && !chunk.response_id.is_empty() {
            self.id = Some((&*chunk.response_id).into());
        }
        if chunk.prompt_feedback.is_some_and(|it| !it.block_reason.is_empty()) {
            self.seen = true;
            // Whatever the reason, it is the prompt that was not let through.
            self.finish = Some(Finish { reason: "SAFETY".into(), message: String::new() });
        }
        let mut candidates = chunk.candidates.iter().flat_map(Few::iter);
        // Others are answers nobody asked for.
        match candidates.find(|it| it.index.unwrap_or(0) == 0) {
            Some(candidate) => self.take_candidate(candidate, parts, deltas),
            None => Ok(()),
        }
    }

    fn take_candidate(
        &mut self,
        candidate: &Candidate<'_>,
        parts: Parts,
        deltas: &mut dyn DeltaSink,
    ) -> Result<(), ModelError> {
        self.seen = true;
        for part in candidate.content.iter().flat_map(|said| said.parts.iter()) {
            if says(part) {
                self.finish = None;
            }
            self.answer.take(part, parts, deltas).map_err(|error| self.fail(error))?;
        }
        for (kind, raw) in [
            ("groundingMetadata", candidate.grounding_metadata),
            ("citationMetadata", candidate.citation_metadata),
            ("urlContextMetadata", candidate.url_context_metadata),
        ] {
            self.answer.take_about(kind, raw);
        }
        if !candidate.finish_reason.is_empty() {
            self.answer.stop(deltas);
            let (reason, message) = (&candidate.finish_reason, &candidate.finish_message);
            self.finish = Some(Finish { reason: reason.to_string(), message: message.to_string() });
        }
        Ok(())
    }

    /// Creates an error for a malformed response.
    pub(super) fn fail(&self, message: &str) -> ModelError {
        with_usage(self.context.error(ModelErrorKind::Protocol, message), self.usage)
    }

    pub(super) fn broken(&self, error: serde_json::Error) -> ModelError {
        self.fail(if error.is_eof() {
            "the response was cut off"
        } else {
            "the response is not valid Gemini JSON"
        })
        .with_source(error)
    }

    /// Returns the answer, which is known to have ended.
    pub(super) fn end(self) -> Result<InferenceResponse, ModelError> {
        let finish = self.finish_reason()?;
        let parts = self.answer.into_parts();
        let message = Message::new(Role::Assistant, parts).with_origin(self.origin);
        let usage = self.usage.unwrap_or_default();
        Ok(InferenceResponse { message, finish_reason: finish, usage, cost: None, id: self.id })
    }

    /// Says in our words why the model stopped.
    ///
    /// What the provider could not read as a call, or would not take for one, is an error: what is
    /// left of the answer is no answer.
    fn finish_reason(&self) -> Result<FinishReason, ModelError> {
        let reason = self.finish.as_ref().map(|it| it.reason.as_str());
        Ok(match reason {
            None | Some("STOP") if self.answer.is_cut() => {
                return Err(self.fail("the response was cut off within a part"));
            }
            None | Some("STOP") if self.answer.has_calls() => FinishReason::ToolCalls,
            None => FinishReason::Other("unknown".into()),
            Some("STOP") => FinishReason::Stop,
            Some("MAX_TOKENS") => FinishReason::Length,
            Some(
                "SAFETY"
                | "RECITATION"
                | "LANGUAGE"
                | "BLOCKLIST"
                | "PROHIBITED_CONTENT"
                | "SPII"
                | "MODEL_ARMOR"
                | "IMAGE_SAFETY"
                | "IMAGE_PROHIBITED_CONTENT"
                | "IMAGE_RECITATION",
            ) => FinishReason::ContentFilter,
            Some(
                "MALFORMED_FUNCTION_CALL"
                | "UNEXPECTED_TOOL_CALL"
                | "TOO_MANY_TOOL_CALLS"
                | "MALFORMED_RESPONSE",
            ) => return Err(self.failed(ModelErrorKind::Protocol)),
            Some("MISSING_THOUGHT_SIGNATURE") => {
                return Err(self.failed(ModelErrorKind::InvalidRequest));
            }
            Some(other) => FinishReason::Other(other.into()),
        })
    }

    /// Makes an error of the reason to finish.
    fn failed(&self, kind: ModelErrorKind) -> ModelError {
        let Some(Finish { reason, message }) = &self.finish else { return self.fail("no reason") };
        let colon = if message.is_empty() { "" } else { ": " };
        let error =
            self.context.error(kind, format!("the response failed: {reason}{colon}{message}"));
        with_usage(ModelError { code: Some(reason.clone()), ..error }, self.usage)
    }
}

/// Returns `true` if a chunk is an error.
fn is_error(chunk: &Chunk<'_>) -> bool {
    let is_bare = chunk.candidates.is_none()
        && chunk.usage_metadata.is_none()
        && chunk.prompt_feedback.is_none();
    let says = |error: &RawValue| !matches!(error.get(), "\"\"" | "{}" | "false" | "[]" | "0");
    chunk.error.is_some_and(says) || (is_bare && chunk.message.is_some())
}

/// Returns `true` if a part goes on with the answer. Empty words, even signed ones, do not.
fn says(part: &WirePart<'_>) -> bool {
    part.fields.text.as_ref().is_none_or(|text| !text.is_empty())
}

/// Reads usage. Returns `None` if it counts nothing.
fn read_usage(raw: &RawValue) -> Option<Usage> {
    let wire: WireUsage = serde_json::from_str(raw.get()).ok()?;
    let counts =
        [wire.prompt.0, wire.tool_use.0, wire.candidates.0, wire.thoughts.0, wire.cached.0];
    counts.iter().any(Option::is_some).then(|| {
        let [prompt, tool_use, candidates, reasoning, cached] =
            counts.map(Option::unwrap_or_default);
        Usage {
            input: prompt.saturating_add(tool_use),
            output: candidates.saturating_add(reasoning),
            cache_read: cached,
            cache_write: 0,
            reasoning,
        }
    })
}

#[cfg(test)]
mod tests;
