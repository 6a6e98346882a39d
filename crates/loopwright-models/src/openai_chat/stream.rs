//! Reads streamed answers.

use std::sync::Arc;

use loopwright_core::{
    DeltaSink, ModelError,
    messages::{InferenceResponse, Origin, Usage},
};

use super::{answer::Entries, decode::Reading};
use crate::{
    error::{ErrorContext, with_usage},
    sse::{Decoder, Event},
};

/// Reads a stream of events, piece by piece.
///
/// A stream has ended when it says `[DONE]`, or when it closes after it gave a reason to finish. If
/// it closes without either, or in the middle of an event, the answer broke off and is an error.
#[derive(Debug)]
pub struct StreamDecoder {
    events: Decoder,
    reading: Reading,
    is_done: bool,
}

/// The most bytes of one event.
const MOST: usize = 64 << 20;

impl StreamDecoder {
    /// Expects the answer of a model.
    pub fn new(origin: Arc<Origin>, context: ErrorContext) -> Self {
        Self { events: Decoder::new(), reading: Reading::new(origin, context), is_done: false }
    }

    /// Takes the next bytes and passes on what they say.
    ///
    /// # Errors
    ///
    /// If they say that something went wrong, or make no sense.
    pub fn push(&mut self, bytes: &[u8], deltas: &mut dyn DeltaSink) -> Result<(), ModelError> {
        let Self { events, reading, is_done } = self;
        if *is_done {
            return Ok(());
        }
        events.push(bytes, |event| take(reading, is_done, event, deltas))?;
        if self.events.buffered() > MOST {
            return Err(self.reading.fail("an event of the answer is too long to be one"));
        }
        Ok(())
    }

    /// Tells whether the stream said that it is done.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Returns what was consumed so far, if the provider said so.
    pub fn usage(&self) -> Option<Usage> {
        self.reading.usage
    }

    /// Returns the answer, after the stream closed.
    ///
    /// # Errors
    ///
    /// If it broke off or makes no sense.
    pub fn finish(self, deltas: &mut dyn DeltaSink) -> Result<InferenceResponse, ModelError> {
        let Self { events, mut reading, mut is_done } = self;
        if !is_done {
            events.finish(|event| take(&mut reading, &mut is_done, event, deltas))?;
        }
        if !reading.seen || (!is_done && reading.finish.is_none()) {
            return Err(reading.fail("the stream closed before the answer was complete"));
        }
        reading.end(deltas)
    }
}

fn take(
    reading: &mut Reading,
    is_done: &mut bool,
    event: Event<'_>,
    deltas: &mut dyn DeltaSink,
) -> Result<(), ModelError> {
    let data = event.data.trim_ascii();
    // What some gateways say after the end is about the answer, not of it.
    if *is_done || data.is_empty() {
        return Ok(());
    }
    if data == b"[DONE]" {
        *is_done = true;
        return Ok(());
    }
    if event.kind == "error" {
        return Err(with_usage(reading.context.of_body(data), reading.usage));
    }
    reading.take(data, Entries::Fragments, deltas)
}
