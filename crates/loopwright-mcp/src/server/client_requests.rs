//! Requests of tools and prompts to the client.

use loopwright_core::{ToolCx, ToolPause};
use rmcp::model::InputRequests;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The member of a question's schema that holds the requests.
const REQUESTS: &str = "x-mcp-requests";

/// Requests to the client that calls a tool or requests a prompt, by key.
///
/// A tool [pauses](Self::to_pause) with them, and runs again with the [replies](ClientReplies::of). Requests that the
/// client does not support are not sent and have no reply. If it supports none of them, the call fails.
///
/// ```
/// use loopwright_core::{ToolCx, ToolError};
/// use loopwright_mcp::{ClientReplies, ClientRequests};
/// use serde_json::json;
///
/// fn greeting(cx: &ToolCx<'_>) -> Result<String, ToolError> {
///     let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
///     let requests = ClientRequests::new().with_question("who", "What is your name?", schema);
///     let replies = ClientReplies::of(cx).ok_or_else(|| requests.to_pause())?;
///     let name = replies.accepted("who").and_then(|it| it["name"].as_str());
///     Ok(format!("Hello, {}!", name.unwrap_or("stranger")))
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientRequests(Map<String, Value>);

/// The replies of a client to [requests](ClientRequests), by key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClientReplies(pub(super) Map<String, Value>);

impl ClientRequests {
    /// Creates an empty set of requests.
    pub fn new() -> Self {
        Self::default()
    }

    fn with(mut self, key: impl Into<String>, method: &str, params: Value) -> Self {
        let mut request = json!({ "method": method });
        request["params"] = params;
        self.0.insert(key.into(), request);
        self
    }

    /// Adds a form for the user. The schema is an object of strings, numbers, booleans and enumerations.
    #[must_use]
    pub fn with_question(
        self,
        key: impl Into<String>,
        message: impl Into<String>,
        schema: Value,
    ) -> Self {
        let mut params = json!({ "message": message.into() });
        params["requestedSchema"] = schema;
        self.with(key, "elicitation/create", params)
    }

    /// Adds a call of the client's model with one message.
    #[must_use]
    pub fn with_sampling(
        self,
        key: impl Into<String>,
        prompt: impl Into<String>,
        max_tokens: u32,
    ) -> Self {
        let content = json!({ "type": "text", "text": prompt.into() });
        let params = json!({ "messages": [{ "role": "user", "content": content }], "maxTokens": max_tokens });
        self.with(key, "sampling/createMessage", params)
    }

    /// Adds a request for the working directories of the client.
    #[must_use]
    pub fn with_roots(self, key: impl Into<String>) -> Self {
        self.with(key, "roots/list", json!({}))
    }

    /// Returns the error that pauses the call until the client replies.
    pub fn to_pause(&self) -> ToolPause {
        let messages = self.0.values().filter_map(|it| it["params"]["message"].as_str());
        let text: Vec<&str> = messages.collect();
        let schema = json!({ "type": "object", REQUESTS: self.0 });
        ToolPause::ask(text.join("\n")).with_schema(schema)
    }

    /// Returns the requests of a question that was made from some.
    pub(super) fn of_schema(schema: &Value) -> Option<InputRequests> {
        serde_json::from_value(schema.get(REQUESTS)?.clone()).ok()
    }

    pub(super) fn to_wire(&self) -> Result<InputRequests, serde_json::Error> {
        serde_json::from_value(Value::Object(self.0.clone()))
    }
}

impl ClientReplies {
    /// Returns the replies to the requests with which the tool paused, or `None` if it has not paused.
    pub fn of(cx: &ToolCx<'_>) -> Option<Self> {
        Some(Self(cx.answer()?.as_object()?.clone()))
    }

    /// Returns `true` if there are no replies.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a reply, in the form of the protocol.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// Returns the values that the user entered, or `None` if the user did not accept the form.
    pub fn accepted(&self, key: &str) -> Option<&Value> {
        let reply = self.get(key).filter(|it| it["action"] == "accept")?;
        reply.get("content")
    }

    /// Returns the text of the client's model.
    pub fn sampled(&self, key: &str) -> Option<String> {
        let content = self.get(key)?.get("content")?;
        let blocks = content.as_array().map_or(std::slice::from_ref(content), Vec::as_slice);
        Some(blocks.iter().filter_map(|it| it["text"].as_str()).collect())
    }

    /// Returns the URIs of the working directories of the client.
    pub fn roots(&self, key: &str) -> Option<Vec<&str>> {
        let roots = self.get(key)?.get("roots")?.as_array()?;
        Some(roots.iter().filter_map(|it| it["uri"].as_str()).collect())
    }
}
