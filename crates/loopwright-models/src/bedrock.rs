//! The wire of Amazon Bedrock's Converse API, one form for the models of many makers.
//!
//! - Requests carry a bearer token, or are signed each time they are sent with the keys and the
//!   region that the usual AWS variables hold.
//! - Streams are binary messages with checksums.
//! - The wire wants users and models to take turns: messages of the user become one, so a request goes
//!   on where the one before it ended but for two closing brackets. It wants the user to begin and to
//!   end as well; where the model does, or speaks twice, the user is made to say a word.
//! - Effort is written for the models whose own field for it is known: in
//!   `additionalModelRequestFields`, whose other fields the user may add to. The same holds for
//!   `inferenceConfig`, `toolConfig` and `outputConfig`.
//! - `cachePoint`s stand after the tools and the system prompt if marks are asked for and the model
//!   is one that is documented to understand them.
//! - The wire has no seed, no way to forbid tools that the conversation shows, and none to forbid
//!   parallel calls.

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
