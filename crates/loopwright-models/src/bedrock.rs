//! The wire of Amazon Bedrock's Converse API, one format for the models of many vendors.
//!
//! - Requests carry a bearer token, or are signed with the keys and the region from the usual AWS
//!   variables.
//! - Streams are binary messages with checksums.
//! - Users and models must alternate: consecutive user messages are merged, so a request continues
//!   the previous one except for two closing brackets. The user must begin and end; if the model
//!   does, or speaks twice, a short user message is inserted.
//! - Reasoning effort is sent for models with a known field for it, in
//!   `additionalModelRequestFields`, to which the user can add other fields. The same applies to
//!   `inferenceConfig`, `toolConfig` and `outputConfig`.
//! - `cachePoint`s follow the tools and the system prompt if cache marks are enabled and the model
//!   is documented to support them.
//! - The wire has no seed, and no way to forbid tools that the conversation contains or parallel
//!   calls.

use std::sync::Arc;

use loopwright_core::messages::ModelOrigin;
use url::Url;

use crate::{
    error::ErrorContext,
    reader::{Framing, ResponseReader},
    secret::VarSource,
    signer::Signer,
    wire::{EncodeInput, WireApi, WireProtocol},
};

mod wire;
mod block;
mod decode;
mod stream;
mod content;
mod assistant;
mod fields;
mod encode;
mod sign;

/// Amazon Bedrock's Converse API.
pub(crate) struct Bedrock;

impl WireProtocol for Bedrock {
    fn name(&self) -> &str {
        WireApi::BedrockConverse.name()
    }

    fn path(&self, model: &str, streams: bool) -> Vec<String> {
        let ask = if streams { "converse-stream" } else { "converse" };
        vec!["model".into(), model.into(), ask.into()]
    }

    fn framing(&self) -> Framing {
        Framing::EventStream
    }

    fn encode(&self, question: &EncodeInput<'_>) -> Vec<u8> {
        encode::encode(question)
    }

    fn read(&self, origin: Arc<ModelOrigin>, context: ErrorContext) -> Box<dyn ResponseReader> {
        Box::new(decode::ConverseReading::new(origin, context))
    }
}

impl Bedrock {
    /// Writes the address as the provider wants it.
    pub(crate) fn finish_url(url: &mut Url) {
        // Signatures are made of the path in this form.
        let path = url.path().replace(':', "%3A");
        url.set_path(&path);
    }

    /// Returns what signs requests, if its keys are among these variables.
    pub(crate) fn signer(variables: &dyn VarSource, url: &Url) -> Option<Arc<dyn Signer>> {
        Some(Arc::new(sign::AwsSigner::of_variables(variables, url)?))
    }
}
