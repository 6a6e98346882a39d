//! The wire of Cohere, as version 2 of its Chat API reference describes it.
//!
//! The wire cannot name one tool that must be called, so that tool alone is offered; it has no field
//! for calls in parallel.

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
