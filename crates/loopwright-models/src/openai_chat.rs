//! The wire of chat completions, which nearly every provider supports.

use std::sync::Arc;

use loopwright_core::messages::ModelOrigin;

use crate::{
    error::ErrorContext,
    reader::ResponseReader,
    wire::{EncodeInput, WireApi, WireProtocol},
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

impl WireProtocol for OpenAiChat {
    fn name(&self) -> &str {
        WireApi::OpenAiChat.name()
    }

    fn path(&self, _model: &str, _streams: bool) -> Vec<String> {
        vec!["chat".into(), "completions".into()]
    }

    fn encode(&self, question: &EncodeInput<'_>) -> Vec<u8> {
        encode::encode(question)
    }

    fn read(&self, origin: Arc<ModelOrigin>, context: ErrorContext) -> Box<dyn ResponseReader> {
        Box::new(decode::ChatReading::new(origin, context))
    }
}
