//! The protocol of each wire.

use std::{fmt, sync::Arc};

use url::Url;

use crate::{
    anthropic, cohere, gemini, ollama, openai_chat, openai_responses,
    secret::VarSource,
    signer::Signer,
    wire::{WireApi, WireProtocol},
};

impl WireApi {
    /// Returns what this program knows of the wire.
    pub(crate) fn protocol(self) -> &'static dyn WireProtocol {
        match self {
            Self::OpenAiChat => &openai_chat::OpenAiChat,
            Self::Anthropic => &anthropic::Anthropic,
            #[cfg(feature = "bedrock")]
            Self::BedrockConverse => &crate::bedrock::Bedrock,
            Self::OpenAiResponses => &openai_responses::OpenAiResponses,
            Self::Cohere => &cohere::Cohere,
            Self::Gemini => &gemini::Gemini,
            Self::Ollama => &ollama::Ollama,
        }
    }
}

/// The wire of a model: one of this crate, or one of the program that uses it.
#[derive(Clone)]
pub(crate) enum Wire {
    /// A wire of this crate.
    Builtin(WireApi),
    /// A wire of the program.
    Custom(Arc<dyn WireProtocol>),
}

impl Wire {
    /// Returns what is known of the wire.
    pub(crate) fn protocol(&self) -> &dyn WireProtocol {
        match self {
            Self::Builtin(wire) => wire.protocol(),
            Self::Custom(protocol) => &**protocol,
        }
    }

    /// Writes the address as the provider wants it.
    pub(crate) fn finish_url(&self, url: &mut Url) {
        match self {
            #[cfg(feature = "bedrock")]
            Self::Builtin(WireApi::BedrockConverse) => crate::bedrock::Bedrock::finish_url(url),
            _ => {
                let _ = url;
            }
        }
    }

    /// Returns what signs requests, on wires whose requests are signed, if its keys are among these
    /// variables.
    pub(crate) fn signer(&self, variables: &dyn VarSource, url: &Url) -> Option<Arc<dyn Signer>> {
        match self {
            #[cfg(feature = "bedrock")]
            Self::Builtin(WireApi::BedrockConverse) => {
                crate::bedrock::Bedrock::signer(variables, url)
            }
            _ => {
                let _ = (variables, url);
                None
            }
        }
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.protocol().name())
    }
}
