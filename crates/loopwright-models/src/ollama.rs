//! The wire of Ollama's own chat, documented in its API reference under `/api/chat`.
//!
//! It differs from Ollama's chat completions in what it can be told, above all how large the context
//! is to be and what happens to a prompt that does not fit:
//!
//! - Ollama gives a model far less context than it could have, unless it is told otherwise by
//!   `{"options": {"num_ctx": 32768}}` among the user's own fields, or by the server's settings.
//! - Left to itself, it silently drops the oldest messages of a prompt that is longer, and the oldest
//!   tokens while it answers. So it is told not to (`"truncate": false, "shift": false`): a prompt
//!   that is too long is an error then, and an answer that does not fit is cut for its length. The
//!   user's own fields win. Servers too old to know these fields still drop; there, a prompt was cut
//!   if the tokens read are hardly more from step to step, or fewer.
//! - A call cannot be forced. Where none is wanted no tool is offered, and where a certain one is
//!   wanted only that one.
//! - Pictures are sent in base64 only, and other files not at all: words stand in their place.

use std::sync::Arc;

use loopwright_core::messages::ModelOrigin;

use crate::{
    error::ErrorContext,
    reader::{Framing, ResponseReader},
    wire::{EncodeInput, WireApi, WireProtocol},
};

mod wire;
mod decode;
mod stream;
mod parts;
mod fields;
mod encode;

/// Ollama's chat.
pub(crate) struct Ollama;

impl WireProtocol for Ollama {
    fn name(&self) -> &str {
        WireApi::Ollama.name()
    }

    fn path(&self, _model: &str, _streams: bool) -> Vec<String> {
        vec!["api".into(), "chat".into()]
    }

    fn framing(&self) -> Framing {
        Framing::Lines
    }

    fn encode(&self, question: &EncodeInput<'_>) -> Vec<u8> {
        encode::encode(question)
    }

    fn read(&self, origin: Arc<ModelOrigin>, context: ErrorContext) -> Box<dyn ResponseReader> {
        Box::new(decode::OllamaReading::new(origin, context))
    }
}
