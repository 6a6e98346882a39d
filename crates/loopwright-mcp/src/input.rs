//! Input requests of servers of revision 2026-07-28 in the middle of a call.

use std::collections::{BTreeMap, VecDeque};

use loopwright_core::ToolPause;
use rmcp::model::{InputRequest, InputRequiredResult};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::elicitation::{Elicitation, ElicitationReply};
use crate::handler;
use crate::launch::McpHost;

/// Rounds of questions within one call.
pub(crate) const MAX_ROUNDS: usize = 10;

/// Questions of one round.
const MAX_QUESTIONS: usize = 16;

/// What is answered so far, and what is not: what a call that waits keeps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct InputRound {
    #[serde(default)]
    pub(crate) round: usize,
    /// Sent back as it was received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) request_state: Option<String>,
    #[serde(default)]
    pub(crate) responses: BTreeMap<String, Value>,
    #[serde(default)]
    pub(crate) questions: VecDeque<(String, Elicitation)>,
}

impl InputRound {
    /// Answers what needs no user.
    pub(crate) fn new(
        round: usize,
        result: InputRequiredResult,
        server: &str,
        host: &McpHost,
    ) -> Result<Self, String> {
        if round >= MAX_ROUNDS {
            return Err(format!(
                "MCP server `{server}` asked too many times; the call was abandoned"
            ));
        }
        let mut next =
            Self { round: round + 1, request_state: result.request_state, ..Self::default() };
        for (key, request) in result.input_requests.into_iter().flatten() {
            match request {
                InputRequest::Elicitation(request) => {
                    let question = Elicitation::new(server, &request.params);
                    next.questions.push_back((key, question));
                }
                InputRequest::ListRoots(_) => {
                    next.responses.insert(key, json!({ "roots": handler::roots(host.roots()) }));
                }
                _ => {
                    return Err(format!(
                        "MCP server `{server}` requested a model response, which is not supported"
                    ));
                }
            }
        }
        if next.questions.len() > MAX_QUESTIONS {
            return Err(format!("MCP server `{server}` asked more than {MAX_QUESTIONS} questions"));
        }
        Ok(next)
    }

    /// Answers the first question.
    pub(crate) fn reply(&mut self, reply: ElicitationReply) {
        if let Some((key, question)) = self.questions.pop_front() {
            self.responses.insert(key, question.to_result(reply));
        }
    }

    /// Makes the call wait until the first question is answered.
    pub(crate) fn to_pause(&self) -> Option<ToolPause> {
        let (_, question) = self.questions.front()?;
        let mut pause = ToolPause::ask(question.to_text());
        if let Some(schema) = &question.schema {
            pause = pause.with_schema(schema.clone());
        }
        Some(pause.with_resume(serde_json::to_value(self).ok()?))
    }
}
