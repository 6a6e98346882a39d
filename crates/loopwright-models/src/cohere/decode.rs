//! Decodes responses.

use std::sync::Arc;

use loopwright_core::{
    Delta, DeltaSink, ModelError, ModelErrorKind,
    messages::{FinishReason, InferenceResponse, Message, ModelOrigin, Role, Usage},
};
use serde_json::value::RawValue;

use super::{answer::Answer, wire::WireUsage};
use crate::error::{ErrorContext, with_usage};

/// An answer as far as it has been read.
#[derive(Debug)]
pub(super) struct CohereReading {
    origin: Arc<ModelOrigin>,
    pub(super) context: ErrorContext,
    pub(super) answer: Answer,
    /// The provider's reason to finish, when it has.
    pub(super) finish: Option<String>,
    pub(super) usage: Option<Usage>,
    id: Option<Arc<str>>,
    /// Whether the stream said `[DONE]`.
    pub(super) is_closed: bool,
}

impl CohereReading {
    pub(super) fn new(origin: Arc<ModelOrigin>, context: ErrorContext) -> Self {
        Self {
            origin,
            context,
            answer: Answer::default(),
            finish: None,
            usage: None,
            id: None,
            is_closed: false,
        }
    }

    /// Creates an error for a malformed response.
    pub(super) fn fail(&self, message: &str) -> ModelError {
        with_usage(self.context.error(ModelErrorKind::Protocol, message), self.usage)
    }

    pub(super) fn fail_json(&self, error: serde_json::Error) -> ModelError {
        self.fail(if error.is_eof() {
            "the response was cut off"
        } else {
            "the response is not valid Cohere chat JSON"
        })
        .with_source(error)
    }

    pub(super) fn take_id(&mut self, id: &str) {
        if self.id.is_none() && !id.is_empty() {
            self.id = Some(id.into());
        }
    }

    pub(super) fn take_usage(&mut self, usage: Option<&RawValue>, deltas: &mut dyn DeltaSink) {
        if let Some(usage) = usage.and_then(read_usage) {
            self.usage = Some(usage);
            deltas.push(Delta::Usage(usage));
        }
    }

    /// Returns the answer, if it has ended.
    pub(super) fn finish(self) -> Result<InferenceResponse, ModelError> {
        let Some(reason) = &self.finish else {
            return Err(self.fail("the stream closed before the response was complete"));
        };
        let finish = self.finish_reason(reason)?;
        let parts = self.answer.into_parts();
        let message = Message::new(Role::Assistant, parts).with_origin(self.origin);
        let usage = self.usage.unwrap_or_default();
        Ok(InferenceResponse { message, finish_reason: finish, usage, cost: None, id: self.id })
    }

    fn finish_reason(&self, reason: &str) -> Result<FinishReason, ModelError> {
        let has_calls = self.answer.has_calls();
        if self.answer.has_nameless_call() {
            return Err(self.fail("the response calls a tool without a name"));
        }
        let gave_up = |kind, message| with_usage(self.context.error(kind, message), self.usage);
        Ok(match reason {
            "" if has_calls && !self.answer.has_whole_arguments() => {
                return Err(self.fail("the response was cut off within a tool call"));
            }
            "COMPLETE" | "STOP_SEQUENCE" | "TOOL_CALL" | "" if has_calls => FinishReason::ToolCalls,
            "COMPLETE" | "STOP_SEQUENCE" => FinishReason::Stop,
            "TOOL_CALL" => {
                return Err(self.fail("the response announces tool calls but contains none"));
            }
            "MAX_TOKENS" => FinishReason::Length,
            "ERROR_TOXIC" => FinishReason::ContentFilter,
            "ERROR" => {
                let message = "the provider stopped before the response was complete";
                return Err(gave_up(ModelErrorKind::Unavailable, message));
            }
            "ERROR_LIMIT" => {
                let message = "the conversation is too long for the model";
                return Err(gave_up(ModelErrorKind::ContextLength, message));
            }
            "TIMEOUT" => {
                let message = "the provider took too long to respond";
                return Err(gave_up(ModelErrorKind::Timeout, message));
            }
            "" => FinishReason::Other("unknown".into()),
            other => FinishReason::Other(other.into()),
        })
    }
}

/// Reads usage. Returns `None` if it is no object.
fn read_usage(raw: &RawValue) -> Option<Usage> {
    let wire = serde_json::from_str::<Option<WireUsage>>(raw.get()).ok().flatten()?;
    let (tokens, billed) = (wire.tokens.unwrap_or_default(), wire.billed_units.unwrap_or_default());
    Some(Usage {
        input: tokens.input_tokens.0.or(billed.input_tokens.0).unwrap_or(0),
        output: tokens.output_tokens.0.or(billed.output_tokens.0).unwrap_or(0),
        cache_read: wire.cached_tokens.0.unwrap_or(0),
        ..Usage::default()
    })
}

#[cfg(test)]
mod tests;
