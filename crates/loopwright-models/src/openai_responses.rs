//! The wire of the Responses API of `OpenAI`; xAI, `DeepSeek`, LM Studio, `OpenRouter` and the
//! backends of Codex and Copilot support it, too.
//!
//! A response that the provider generates in the background (`"background": true` in the user's own
//! fields) is polled until it is complete, and cancelled if it is no longer needed. A stream that
//! breaks off before any content does not start such a job again.
//!
//! It is used without the provider's storage: each request contains the whole conversation, and
//! encrypted reasoning is sent back verbatim. The wire has no fields for stop sequences and seeds.

use std::sync::Arc;

use loopwright_core::messages::ModelOrigin;

use crate::{
    error::ErrorContext,
    reader::ResponseReader,
    wire::{EncodeInput, WireApi, WireProtocol},
};

mod wire;
mod error;
mod item;
mod slot;
mod decode;
mod stream;
mod assistant;
mod outputs;
mod parts;
mod fields;
mod encode;

/// Responses.
pub(crate) struct OpenAiResponses;

impl WireProtocol for OpenAiResponses {
    fn name(&self) -> &str {
        WireApi::OpenAiResponses.name()
    }

    fn path(&self, _model: &str, _streams: bool) -> Vec<String> {
        vec!["responses".into()]
    }

    fn encode(&self, question: &EncodeInput<'_>) -> Vec<u8> {
        encode::encode(question)
    }

    fn read(&self, origin: Arc<ModelOrigin>, context: ErrorContext) -> Box<dyn ResponseReader> {
        Box::new(decode::ResponsesReading::new(origin, context))
    }
}
