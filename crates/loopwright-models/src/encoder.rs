//! Writes requests, on whatever wire.

use std::sync::Arc;

use loopwright_core::messages::{InferenceRequest, Origin};

use crate::{
    quirks::Quirks,
    wire::{Question, Wire},
};

/// Writes requests of one model.
///
/// The conversation comes last in the body, and each turn is encoded once and kept beside it: the
/// bytes of a request up to the end of its last turn are the beginning of the next request.
#[derive(Clone, Debug)]
pub struct Encoder {
    wire: Wire,
    origin: Arc<Origin>,
    quirks: Quirks,
}

impl Encoder {
    /// Writes requests for the model that the origin names.
    pub fn new(wire: Wire, origin: Arc<Origin>, quirks: Quirks) -> Self {
        Self { wire, origin, quirks }
    }

    /// Returns the body of a request.
    pub fn encode(&self, request: &InferenceRequest) -> Vec<u8> {
        let question = Question { origin: &self.origin, quirks: self.quirks, request };
        self.wire.protocol().encode(&question)
    }
}
