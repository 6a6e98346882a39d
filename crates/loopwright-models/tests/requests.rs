//! Requests as they are written, compared with recorded ones in the way of the recordings' own
//! comparison: texts, calls, results, tool names and opaque handles must agree; the order of fields,
//! defaults and descriptions need not.

use std::sync::Arc;

use loopwright_core::messages::{
    Content, Exchange, InferenceRequest, Media, MediaSource, Message, Origin, Part, Role,
    ToolResult, ToolSpec, Transcript, Turn, TurnBody,
};
use loopwright_models::{Encoder, Quirks, Wire};
use serde_json::{Value, json};

use crate::recorded::{Recorded, read, recorded, scenarios};

/// Plays a recorded conversation: each answer is read from the recording, and what the client adds
/// comes from the script.
struct Play {
    request: InferenceRequest,
    encoder: Encoder,
}

impl Play {
    fn begin(script: &Value) -> Self {
        let first = &script["first"];
        let system = texts(&first["system"]).join("\n\n");
        let tool = |tool: &Value| ToolSpec {
            name: text(&tool["name"]).into(),
            description: tool["description"].as_str().unwrap_or_default().into(),
            parameters: Arc::new(tool["schema"].clone()),
        };
        let request = InferenceRequest {
            system: (!system.is_empty()).then(|| system.into()),
            tools: first["tools"].as_array().into_iter().flatten().map(tool).collect(),
            ..InferenceRequest::default()
        };
        // What `read` says the answers come from.
        let origin = Origin {
            wire: Wire::OpenAiChat.name().into(),
            provider: "test".into(),
            model: "m".into(),
        };
        Self {
            request,
            encoder: Encoder::new(Wire::OpenAiChat, Arc::new(origin), Quirks::default()),
        }
    }

    fn turns(&mut self) -> &mut Transcript {
        &mut self.request.prompt.turns
    }

    fn say(&mut self, items: &[Value]) {
        for item in items.iter().filter(|item| item["kind"] != "tool_result") {
            let part = match item["kind"].as_str().unwrap() {
                "text" => Part::text(text(&item["text"])),
                "image" => Part::new(Content::Image(Media {
                    mime: "image/jpeg".into(),
                    source: MediaSource::Url(text(&item["value"]).into()),
                    name: None,
                })),
                kind => panic!("{kind}"),
            };
            self.turns().say(Message::new(Role::User, [part])).unwrap();
        }
    }

    fn answer(&mut self, message: Message, items: &[Value]) {
        let result = |id: Option<&str>| {
            let mut items = items.iter().filter(|item| item["kind"] == "tool_result");
            let item = items.find(|item| item["id"].as_str() == id);
            ToolResult::text(item.map_or("", |item| item["text"].as_str().unwrap()))
        };
        let results: Vec<_> = message.tool_calls().map(|it| result(it.id.as_deref())).collect();
        let body = if results.is_empty() {
            TurnBody::Reply(message)
        } else {
            TurnBody::Exchange(Exchange::new(message, results).unwrap())
        };
        self.turns().push(Turn::new(body).unwrap());
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(text).collect()
}

/// Returns what must agree of a request.
fn canon(body: &Value) -> Value {
    let (mut system, mut said, mut calls, mut results) = (vec![], vec![], vec![], vec![]);
    for message in body["messages"].as_array().unwrap() {
        let (role, content) = (text(&message["role"]), &message["content"]);
        match role {
            "system" | "developer" => system.push(words(&flat(content))),
            "tool" => results.push(json!([message["tool_call_id"], loose(&flat(content))])),
            _ => {
                for (kind, value) in items(content) {
                    let merges =
                        said.last().is_some_and(|it: &Value| it[0] == role && kind == "text");
                    match said.last_mut() {
                        Some(last) if merges && last[1] == "text" => {
                            last[2] = words(&format!("{} {value}", text(&last[2]))).into();
                        }
                        _ => said.push(json!([role, kind, words(&value)])),
                    }
                }
            }
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            // A call ends what texts are merged with.
            said.push(json!(["call", "call", ""]));
            let function = &call["function"];
            calls.push(json!([call["id"], function["name"], loose(text(&function["arguments"]))]));
        }
    }
    results.sort_by_key(Value::to_string);
    let said: Vec<_> = said.into_iter().filter(|it| it[2] != "").collect();
    let tools = body["tools"].as_array().into_iter().flatten();
    let mut tools: Vec<_> = tools.map(|tool| tool["function"]["name"].to_string()).collect();
    tools.sort();
    let system = system.join(" ");
    json!({ "system": system, "said": said, "calls": calls, "results": results, "tools": tools })
}

fn items(content: &Value) -> Vec<(&'static str, String)> {
    let part = |part: &Value| match text(&part["type"]) {
        "image_url" => ("image", text(&part["image_url"]["url"]).to_owned()),
        _ => ("text", flat(part)),
    };
    match content {
        Value::String(text) => vec![("text", text.clone())],
        Value::Array(parts) => parts.iter().map(part).collect(),
        _ => Vec::new(),
    }
}

fn flat(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(flat).collect(),
        other => other["text"].as_str().unwrap_or_default().to_owned(),
    }
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn loose(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(Value::String(text)) => loose(&text),
        Ok(value) => value,
        Err(_) => words(text).into(),
    }
}

