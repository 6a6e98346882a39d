//! Decodes streamed and complete responses.

use loopwright_core::{
    Delta, DeltaSink, DiscardDeltas, ModelError,
    messages::{InferenceResponse, Usage},
};
use serde_json::value::RawValue;

use super::{
    decode::MessageReading,
    wire::{WireEvent, WireMessage},
};
use crate::{error::with_usage, reader::ResponseReader, sse::Event};

/// A stream has ended when it says `message_stop`; one that closes earlier broke off.
impl ResponseReader for MessageReading {
    fn event(&mut self, event: Event<'_>, deltas: &mut dyn DeltaSink) -> Result<(), ModelError> {
        if event.kind == "error" {
            return Err(with_usage(self.context.of_body(event.data), self.usage_so_far()));
        }
        // Some gateways end the stream of every wire in this way.
        if event.kind == "ping" || event.data == b"[DONE]" {
            return Ok(());
        }
        let wire: WireEvent<'_> =
            serde_json::from_slice(event.data).map_err(|error| self.unreadable(error))?;
        if wire.error.is_some_and(is_filled) || &*wire.kind == "error" {
            return Err(with_usage(self.context.of_body(event.data), self.usage_so_far()));
        }
        let index = wire.index;
        match &*wire.kind {
            "content_block_delta" => {
                if let Some(delta) = &wire.delta {
                    self.add(index, delta, event.data, deltas)?;
                }
            }
            "content_block_start" => match wire.content_block {
                Some(block) => self.begin_block(index, block, deltas)?,
                None => return Err(self.fail("a block of the response is missing")),
            },
            "content_block_stop" => self.close_block(index, deltas),
            "message_start" => {
                self.begin(&wire.message.unwrap_or_default(), deltas)?;
                pass_on(self.usage_so_far(), deltas);
            }
            "message_delta" => {
                pass_on(self.take_usage(wire.usage), deltas);
                let delta = wire.delta.unwrap_or_default();
                self.take_stop_reason(&delta.stop_reason);
                self.take_container(delta.container);
            }
            "message_stop" => self.close(deltas),
            _ => {}
        }
        Ok(())
    }

    fn whole(&mut self, body: &[u8]) -> Result<(), ModelError> {
        let message: WireMessage<'_> =
            serde_json::from_slice(body).map_err(|error| self.unreadable(error))?;
        if message.error.is_some_and(is_filled) {
            return Err(self.context.of_body(body));
        }
        if message.content.is_none() {
            return Err(self.fail("the response contains no message"));
        }
        self.begin(&message, &mut DiscardDeltas)?;
        self.close(&mut DiscardDeltas);
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    fn usage(&self) -> Option<Usage> {
        self.usage_so_far()
    }

    fn end(self: Box<Self>) -> Result<InferenceResponse, ModelError> {
        if !self.is_done || !self.is_begun {
            return Err(self.fail("the stream closed before the response was complete"));
        }
        self.into_response()
    }
}

fn pass_on(usage: Option<Usage>, deltas: &mut dyn DeltaSink) {
    if let Some(usage) = usage {
        deltas.push(Delta::Usage(usage));
    }
}

/// Returns `true` if an error field says something; null, `{}` and the like do not.
fn is_filled(error: &RawValue) -> bool {
    !matches!(error.get(), "null" | "{}" | "\"\"" | "false")
}
