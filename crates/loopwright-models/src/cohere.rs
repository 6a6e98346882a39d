//! The wire of Cohere's Chat API, version 2.
//!
//! The wire cannot force one particular tool, so a request then contains only that tool; it has no
//! field for parallel calls.

use std::sync::Arc;

use loopwright_core::messages::ModelOrigin;

use crate::{
    error::ErrorContext,
    reader::ResponseReader,
    wire::{EncodeInput, WireApi, WireProtocol},
};

mod wire;
mod answer;
mod decode;
mod stream;
mod assistant;
mod parts;
mod fields;
mod encode;

/// Cohere's chat.
pub(crate) struct Cohere;

impl WireProtocol for Cohere {
    fn name(&self) -> &str {
        WireApi::Cohere.name()
    }

    fn path(&self, _model: &str, _streams: bool) -> Vec<String> {
        vec!["chat".into()]
    }

    fn encode(&self, question: &EncodeInput<'_>) -> Vec<u8> {
        encode::encode(question)
    }

    fn read(&self, origin: Arc<ModelOrigin>, context: ErrorContext) -> Box<dyn ResponseReader> {
        Box::new(decode::CohereReading::new(origin, context))
    }
}
