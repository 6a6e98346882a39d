//! The wire of chat completions, which nearly every provider speaks.

use std::sync::Arc;

use loopwright_core::messages::Origin;

use crate::{
    decoder::Reading,
    error::ErrorContext,
    wire::{Protocol, Question},
};

mod wire;
mod error;
mod answer;
mod decode;
mod stream;
mod assistant;
mod parts;
mod fields;
mod encode;

/// Chat completions.
pub(crate) struct OpenAiChat;

impl Protocol for OpenAiChat {
    fn path(&self, _model: &str, _streams: bool) -> Vec<String> {
        vec!["chat".into(), "completions".into()]
    }

    fn encode(&self, question: &Question<'_>) -> Vec<u8> {
        encode::encode(question)
    }

    fn read(&self, origin: Arc<Origin>, context: ErrorContext) -> Box<dyn Reading> {
        Box::new(decode::ChatReading::new(origin, context))
    }
}
