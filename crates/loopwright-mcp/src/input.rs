//! User input that a server needs before it can finish a call.

use std::collections::{BTreeMap, VecDeque};

use loopwright_core::ToolPause;
use rmcp::model::{InputRequest, InputRequests};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::elicitation::{Elicitation, ElicitationReply};
use crate::handler;
use crate::launch::McpHost;
use crate::sampling::{SamplingRequest, WITHOUT_MODEL};

/// Rounds of questions within one call.
pub(crate) const MAX_ROUNDS: usize = 10;

/// Questions of one round.
const MAX_QUESTIONS: usize = 16;

/// A question of a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Question {
    /// To the user.
    Elicitation(Elicitation),
    /// To a model, about which the user decides.
    Sampling(SamplingRequest),
}

impl Question {
    /// Makes a call wait for the user's answer.
    pub(crate) fn to_pause(&self) -> ToolPause {
        let pause = match self {
            Self::Elicitation(question) => {
                let pause = ToolPause::ask(question.to_text());
                match &question.schema {
                    Some(schema) => pause.with_schema(schema.clone()),
                    None => pause,
                }
            }
            Self::Sampling(request) => ToolPause::ask(request.to_text())
                .with_schema(json!({ "type": "string", "enum": ["yes", "no"] })),
        };
        // The server is told what the user decided, and its tool continues.
        pause.with_refusals()
    }
}

/// What a call that waits for the user keeps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kept {
    /// The server has ended the request; another process can send the answers.
    Round(InputRound),
    /// The server waits in the same connection.
    Held(Question),
}

/// What is answered so far, and what is not. Revision 2026-07-28 has such rounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct InputRound {
    #[serde(default)]
    pub(crate) round: usize,
    /// Sent back as it was received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) request_state: Option<String>,
    /// The task that needs the answers; without it, the request is sent again with them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) task: Option<String>,
    #[serde(default)]
    pub(crate) responses: BTreeMap<String, Value>,
    #[serde(default)]
    pub(crate) questions: VecDeque<(String, Question)>,
}

impl InputRound {
    /// Answers what needs no user.
    pub(crate) fn new(
        round: usize,
        requests: Option<InputRequests>,
        server: &str,
        host: &McpHost,
    ) -> Result<Self, String> {
        if round >= MAX_ROUNDS {
            return Err(format!(
                "MCP server `{server}` requested input too many times; the call was abandoned"
            ));
        }
        let mut next = Self { round: round + 1, ..Self::default() };
        for (key, request) in requests.into_iter().flatten() {
            match request {
                InputRequest::Elicitation(request) => {
                    let question = Elicitation::new(server, &request.params);
                    next.questions.push_back((key, Question::Elicitation(question)));
                }
                InputRequest::ListRoots(_) => {
                    next.responses.insert(key, json!({ "roots": handler::roots(host.roots()) }));
                }
                InputRequest::CreateMessage(request) => {
                    let params = serde_json::to_value(&request.params).unwrap_or_default();
                    let question = SamplingRequest::new(server, params)?;
                    next.questions.push_back((key, Question::Sampling(question)));
                }
                _ => {
                    return Err(format!("MCP server `{server}` sent an unsupported request"));
                }
            }
        }
        if next.questions.len() > MAX_QUESTIONS {
            return Err(format!("MCP server `{server}` asked more than {MAX_QUESTIONS} questions"));
        }
        Ok(next)
    }

    /// Returns the first question that has no answer.
    pub(crate) fn question(&self) -> Option<&Question> {
        Some(&self.questions.front()?.1)
    }

    /// Answers the first question.
    pub(crate) fn reply(&mut self, response: Value) {
        if let Some((key, _)) = self.questions.pop_front() {
            self.responses.insert(key, response);
        }
    }

    /// Answers all questions to the user as the host says, and declines them if the host has no answers. Returns an error
    /// if the server asks for a model, which only calls of agents have.
    pub(crate) async fn answer_without_agent(&mut self, host: &McpHost) -> Result<(), String> {
        while let Some((key, question)) = self.questions.pop_front() {
            let Question::Elicitation(question) = question else {
                return Err(WITHOUT_MODEL.to_owned());
            };
            let reply = match host.answers() {
                Some(answers) => answers.answer(&question).await,
                None => ElicitationReply::Decline,
            };
            self.responses.insert(key, question.to_result(reply));
        }
        Ok(())
    }
}
