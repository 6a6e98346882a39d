//! The protocol of each wire.

use crate::{
    anthropic, cohere, gemini, ollama, openai_chat, openai_responses,
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
