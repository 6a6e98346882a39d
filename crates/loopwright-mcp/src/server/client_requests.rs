//! What tools and prompts of a server ask of the client.

use loopwright_core::{ToolCx, ToolPause};
use rmcp::model::InputRequests;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The member of a question's schema that holds the requests.
const REQUESTS: &str = "x-mcp-requests";

/// Requests to the client that calls a tool or fills in a prompt, each with a key of its own.
///
/// A tool [pauses](Self::to_pause) with them, and runs again with the [replies](ClientReplies::of). Requests that the client
/// says it cannot answer are not sent and have no reply. If it can answer none of them, the call fails.
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

/// What a client has replied to [requests](ClientRequests), by their keys.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClientReplies(pub(super) Map<String, Value>);

impl ClientRequests {
    /// Creates no requests.
    pub fn new() -> Self {
        Self::default()
    }

    fn with(mut self, key: impl Into<String>, method: &str, params: Value) -> Self {
        let mut request = json!({ "method": method });
        request["params"] = params;
        self.0.insert(key.into(), request);
        self
    }

    /// Asks the user, who fills in a form. The schema is an object of strings, numbers, booleans and enumerations.
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

    /// Asks the client's model to continue a conversation of one message.
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

    /// Asks for the directories that the client works in.
    #[must_use]
    pub fn with_roots(self, key: impl Into<String>) -> Self {
        self.with(key, "roots/list", json!({}))
    }

    /// Makes the call wait for the replies.
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
    /// Returns the replies to the requests that the tool paused with; `None` if it did not.
    pub fn of(cx: &ToolCx<'_>) -> Option<Self> {
        Some(Self(cx.answer()?.as_object()?.clone()))
    }

    /// Returns `true` if the client has replied to nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a reply, in the form of the protocol.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// Returns what the user filled in; `None` if the user did not accept the question.
    pub fn accepted(&self, key: &str) -> Option<&Value> {
        let reply = self.get(key).filter(|it| it["action"] == "accept")?;
        reply.get("content")
    }

    /// Returns the text that the client's model has written.
    pub fn sampled(&self, key: &str) -> Option<String> {
        let content = self.get(key)?.get("content")?;
        let blocks = content.as_array().map_or(std::slice::from_ref(content), Vec::as_slice);
        Some(blocks.iter().filter_map(|it| it["text"].as_str()).collect())
    }

    /// Returns the addresses of the directories that the client works in.
    pub fn roots(&self, key: &str) -> Option<Vec<&str>> {
        let roots = self.get(key)?.get("roots")?.as_array()?;
        Some(roots.iter().filter_map(|it| it["uri"].as_str()).collect())
    }
}
