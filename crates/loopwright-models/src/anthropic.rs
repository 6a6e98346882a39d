//! The wire of Anthropic's Messages API (version `2023-06-01`), which other providers offer, too.
//!
//! - The wire requires a limit of output tokens: if the request has none, a safe limit is derived
//!   from the model's name.
//! - Reasoning effort is sent as adaptive thinking if the model supports it, and otherwise as a
//!   budget; a forced call excludes thinking. `thinking` in the user's own fields takes precedence.
//! - Cache marks are on the last tool and on the system prompt. Without a tail, the field
//!   `cache_control` of the request marks the last block of the conversation without changing its
//!   bytes. A tail changes with each request, so with a tail the mark is the last field of the last
//!   block before it. `cache_control` in the user's own fields is used for all marks; null means
//!   none.
//! - `tools` in the user's own fields are added to those of the request, because the provider's own
//!   tools are in the same list. The fields of an `output_config` are added, too.
//! - Code runs in a container. Its ID is sent after the messages, so that a request still begins
//!   with the bytes of the previous one.
//! - An instruction in the middle of a conversation is a system message if the model accepts one
//!   there, and otherwise a user message.
//! - A conversation must begin and end with the user: otherwise, and between two messages of the
//!   model, a short user message is inserted, except for models that continue their own last
//!   message.
//! - The wire has no seed, no names for schemas, and no format for JSON without an enforced schema,
//!   which is requested in the prompt.

use std::sync::Arc;

use loopwright_core::messages::ModelOrigin;

use crate::{
    error::ErrorContext,
    reader::ResponseReader,
    wire::{EncodeInput, WireApi, WireProtocol},
};

mod wire;
mod block;
mod decode;
mod stream;
mod content;
mod assistant;
mod container;
mod fields;
mod encode;

/// Anthropic's Messages API.
pub(crate) struct Anthropic;

impl WireProtocol for Anthropic {
    fn name(&self) -> &str {
        WireApi::Anthropic.name()
    }

    fn path(&self, _model: &str, _streams: bool) -> Vec<String> {
        vec!["messages".into()]
    }

    fn key_header(&self) -> Option<&'static str> {
        Some("x-api-key")
    }

    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[("anthropic-version", "2023-06-01")]
    }

    fn encode(&self, question: &EncodeInput<'_>) -> Vec<u8> {
        encode::encode(question)
    }

    fn read(&self, origin: Arc<ModelOrigin>, context: ErrorContext) -> Box<dyn ResponseReader> {
        Box::new(decode::MessageReading::new(origin, context))
    }
}
