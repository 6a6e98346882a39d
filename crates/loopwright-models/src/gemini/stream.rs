//! Decodes streamed and complete responses.

use loopwright_core::{
    DeltaSink, DiscardDeltas, ModelError,
    messages::{InferenceResponse, Usage},
};
use serde_json::value::RawValue;

use super::{
    answer::Parts,
    decode::{GeminiReading, Stream},
};
use crate::{error::with_usage, reader::ResponseReader, sse::Event};

impl ResponseReader for GeminiReading {
    fn event(&mut self, event: Event<'_>, deltas: &mut dyn DeltaSink) -> Result<(), ModelError> {
        self.stream = Stream::Open;
        if event.data == b"[DONE]" {
            self.stream = Stream::Done;
            return Ok(());
        }
        if event.kind == "error" {
            return Err(with_usage(self.context.of_body(event.data), self.usage));
        }
        self.take(event.data, Parts::Fragments, deltas)
    }

    /// Takes an answer, or a list of what would be the events of a stream: that is how answers are
    /// streamed by servers that do not know the form that is asked for.
    fn whole(&mut self, body: &[u8]) -> Result<(), ModelError> {
        if !body.trim_ascii_start().starts_with(b"[") {
            return self.take(body, Parts::Whole, &mut DiscardDeltas);
        }
        let chunks: Vec<&RawValue> =
            serde_json::from_slice(body).map_err(|error| self.broken(error))?;
        self.stream = Stream::Open;
        chunks.iter().try_for_each(|chunk| {
            self.take(chunk.get().as_bytes(), Parts::Fragments, &mut DiscardDeltas)
        })
    }

    fn is_done(&self) -> bool {
        self.stream == Stream::Done
    }

    fn usage(&self) -> Option<Usage> {
        self.usage
    }

    fn end(self: Box<Self>) -> Result<InferenceResponse, ModelError> {
        if self.stream != Stream::None && self.finish.is_none() {
            return Err(self.fail("the stream closed before the response was complete"));
        }
        if !self.seen {
            return Err(self.fail("the response contains no candidate"));
        }
        GeminiReading::end(*self)
    }
}
