use super::*;

fn asked_at(wire: Wire, streams: bool) -> String {
    let protocol = wire.protocol();
    let path = protocol.path("m", streams).join("/");
    protocol.query(streams).map_or(path.clone(), |query| format!("{path}?{query}"))
}

#[test]
fn each_wire_is_asked_at_its_own_address() {
    for (wire, whole, stream) in [
        (Wire::OpenAiChat, "chat/completions", "chat/completions"),
        (Wire::Anthropic, "messages", "messages"),
        #[cfg(feature = "bedrock")]
        (Wire::BedrockConverse, "model/m/converse", "model/m/converse-stream"),
        (Wire::OpenAiResponses, "responses", "responses"),
        (Wire::Cohere, "chat", "chat"),
        (Wire::Gemini, "models/m:generateContent", "models/m:streamGenerateContent?alt=sse"),
        (Wire::Ollama, "api/chat", "api/chat"),
    ] {
        assert_eq!((&*asked_at(wire, false), &*asked_at(wire, true)), (whole, stream), "{wire:?}");
    }
}

#[test]
fn keys_are_sent_in_the_header_that_the_wire_reads() {
    for (wire, header) in [
        (Wire::OpenAiChat, None),
        (Wire::Anthropic, Some("x-api-key")),
        (Wire::OpenAiResponses, None),
        (Wire::Cohere, None),
        (Wire::Gemini, Some("x-goog-api-key")),
        (Wire::Ollama, None),
    ] {
        assert_eq!(wire.protocol().key_header(), header, "{wire:?}");
    }
}