/// Returns the opaque handles that a recorded client sent back.
fn handles(body: &Value) -> Vec<String> {
    let messages = body["messages"].as_array().unwrap().iter();
    let details = messages.flat_map(|it| it["reasoning_details"].as_array().into_iter().flatten());
    let handles = details.flat_map(|it| [&it["signature"], &it["data"]]);
    handles.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Tells whether a recorded request goes on where the one before it stopped.
fn continues(before: &Value, now: &Value) -> bool {
    let (before, now) = (before["messages"].as_array(), now["messages"].as_array());
    let roles =
        |messages: &[Value]| messages.iter().map(|it| it["role"].clone()).collect::<Vec<_>>();
    let (Some(before), Some(now)) = (before, now) else { return false };
    now.len() > before.len()
        && roles(before) == roles(&now[..before.len()])
        && now[before.len()]["role"] == "assistant"
        && now[before.len() + 1..].iter().all(|it| it["role"] != "assistant")
}

fn play(script: &Value, exchanges: &[&Recorded]) -> Option<usize> {
    script["first"].as_object()?;
    let mut play = Play::begin(script);
    let mut encoded: Vec<Vec<u8>> = Vec::new();
    for (index, it) in exchanges.iter().enumerate() {
        let recorded = &it.exchange["request"]["body"];
        let items = script["exchanges"][it.index]["new_items"].as_array()?;
        if let Some(before) = index.checked_sub(1).map(|before| exchanges[before]) {
            if !continues(&before.exchange["request"]["body"], recorded) {
                break;
            }
            let (response, _) = read(before, [before.body().as_bytes()]).ok()?;
            play.answer(response.message, items);
        } else if recorded["messages"].as_array()?.iter().any(|it| it["role"] == "assistant") {
            return None;
        }
        play.say(items);
        let tools = script["exchanges"][it.index].get("tools");
        assert!(tools.is_none() || index > 0);
        let body = play.encoder.encode(&play.request);
        let got: Value = serde_json::from_slice(&body).unwrap();
        let mut want = canon(recorded);
        if tools.is_some() {
            want["tools"] = canon(&got)["tools"].clone();
        }
        assert_eq!(canon(&got), want, "{}", it.name());
        for handle in handles(recorded) {
            assert!(got.to_string().contains(&handle), "{} lost {handle}", it.name());
        }
        encoded.push(body);
    }
    for pair in encoded.windows(2) {
        // Without the closing brackets.
        assert!(pair[1].starts_with(&pair[0][..pair[0].len() - 2]), "the prefix broke");
    }
    Some(encoded.len())
}

#[test]
fn recorded_conversations_are_written_as_they_were() {
    let recorded = recorded();
    let (mut played, mut requests, mut left) = (0, 0, Vec::new());
    for (name, _, expected) in scenarios() {
        let exchanges: Vec<_> = recorded.iter().filter(|it| it.scenario == name).collect();
        if exchanges.is_empty() {
            continue;
        }
        match play(&expected["script"], &exchanges) {
            Some(count) if count == exchanges.len() => {
                (played, requests) = (played + 1, requests + count);
            }
            Some(count) => {
                requests += count;
                left.push(format!("{name} ({count} of {})", exchanges.len()));
            }
            None => left.push(name),
        }
    }
    println!("{played} conversations with {requests} requests; not or not wholly: {left:?}");
    assert!(!left.iter().any(|name| name.starts_with("openai-chat-")), "{left:?}");
}
