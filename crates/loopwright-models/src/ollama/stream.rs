//! Decodes streamed and complete responses.

use loopwright_core::{
    DeltaSink, DiscardDeltas, ModelError,
    messages::{InferenceResponse, Usage},
};

use super::decode::OllamaReading;
use crate::{reader::ResponseReader, sse::Event};

/// An answer has ended when it says that it is done, streamed or not.
impl ResponseReader for OllamaReading {
    fn event(&mut self, event: Event<'_>, deltas: &mut dyn DeltaSink) -> Result<(), ModelError> {
        self.take(event.data, deltas)
    }

    fn whole(&mut self, body: &[u8]) -> Result<(), ModelError> {
        self.take(body, &mut DiscardDeltas)
    }

    fn is_done(&self) -> bool {
        self.done.is_some()
    }

    fn usage(&self) -> Option<Usage> {
        self.usage
    }

    fn end(self: Box<Self>) -> Result<InferenceResponse, ModelError> {
        if self.done.is_none() {
            return Err(self.fail("the stream closed before the response was complete"));
        }
        Ok(OllamaReading::end(*self))
    }
}
