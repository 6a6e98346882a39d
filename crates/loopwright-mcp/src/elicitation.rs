//! Questions of servers to the user.

use std::fmt;

use async_trait::async_trait;
use rmcp::model::ElicitRequestParams;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::text;

/// A question of a server to the user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Elicitation {
    /// The name of the server.
    pub server: String,
    /// The question, sanitized and truncated.
    pub message: String,
    /// The JSON Schema of the answer. `None` means that the user is asked to open
    /// [`url`](Self::url).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// The address that the user is asked to open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// The answer to a question of a server.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ElicitationReply {
    /// The answer, or the confirmation that the URL was opened. Members with defaults in the schema
    /// may be missing.
    Accept(Value),
    /// The user declined to answer.
    Decline,
    /// The user did not decide.
    Cancel,
}

/// Answers questions of servers while a call runs, for programs with a user at hand.
///
/// Without it, servers of revision 2026-07-28 make the call wait until the question is answered, also over restarts of
/// the program. Earlier revisions cannot wait, so their questions are declined.
#[async_trait]
pub trait AnswerElicitations: Send + Sync + fmt::Debug {
    /// Answers a question. The future is dropped if the call ends.
    async fn answer(&self, elicitation: &Elicitation) -> ElicitationReply;
}

impl Elicitation {
    pub(crate) fn new(server: &str, params: &ElicitRequestParams) -> Self {
        let clean = |message: &str| text::clean(&text::cut(message, text::MAX_DESCRIPTION));
        let server = server.to_owned();
        match params {
            ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
                let schema = serde_json::to_value(requested_schema).ok();
                Self { server, message: clean(message), schema, url: None }
            }
            ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
                Self { server, message: clean(message), schema: None, url: Some(text::line(url)) }
            }
            _ => Self { server, message: String::new(), schema: None, url: None },
        }
    }

    /// Returns the question as readable text.
    pub fn to_text(&self) -> String {
        match &self.url {
            Some(url) => {
                let Self { server, message, .. } = self;
                format!(
                    "MCP server `{server}` asks you to open {url}: {message}; reply `done` afterwards"
                )
            }
            None => format!("MCP server `{}` asks: {}", self.server, self.message),
        }
    }

    /// Returns the answer in the form of the protocol, with the defaults of the schema for what is missing.
    pub(crate) fn to_result(&self, reply: ElicitationReply) -> Value {
        match reply {
            ElicitationReply::Decline => json!({ "action": "decline" }),
            ElicitationReply::Cancel => json!({ "action": "cancel" }),
            ElicitationReply::Accept(_) if self.url.is_some() => json!({ "action": "accept" }),
            ElicitationReply::Accept(answer) => {
                json!({ "action": "accept", "content": self.with_defaults(answer) })
            }
        }
    }

    fn with_defaults(&self, answer: Value) -> Value {
        let mut members = match answer {
            Value::Object(members) => members,
            Value::Null => Map::new(),
            // A question with one member may be answered with its value alone.
            other => match self.properties().map(|it| it.keys().collect::<Vec<_>>()).as_deref() {
                Some([only]) => Map::from_iter([((*only).clone(), other)]),
                _ => return other,
            },
        };
        for (name, schema) in self.properties().into_iter().flatten() {
            if let Some(default) = schema.get("default") {
                members.entry(name.clone()).or_insert_with(|| default.clone());
            }
        }
        Value::Object(members)
    }

    fn properties(&self) -> Option<&Map<String, Value>> {
        self.schema.as_ref()?.get("properties")?.as_object()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form() -> Elicitation {
        let schema = json!({"type": "object", "properties": {"name": {"type": "string", "default": "Jo"}, "age": {"type": "integer"}}});
        Elicitation { server: "s".into(), message: "Who?".into(), schema: Some(schema), url: None }
    }

    #[test]
    fn defaults_fill_what_an_answer_leaves_out() {
        let result = |reply| form().to_result(reply);
        let accepted = |content: Value| json!({"action": "accept", "content": content});
        assert_eq!(
            result(ElicitationReply::Accept(json!({"age": 3}))),
            accepted(json!({"age": 3, "name": "Jo"}))
        );
        assert_eq!(
            result(ElicitationReply::Accept(json!({"name": "Al"}))),
            accepted(json!({"name": "Al"}))
        );
        assert_eq!(result(ElicitationReply::Decline), json!({"action": "decline"}));
    }

    #[test]
    fn an_address_is_accepted_without_content() {
        let url = Elicitation { url: Some("https://example.com".into()), schema: None, ..form() };
        assert_eq!(
            url.to_result(ElicitationReply::Accept(json!(true))),
            json!({"action": "accept"})
        );
        assert_eq!(
            url.to_text(),
            "MCP server `s` asks you to open https://example.com: Who?; reply `done` afterwards"
        );
    }
}
