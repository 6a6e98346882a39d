//! The wire of Responses, as `OpenAI`'s API reference describes it; xAI, `DeepSeek`, LM Studio,
//! `OpenRouter` and the backends of Codex and Copilot speak it too.
//!
//! An answer that the provider works on in the background (`"background": true` among the user's own
//! fields) is asked for until it is there, and cancelled if it is not needed any more. A stream that
//! breaks off before it said anything is no reason to begin such a job anew.
//!
//! It is used without the provider's memory: nothing is stored there, each request brings the whole
//! conversation, and reasoning comes encrypted and goes back verbatim. The wire has no field for
//! texts that end an answer, nor for a seed.

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
