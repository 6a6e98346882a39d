//! The wire of Anthropic's Messages API (version `2023-06-01`), which other makers serve as well.
//!
//! - The wire requires a limit of written tokens: without one in the request, the model's name says
//!   how much is safe to ask for.
//! - Effort is written as adaptive thinking where the model knows it and as a budget elsewhere; a
//!   call that is forced excludes thinking. The `thinking` of the user's own fields wins.
//! - What may be cached is marked on the last tool and on the system prompt. Without a tail, the
//!   conversation is marked by the field `cache_control` of the request, which stands for its last
//!   block: it changes no byte of the conversation. A tail changes with each request, so with one
//!   the mark is the last field of the last block before it. `cache_control` in the user's own fields
//!   is used for all marks, and null means none.
//! - `tools` in the user's own fields are added to those of the request: the provider's own tools
//!   stand in the same list. The fields of an `output_config` are added as well.
//! - Code runs in a container. Its id is sent after the messages, so that a request still begins with the
//!   bytes of the one before it.
//! - An instruction in the middle of a conversation is a message of the system where the model accepts
//!   one at that place, and words of the user elsewhere.
//! - A conversation begins and ends with the user: where it does not, or where the model speaks twice,
//!   the user is made to say a word, except for models that continue their own last message.
//! - The wire has no seed, no names for schemas, and no form for JSON without an enforced schema:
//!   that is asked for in words.

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
