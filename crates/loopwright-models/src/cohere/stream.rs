//! Decodes streamed and complete responses.

use loopwright_core::{
    DeltaSink, DiscardDeltas, ModelError, ModelErrorKind,
    messages::{InferenceResponse, Usage},
};
use serde_json::{Value, json, value::RawValue};

use super::{
    decode::CohereReading,
    wire::{Event as WireEvent, Said, Whole},
};
use crate::{error::with_usage, reader::ResponseReader, sse::Event};

/// A stream has ended when its message has; the connection's end or `[DONE]` alone is no end.
impl ResponseReader for CohereReading {
    fn event(&mut self, event: Event<'_>, deltas: &mut dyn DeltaSink) -> Result<(), ModelError> {
        if event.data == b"[DONE]" {
            self.is_closed = true;
            return Ok(());
        }
        let wire: WireEvent<'_> =
            serde_json::from_slice(event.data).map_err(|error| self.fail_json(error))?;
        let kind = if wire.kind.is_empty() { event.kind } else { &wire.kind };
        // An event that is not of a message speaks of something that went wrong.
        let is_error = wire.error.is_some_and(says) || wire.message.is_some_and(says);
        if kind == "error" || is_error {
            return Err(with_usage(self.context.of_body(event.data), self.usage));
        }
        self.take_id(&wire.id);
        let delta = wire.delta.unwrap_or_default();
        let said = delta.message.unwrap_or_default();
        match kind {
            "content-start" => self.answer.begin_block(),
            "tool-call-start" => {
                let begun = self.answer.begin_calls(said.tool_calls, wire.index, deltas);
                begun.map_err(|error| self.fail_json(error))?;
            }
            "tool-call-delta" => {
                let known = self.answer.continue_call(said.tool_calls, wire.index, deltas);
                if !known.map_err(|error| self.fail_json(error))? {
                    return Err(self.fail("the response continues a call that it did not start"));
                }
            }
            "message-end" => {
                self.take_usage(delta.usage, deltas);
                if let Some(error) = delta.error.filter(|it| says(it)) {
                    return Err(self.gave_up(error));
                }
                self.finish = Some(delta.finish_reason.to_string());
            }
            _ => {}
        }
        self.answer.take(&said, deltas).map_err(|error| self.fail_json(error))
    }

    fn whole(&mut self, body: &[u8]) -> Result<(), ModelError> {
        let whole: Whole<'_> =
            serde_json::from_slice(body).map_err(|error| self.fail_json(error))?;
        let Some(message) = whole.message.filter(|it| it.get().starts_with('{')) else {
            return Err(self.context.of_body(body));
        };
        let said: Said<'_> =
            serde_json::from_str(message.get()).map_err(|error| self.fail_json(error))?;
        self.take_id(&whole.id);
        self.take_usage(whole.usage, &mut DiscardDeltas);
        self.finish = Some(whole.finish_reason.to_string());
        let taken = self.answer.take(&said, &mut DiscardDeltas);
        let taken =
            taken.and_then(|()| self.answer.begin_calls(said.tool_calls, None, &mut DiscardDeltas));
        taken.map_err(|error| self.fail_json(error))
    }

    fn is_done(&self) -> bool {
        self.finish.is_some() || self.is_closed
    }

    fn usage(&self) -> Option<Usage> {
        self.usage
    }

    fn end(self: Box<Self>) -> Result<InferenceResponse, ModelError> {
        self.finish()
    }
}

impl CohereReading {
    /// Makes an error of what stands where a message ends: a text, or an envelope.
    fn gave_up(&self, error: &RawValue) -> ModelError {
        let error: Value = serde_json::from_str(error.get()).unwrap_or_default();
        let error = self.context.of_envelope(&json!({ "error": error }));
        let kind = match error.kind {
            ModelErrorKind::InvalidRequest => ModelErrorKind::Unavailable,
            kind => kind,
        };
        with_usage(ModelError { kind, ..error }, self.usage)
    }
}

/// Returns `true` if a field is filled.
fn says(raw: &RawValue) -> bool {
    !matches!(raw.get(), "\"\"" | "{}" | "false" | "null" | "[]" | "0")
}
