//! Decodes streamed and complete responses.

use loopwright_core::{
    DeltaSink, DiscardDeltas, ModelError,
    messages::{InferenceResponse, Usage},
};

use super::{
    answer::Entries,
    decode::{ChatReading, Stream},
};
use crate::{error::with_usage, reader::ResponseReader, sse::Event};

/// A stream has ended when it says `[DONE]`, or when it closes after it gave a reason to finish. If
/// it closes without either, or in the middle of an event, the answer broke off and is an error.
impl ResponseReader for ChatReading {
    fn event(&mut self, event: Event<'_>, deltas: &mut dyn DeltaSink) -> Result<(), ModelError> {
        self.stream = Stream::Open;
        if event.data == b"[DONE]" {
            self.stream = Stream::Done;
            return Ok(());
        }
        if event.kind == "error" {
            return Err(with_usage(self.context.of_body(event.data), self.usage));
        }
        self.take(event.data, Entries::Fragments, deltas)
    }

    fn whole(&mut self, body: &[u8]) -> Result<(), ModelError> {
        self.take(body, Entries::Whole, &mut DiscardDeltas)
    }

    fn is_done(&self) -> bool {
        self.stream == Stream::Done
    }

    fn usage(&self) -> Option<Usage> {
        self.usage
    }

    fn end(self: Box<Self>) -> Result<InferenceResponse, ModelError> {
        let is_cut = match self.stream {
            Stream::None => false,
            Stream::Open => !self.seen || self.finish.is_none(),
            Stream::Done => !self.seen,
        };
        if is_cut {
            return Err(self.fail("the stream closed before the response was complete"));
        }
        if !self.seen {
            return Err(self.fail("the response contains no choice"));
        }
        ChatReading::end(*self)
    }
}
