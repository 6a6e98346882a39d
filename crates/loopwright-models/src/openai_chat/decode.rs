//! Decodes responses.

use std::sync::Arc;

use loopwright_core::{
    Delta, DeltaSink, ModelError, ModelErrorKind,
    messages::{FinishReason, InferenceResponse, Message, ModelOrigin, Part, Role, Usage},
};
use serde_json::value::RawValue;

use super::{
    answer::{Answer, Entries},
    error::{error_in, is_first},
    wire::{Chunk, WireUsage},
};
use crate::{
    error::{ErrorContext, with_usage},
    lenient::{Count, Few},
    reader::{MAX_CALLS, TOO_MANY_CALLS},
};

/// An answer as far as it has been read.
#[derive(Debug)]
pub(super) struct ChatReading {
    origin: Arc<ModelOrigin>,
    pub(super) context: ErrorContext,
    answer: Answer,
    /// Whether the first choice has appeared.
    pub(super) seen: bool,
    pub(super) finish: Option<String>,
    pub(super) usage: Option<Usage>,
    /// Whether the usage is the one that counts, not Groq's early one.
    usage_is_plain: bool,
    id: Option<Arc<str>>,
    pub(super) stream: Stream,
}

/// How far a stream has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    /// The answer is none.
    None,
    /// More is to come.
    Open,
    /// It said `[DONE]`.
    Done,
}

impl ChatReading {
    pub(super) fn new(origin: Arc<ModelOrigin>, context: ErrorContext) -> Self {
        Self {
            origin,
            context,
            answer: Answer::default(),
            seen: false,
            finish: None,
            usage: None,
            usage_is_plain: false,
            id: None,
            stream: Stream::None,
        }
    }

    /// Takes a chunk, or a whole body.
    pub(super) fn take(
        &mut self,
        text: &[u8],
        entries: Entries,
        deltas: &mut dyn DeltaSink,
    ) -> Result<(), ModelError> {
        let chunk: Chunk<'_> = serde_json::from_slice(text).map_err(|error| {
            self.fail(if error.is_eof() {
                "the response was cut off"
            } else {
                "the response is not valid chat completions JSON"
            })
            .with_source(error)
        })?;
        self.take_usage(&chunk, deltas);
        if let Some(error) = error_in(&chunk, text, &self.context) {
            return Err(with_usage(error, self.usage));
        }
        if self.id.is_none() && !chunk.id.is_empty() {
            self.id = Some((&*chunk.id).into());
        }
        for choice in chunk.choices.iter().flat_map(Few::iter).filter(|it| is_first(it)) {
            self.seen = true;
            let said = match entries {
                Entries::Whole => choice.message.as_ref().or(choice.delta.as_ref()),
                // Some providers repeat the whole message beside each delta.
                Entries::Fragments => choice.delta.as_ref(),
            };
            if let Some(said) = said {
                // Each of them is looked for among those before.
                if said.tool_calls.iter().count() > MAX_CALLS {
                    return Err(self.fail(TOO_MANY_CALLS));
                }
                self.answer.take(said, entries, deltas).map_err(|error| {
                    self.fail("the reasoning in the response is malformed").with_source(error)
                })?;
            }
            if let Some(reason) = choice.finish_reason.as_ref()
                && (!reason.is_empty() || self.finish.is_none() && entries == Entries::Whole)
            {
                self.finish = Some(reason.to_string());
            }
        }
        Ok(())
    }

    fn take_usage(&mut self, chunk: &Chunk<'_>, deltas: &mut dyn DeltaSink) {
        let groq = chunk.x_groq.as_ref().and_then(|it| it.usage).filter(|_| !self.usage_is_plain);
        let plain = chunk.usage.and_then(read_usage);
        self.usage_is_plain |= plain.is_some();
        if let Some(usage) = plain.or_else(|| groq.and_then(read_usage)) {
            self.usage = Some(usage);
            deltas.push(Delta::Usage(usage));
        }
    }

    /// Creates an error for a malformed response.
    pub(super) fn fail(&self, message: &str) -> ModelError {
        with_usage(self.context.error(ModelErrorKind::Protocol, message), self.usage)
    }

    /// Returns the answer, which is known to have ended.
    pub(super) fn end(self) -> Result<InferenceResponse, ModelError> {
        let finish = self.finish_reason()?;
        let parts: Vec<Part> = self.answer.into_parts();
        let message = Message::new(Role::Assistant, parts).with_origin(self.origin);
        let usage = self.usage.unwrap_or_default();
        Ok(InferenceResponse { message, finish_reason: finish, usage, cost: None, id: self.id })
    }

    /// Says in our words why the model stopped.
    ///
    /// Whatever a provider says, an answer with calls that is not cut short waits for tools.
    fn finish_reason(&self) -> Result<FinishReason, ModelError> {
        let answer = &self.answer;
        if answer.has_nameless_call() {
            return Err(self.fail("the response calls a tool without a name"));
        }
        let finish = match self.finish.as_deref() {
            None | Some("") if !answer.has_calls() => FinishReason::Other("unknown".into()),
            None if !answer.has_whole_arguments() => {
                return Err(self.fail("the response was cut off within a tool call"));
            }
            None | Some("") => FinishReason::ToolCalls,
            Some("stop" | "eos" | "end_turn" | "tool_calls" | "function_call" | "tool_use")
                if answer.has_calls() =>
            {
                FinishReason::ToolCalls
            }
            Some("stop" | "eos" | "end_turn") if answer.has_refusal() && !answer.has_text() => {
                FinishReason::Refusal
            }
            Some("stop" | "eos" | "end_turn") => FinishReason::Stop,
            Some("length" | "model_length" | "max_tokens") => FinishReason::Length,
            Some("content_filter" | "sensitive") => FinishReason::ContentFilter,
            Some("error" | "network_error" | "insufficient_system_resource") => {
                let message = "the provider stopped before the response was complete";
                let error = self.context.error(ModelErrorKind::Unavailable, message);
                return Err(with_usage(error, self.usage));
            }
            Some("tool_calls" | "function_call" | "tool_use") if answer.is_empty() => {
                return Err(self.fail("the response announces tool calls but contains none"));
            }
            Some(other) => FinishReason::Other(other.into()),
        };
        Ok(finish)
    }
}

/// Reads usage. Returns `None` if it is no object.
fn read_usage(raw: &RawValue) -> Option<Usage> {
    let wire: WireUsage = serde_json::from_str(raw.get()).ok()?;
    let prompt = wire.prompt_tokens_details.unwrap_or_default();
    let completion = wire.completion_tokens_details.unwrap_or_default();
    let first = |counts: &[Count]| counts.iter().find_map(|count| count.0);
    let input = wire.prompt_tokens.0.unwrap_or(0);
    let mut output = wire.completion_tokens.0.unwrap_or(0);
    let reasoning = first(&[completion.reasoning_tokens, wire.reasoning_tokens]).unwrap_or(0);
    // xAI and Gemini count reasoning beside the completion, which only the total shows.
    let beside = input.saturating_add(output).saturating_add(reasoning);
    if wire.total_tokens.0 == Some(beside) {
        output = output.saturating_add(reasoning);
    }
    let cached = [
        prompt.cached_tokens,
        wire.prompt_cache_hit_tokens,
        wire.cached_tokens,
        wire.num_cached_tokens,
    ];
    let cache_write = [prompt.cache_write_tokens, wire.cache_creation_input_tokens];
    Some(Usage {
        input,
        output,
        cache_read: first(&cached).unwrap_or(0),
        cache_write: first(&cache_write).unwrap_or(0),
        reasoning,
    })
}

#[cfg(test)]
mod tests;
