//! Parsing of encoded requests, by wire.

use serde_json::Value;

use super::{Canon, anthropic, bedrock, chat, gemini, merged, name_results, owned, responses};

/// Returns a request in no provider's terms; `None` for a wire that is not known.
pub(crate) fn canon(api: &str, body: &Value) -> Option<Canon> {
    let mut canon =
        Canon { model: owned(&body["model"]), streams: body["stream"] == true, ..Canon::default() };
    match api {
        "openai-chat" | "cohere-chat" | "ollama-chat" => chat::read(body, &mut canon),
        "openai-responses" => responses::read(body, &mut canon),
        "anthropic-messages" => anthropic::read(body, &mut canon),
        "gemini-generate" => gemini::read(body, &mut canon),
        "bedrock-converse" => bedrock::read(body, &mut canon),
        _ => return None,
    }
    canon.items = merged(canon.items);
    name_results(&mut canon.items);
    Some(canon)
}
