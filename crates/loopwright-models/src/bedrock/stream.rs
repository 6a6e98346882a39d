//! Decodes streamed and complete responses.

use loopwright_core::{
    Delta, DeltaSink, ModelError,
    messages::{InferenceResponse, Usage},
};

use super::{
    decode::ConverseReading,
    wire::{WireAnswer, WireEvent},
};
use crate::{error::with_usage, reader::ResponseReader, sse::Event};

/// A stream has ended when it said why the model stopped and what was consumed, in whatever order.
/// One that closes earlier broke off.
impl ResponseReader for ConverseReading {
    fn event(&mut self, event: Event<'_>, deltas: &mut dyn DeltaSink) -> Result<(), ModelError> {
        if event.kind == "error" {
            return Err(with_usage(self.context.of_body(event.data), self.counts));
        }
        let wire: WireEvent<'_> =
            serde_json::from_slice(event.data).map_err(|error| self.unreadable(error))?;
        match event.kind {
            "contentBlockDelta" => self.add(wire.content_block_index, &wire.delta, deltas)?,
            "contentBlockStart" => self.begin(wire.content_block_index, &wire.start, deltas)?,
            "messageStop" => self.stop_reason = Some(wire.stop_reason.to_string()),
            "metadata" => {
                self.take_usage(wire.usage);
                deltas.push(Delta::Usage(*self.counts.get_or_insert_default()));
            }
            _ => {}
        }
        Ok(())
    }

    fn whole(&mut self, body: &[u8]) -> Result<(), ModelError> {
        let answer: WireAnswer<'_> =
            serde_json::from_slice(body).map_err(|error| self.unreadable(error))?;
        let Some(output) = answer.output else { return Err(self.context.of_body(body)) };
        let Some(content) = output.message.unwrap_or_default().content else {
            return Err(self.fail("the response contains no message"));
        };
        self.take_usage(answer.usage);
        self.counts.get_or_insert_default();
        self.stop_reason = Some(answer.stop_reason.to_string());
        content.into_iter().try_for_each(|block| self.take(block))
    }

    fn is_done(&self) -> bool {
        self.stop_reason.is_some() && self.counts.is_some()
    }

    fn usage(&self) -> Option<Usage> {
        self.counts
    }

    fn end(self: Box<Self>) -> Result<InferenceResponse, ModelError> {
        if !self.is_done() {
            return Err(self.fail("the stream closed before the response was complete"));
        }
        self.into_response()
    }
}
