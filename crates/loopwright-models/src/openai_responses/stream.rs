//! Decodes streamed and complete responses.

use loopwright_core::{
    DeltaSink, DiscardDeltas, ModelError,
    messages::{InferenceResponse, Usage},
};

use super::{
    decode::ResponsesReading,
    error::error_in,
    item::Voice,
    wire::{Event as WireEvent, Response},
};
use crate::{error::with_usage, reader::ResponseReader, sse::Event};

/// A stream has ended when an event says how; the connection's end or `[DONE]` alone is no end.
impl ResponseReader for ResponsesReading {
    fn event(&mut self, event: Event<'_>, deltas: &mut dyn DeltaSink) -> Result<(), ModelError> {
        if event.data == b"[DONE]" {
            self.is_closed = true;
            return Ok(());
        }
        let wire: WireEvent<'_> =
            serde_json::from_slice(event.data).map_err(|error| self.fail_json(error))?;
        let kind = if wire.kind.is_empty() { event.kind } else { &wire.kind };
        if let Some(error) = error_in(&wire, kind, event.data, &self.context) {
            return Err(with_usage(error, self.usage));
        }
        match kind {
            "response.output_text.delta" => self.say(Voice::Text, &wire, deltas),
            "response.refusal.delta" => self.say(Voice::Refusal, &wire, deltas),
            "response.reasoning_summary_text.delta" => self.say(Voice::Summary, &wire, deltas),
            "response.reasoning_text.delta" => self.say(Voice::Thought, &wire, deltas),
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                self.say(Voice::Arguments, &wire, deltas)
            }
            "response.output_text.done" => self.said(Voice::Text, &wire, &wire.text, deltas),
            "response.refusal.done" => self.said(Voice::Refusal, &wire, &wire.refusal, deltas),
            "response.reasoning_summary_text.done" => {
                self.said(Voice::Summary, &wire, &wire.text, deltas)
            }
            "response.reasoning_text.done" => self.said(Voice::Thought, &wire, &wire.text, deltas),
            "response.function_call_arguments.done" => {
                self.said(Voice::Arguments, &wire, &wire.arguments, deltas)
            }
            "response.custom_tool_call_input.done" => {
                self.said(Voice::Arguments, &wire, &wire.input, deltas)
            }
            "response.output_item.added" => self.begin(&wire, deltas),
            "response.output_item.done" => self.complete(&wire, deltas),
            "response.completed"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled" => {
                let raw = wire.response.map_or("{}", |it| it.get());
                let response: Response<'_> =
                    serde_json::from_str(raw).map_err(|error| self.fail_json(error))?;
                let ending = kind.trim_start_matches("response.");
                self.take_response(&response, ending, deltas)
            }
            _ => {
                self.take_id(wire.response);
                Ok(())
            }
        }
    }

    fn whole(&mut self, body: &[u8]) -> Result<(), ModelError> {
        let response: Response<'_> =
            serde_json::from_slice(body).map_err(|error| self.fail_json(error))?;
        if response.output.is_none() && response.status.is_empty() {
            // What is neither an answer nor an error is an error in an envelope that is not known.
            return Err(self.context.of_body(body));
        }
        if self.take_job(&response) {
            return Ok(());
        }
        self.take_response(&response, "", &mut DiscardDeltas)
    }

    fn job(&self) -> Option<&str> {
        self.job_id()
    }

    fn is_done(&self) -> bool {
        self.ending.is_some() || self.is_closed
    }

    fn usage(&self) -> Option<Usage> {
        self.usage
    }

    fn end(self: Box<Self>) -> Result<InferenceResponse, ModelError> {
        self.finish()
    }
}
