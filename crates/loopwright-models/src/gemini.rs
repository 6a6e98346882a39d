//! The wire of Gemini's `generateContent`, of the Gemini API and of Vertex AI.
//!
//! The wire is documented in the Gemini API's reference of `generateContent` and its guides to
//! thinking, thought signatures and function calling.
//!
//! - A model name has the form `gemini-3-flash`, or is a path such as `tunedModels/mine` or
//!   `publishers/google/models/gemini-2.5-pro`. On Vertex AI, the provider's base URL ends in
//!   `/publishers/google` or in the location, and the key is a bearer token.
//! - The user's own `tools` are added to the functions, and the fields of the user's own
//!   `generationConfig` and `toolConfig` are added to the others or replace them.
//! - The wire cannot limit the model to one call at a time.
//! - Instructions at the head of a prompt are part of the system instruction. The wire does not
//!   support instructions in the middle of a conversation, so these become user messages.
//! - A stream has no end marker. It is complete if nothing follows its last finish reason and all
//!   code has results; see [`decode`].

use std::sync::Arc;

use loopwright_core::messages::ModelOrigin;

use crate::{
    error::ErrorContext,
    reader::ResponseReader,
    wire::{EncodeInput, WireApi, WireProtocol},
};

mod wire;
mod model;
mod partial;
mod answer;
mod decode;
mod stream;
mod parts;
mod fields;
mod encode;

/// Gemini's `generateContent`.
pub(crate) struct Gemini;

impl WireProtocol for Gemini {
    fn name(&self) -> &str {
        WireApi::Gemini.name()
    }

    fn path(&self, model: &str, streams: bool) -> Vec<String> {
        model::path(model, if streams { "streamGenerateContent" } else { "generateContent" })
    }

    fn query(&self, streams: bool) -> Option<&'static str> {
        streams.then_some("alt=sse")
    }

    fn key_header(&self) -> Option<&'static str> {
        Some("x-goog-api-key")
    }

    fn encode(&self, question: &EncodeInput<'_>) -> Vec<u8> {
        encode::encode(question)
    }

    fn read(&self, origin: Arc<ModelOrigin>, context: ErrorContext) -> Box<dyn ResponseReader> {
        Box::new(decode::GeminiReading::new(origin, context))
    }
}
