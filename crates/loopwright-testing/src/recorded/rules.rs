//! Requirements of providers for the conversation in a request.
//!
//! The rules are documented by the providers or enforced with errors: the order of roles, the
//! results that a call must have, and forbidden forms of messages.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Returns the reasons why a provider would reject the conversation of a request; empty for an
/// unknown wire.
pub fn request_problems(api: &str, body: &Value) -> Vec<String> {
    let mut found = Found::default();
    match api {
        "anthropic-messages" => found.anthropic(list(&body["messages"])),
        "bedrock-converse" => found.bedrock(body),
        "openai-chat" => found.chat(list(&body["messages"])),
        "cohere-chat" => {
            let messages = list(&body["messages"]);
            found.chat(messages);
            found.ends_with(messages, &["user", "tool", "system"]);
        }
        "openai-responses" => found.responses(list(&body["input"])),
        "gemini-generate" => found.gemini(list(&body["contents"])),
        "ollama-chat" => found.ollama(list(&body["messages"])),
        _ => {}
    }
    found.0
}

#[derive(Default)]
struct Found(Vec<String>);

impl Found {
    fn check(&mut self, is_right: bool, index: usize, problem: &str) {
        if !is_right {
            self.0.push(format!("message {index}: {problem}"));
        }
    }

    fn ends_with(&mut self, messages: &[Value], roles: &[&str]) {
        if let Some(last) = messages.last() {
            let is_right = roles.contains(&text(last, "role"));
            self.check(is_right, messages.len() - 1, "it must not be the last one");
        }
    }

    fn anthropic(&mut self, messages: &[Value]) {
        for (index, message) in messages.iter().enumerate() {
            let (role, blocks) = (text(message, "role"), blocks(message));
            let before = index.checked_sub(1).map(|before| text(&messages[before], "role"));
            let after = messages.get(index + 1);
            self.check(!blocks.is_empty(), index, "it is empty");
            let is_blank =
                |it: &Value| text(it, "type") == "text" && text(it, "text").trim().is_empty();
            self.check(!blocks.iter().any(is_blank), index, "a text is blank");
            match role {
                "user" => self.anthropic_results(index, messages, &blocks),
                "assistant" => {
                    self.check(before.is_some(), index, "the model must not begin");
                    let last = blocks.last().map_or("", |it| text(it, "type"));
                    let is_thought = matches!(last, "thinking" | "redacted_thinking");
                    self.check(!is_thought, index, "it ends with thinking");
                    let ids = ids(&blocks, "tool_use", "id");
                    let answered = after.map(self::blocks).unwrap_or_default();
                    let results = self::ids(&answered, "tool_result", "tool_use_id");
                    let is_answered = ids.iter().all(|id| results.contains(id));
                    self.check(is_answered, index, "a call has no result right after it");
                    let all_ids: BTreeSet<String> = ids.iter().cloned().collect();
                    self.check(all_ids.len() == ids.len(), index, "an id is used twice");
                }
                "system" => {
                    self.check(before == Some("user"), index, "the system must follow the user");
                    let after = after.map(|it| text(it, "role"));
                    let is_right = after.is_none_or(|role| role == "assistant");
                    self.check(is_right, index, "the model must follow the system");
                }
                _ => self.check(false, index, "its role is unknown"),
            }
        }
    }

    fn anthropic_results(&mut self, index: usize, messages: &[Value], blocks: &[Value]) {
        let asked = index.checked_sub(1).map(|before| self::blocks(&messages[before]));
        let asked = ids(&asked.unwrap_or_default(), "tool_use", "id");
        let results = ids(blocks, "tool_result", "tool_use_id");
        let is_asked = results.iter().all(|id| asked.contains(id));
        self.check(is_asked, index, "a result has no call right before it");
        let is_result = |it: &&Value| text(it, "type") == "tool_result";
        let first = blocks.iter().take_while(is_result).count();
        self.check(first == results.len(), index, "results do not come first");
        for failed in blocks.iter().filter(|it| it["is_error"] == true) {
            let content = list(&failed["content"]);
            let is_words = content.iter().all(|it| text(it, "type") == "text");
            self.check(is_words && !content.is_empty(), index, "a failure is not told in words");
        }
    }

    fn bedrock(&mut self, body: &Value) {
        let messages = list(&body["messages"]);
        for (index, message) in messages.iter().enumerate() {
            let (role, blocks) = (text(message, "role"), blocks(message));
            let expected = if index % 2 == 0 { "user" } else { "assistant" };
            self.check(role == expected, index, "user and model do not take turns");
            self.check(!blocks.is_empty(), index, "it is empty");
            let is_blank = |it: &Value| it["text"].as_str().is_some_and(|it| it.trim().is_empty());
            self.check(!blocks.iter().any(is_blank), index, "a text is blank");
            let is_reasoning = |it: &Value| it.get("reasoningContent").is_some();
            let is_thought = blocks.last().is_some_and(is_reasoning);
            self.check(!is_thought, index, "it ends with reasoning");
            let has = |name: &str| blocks.iter().any(|it| it.get(name).is_some());
            self.check(!has("document") || has("text"), index, "a document has no words beside it");
            let calls = converse_ids(&blocks, "toolUse");
            if role == "assistant" {
                let after = messages.get(index + 1).map(self::blocks).unwrap_or_default();
                let is_answered = converse_ids(&after, "toolResult") == calls;
                self.check(is_answered, index, "calls and the results after them differ");
                self.check(
                    calls.is_empty() || !list(&body["toolConfig"]["tools"]).is_empty(),
                    index,
                    "calls are shown and no tools are offered",
                );
                let all_ids: BTreeSet<String> = calls.iter().cloned().collect();
                self.check(all_ids.len() == calls.len(), index, "an id is used twice");
            } else {
                let before = index.checked_sub(1).map(|it| self::blocks(&messages[it]));
                let asked = converse_ids(&before.unwrap_or_default(), "toolUse");
                let is_asked = converse_ids(&blocks, "toolResult") == asked;
                self.check(is_asked, index, "results and the calls before them differ");
            }
        }
        let is_at_work = |message: &Value| {
            blocks(message).last().is_some_and(|it| {
                it.get("toolUse").or(it.get("toolResult")).is_some_and(|it| it["type"].is_string())
            })
        };
        if !messages.last().is_some_and(is_at_work) {
            self.ends_with(messages, &["user"]);
        }
    }

