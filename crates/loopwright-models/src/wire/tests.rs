use super::*;

fn asked_at(wire: WireApi, streams: bool) -> String {
    let protocol = wire.protocol();
    let path = protocol.path("m", streams).join("/");
    protocol.query(streams).map_or(path.clone(), |query| format!("{path}?{query}"))
}

#[test]
fn each_wire_is_asked_at_its_own_address() {
    for wire in WireApi::ALL.iter().copied() {
        let (whole, stream) = match wire {
            WireApi::OpenAiChat => ("chat/completions", "chat/completions"),
            WireApi::Anthropic => ("messages", "messages"),
            #[cfg(feature = "bedrock")]
            WireApi::BedrockConverse => ("model/m/converse", "model/m/converse-stream"),
            WireApi::OpenAiResponses => ("responses", "responses"),
            WireApi::Cohere => ("chat", "chat"),
            WireApi::Gemini => {
                ("models/m:generateContent", "models/m:streamGenerateContent?alt=sse")
            }
            WireApi::Ollama => ("api/chat", "api/chat"),
        };
        assert_eq!((&*asked_at(wire, false), &*asked_at(wire, true)), (whole, stream), "{wire:?}");
    }
}

#[test]
fn keys_are_sent_in_the_header_that_the_wire_reads() {
    for wire in WireApi::ALL.iter().copied() {
        let header = match wire {
            WireApi::Anthropic => Some("x-api-key"),
            WireApi::Gemini => Some("x-goog-api-key"),
            #[cfg(feature = "bedrock")]
            WireApi::BedrockConverse => None,
            WireApi::OpenAiChat | WireApi::OpenAiResponses | WireApi::Cohere | WireApi::Ollama => {
                None
            }
        };
        assert_eq!(wire.protocol().key_header(), header, "{wire:?}");
    }
}
