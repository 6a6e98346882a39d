//! The wire of Ollama's own chat API, documented in its API reference under `/api/chat`.
//!
//! Unlike Ollama's chat completions, it can set the size of the context and the handling of prompts
//! that are too long:
//!
//! - By default, Ollama gives a model much less context than it supports. Set more with
//!   `{"options": {"num_ctx": 32768}}` in the user's own fields, or in the server's settings.
//! - By default, Ollama silently drops the oldest messages of longer prompts, and the oldest tokens
//!   while it generates. Requests disable this (`"truncate": false, "shift": false`): a prompt that
//!   is too long is then an error, and a response that does not fit is cut off with the length
//!   reason. The user's own fields take precedence. Old servers ignore these fields; with them, a
//!   prompt was truncated if the input tokens hardly grow, or shrink, from step to step.
//! - A call cannot be forced. If no call is allowed, the request contains no tools, and if one tool
//!   is required, only that one.
//! - Images are sent only in base64, and other files are not sent: text replaces them.

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