    fn chat(&mut self, messages: &[Value]) {
        let mut open: BTreeSet<String> = BTreeSet::new();
        for (index, message) in messages.iter().enumerate() {
            let role = text(message, "role");
            if role == "tool" {
                let id = text(message, "tool_call_id");
                self.check(open.remove(id), index, "a result has no call right before it");
                let is_said = message["content"].is_string() || message["content"].is_array();
                self.check(is_said, index, "a result says nothing");
                continue;
            }
            self.check(open.is_empty(), index, "a call has no result right after it");
            let calls = list(&message["tool_calls"]);
            open = calls.iter().map(|call| text(call, "id").to_owned()).collect();
            let are_named = open.len() == calls.len() && !open.contains("");
            self.check(are_named, index, "calls have no ids, or the same");
            let says = |name: &str| message.get(name).is_some_and(|it| !it.is_null());
            let is_said =
                says("content") || says("tool_plan") || !calls.is_empty() || says("refusal");
            self.check(is_said, index, "it says nothing");
            let is_known = matches!(role, "system" | "developer" | "user" | "assistant");
            self.check(is_known, index, "its role is unknown");
        }
        self.check(open.is_empty(), messages.len(), "a call has no result");
    }

    fn responses(&mut self, items: &[Value]) {
        let mut open: BTreeSet<String> = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            let kind = text(item, "type");
            let id = text(item, "call_id").to_owned();
            if kind.ends_with("_call_output") || kind == "tool_search_output" {
                self.check(open.remove(&id), index, "an output has no call before it");
            } else if matches!(kind, "function_call" | "custom_tool_call") {
                self.check(!id.is_empty() && open.insert(id), index, "a call has no id of its own");
            } else if matches!(kind, "" | "message") {
                let content = &item["content"];
                let is_said = content.is_string() || !list(content).is_empty();
                self.check(is_said, index, "it says nothing");
            }
        }
        self.check(open.is_empty(), items.len(), "a call has no output");
    }

    fn gemini(&mut self, contents: &[Value]) {
        for (index, content) in contents.iter().enumerate() {
            let parts = list(&content["parts"]);
            self.check(!parts.is_empty(), index, "it is empty");
            let is_empty = |it: &Value| it.as_object().is_none_or(Map::is_empty);
            self.check(!parts.iter().any(is_empty), index, "a part is empty");
            let role = |index: usize| contents.get(index).map(|it| text(it, "role"));
            let calls = names(parts, "functionCall", "function_call");
            let after = contents.get(index + 1).map(|it| list(&it["parts"])).unwrap_or_default();
            let before = index.checked_sub(1).and_then(|it| contents.get(it));
            let before = before.map(|it| list(&it["parts"])).unwrap_or_default();
            match role(index) {
                Some("model") => {
                    let follows = index.checked_sub(1).and_then(role) == Some("user");
                    self.check(calls.is_empty() || follows, index, "a call must follow the user");
                    let results = names(after, "functionResponse", "function_response");
                    self.check(results == calls, index, "calls and the results after them differ");
                }
                Some("user" | "function" | "") => {
                    let results = names(parts, "functionResponse", "function_response");
                    let asked = names(before, "functionCall", "function_call");
                    self.check(results == asked, index, "results and the calls before them differ");
                }
                _ => self.check(false, index, "its role is unknown"),
            }
        }
        self.ends_with(contents, &["user", "function", ""]);
    }

    fn ollama(&mut self, messages: &[Value]) {
        let mut open = 0;
        for (index, message) in messages.iter().enumerate() {
            if text(message, "role") == "tool" {
                self.check(open > 0, index, "a result has no call right before it");
                open = usize::saturating_sub(open, 1);
            } else {
                self.check(open == 0, index, "a call has no result right after it");
                open = list(&message["tool_calls"]).len();
            }
            self.check(message["content"].is_string(), index, "its content is not a string");
        }
        self.check(open == 0, messages.len(), "a call has no result");
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

/// Returns the blocks of a message, whose content may be a text.
fn blocks(message: &Value) -> Vec<Value> {
    match &message["content"] {
        Value::String(text) => vec![serde_json::json!({ "type": "text", "text": text })],
        content => list(content).to_vec(),
    }
}

fn ids(blocks: &[Value], kind: &str, name: &str) -> Vec<String> {
    let of_kind = blocks.iter().filter(|it| text(it, "type") == kind);
    of_kind.map(|it| text(it, name).to_owned()).collect()
}

/// Returns the ids of calls or results of the client's own tools.
fn converse_ids(blocks: &[Value], kind: &str) -> Vec<String> {
    let all = blocks.iter().filter_map(|it| it.get(kind));
    let own = all.filter(|it| it["type"].is_null());
    own.map(|it| text(it, "toolUseId").to_owned()).collect()
}

fn names(parts: &[Value], camel: &str, snake: &str) -> Vec<String> {
    let all = parts.iter().filter_map(|it| it.get(camel).or_else(|| it.get(snake)));
    all.map(|it| text(it, "name").to_owned()).collect()
}

#[cfg(test)]
mod tests;
