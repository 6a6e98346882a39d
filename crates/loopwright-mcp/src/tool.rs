//! A tool of a server as a tool of an agent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use loopwright_capabilities::llm_query::{agent_model, as_model_takes};
use loopwright_capabilities::questions::OnQuestion;
use loopwright_core::{
    AnyTool, IdempotencyKey, QuestionRefusal, SideEffects, StepError, StopSignal, ToolCx,
    ToolError, ToolHandler, ToolOptions, ToolOutput, ToolVisibility, messages::ToolSpec,
};
use rmcp::model::CallToolRequestParams;
use serde_json::Value;

use crate::call::{Answer, CallEnd, CallFailure, CallHost, ToolCallRun};
use crate::client::McpClient;
use crate::config::ServerSampling;
use crate::connection::ConnectionInfo;
use crate::content;
use crate::elicitation::ElicitationReply;
use crate::event::{McpLog, McpProgress, McpServerConnected};
use crate::input::{Kept, Question};
use crate::listeners::Report;
use crate::sampling::SamplingRequest;
use crate::text;
use crate::tools::ListedTool;

/// Why a request for a model is refused.
const NOT_ALLOWED: &str = "the user does not allow this server to use the model";

/// Makes the tool of an agent.
pub(crate) fn tool(
    client: &McpClient,
    name: String,
    listed: &ListedTool,
    visibility: ToolVisibility,
    on_question: OnQuestion,
    announced: &Arc<AtomicU64>,
) -> AnyTool {
    let server = client.server();
    let side_effects = match listed.hints {
        hints if server.trust_annotations && hints.read_only => SideEffects::ReadOnly,
        hints if server.trust_annotations && hints.idempotent => SideEffects::Idempotent,
        _ => SideEffects::AtMostOnce,
    };
    let options = ToolOptions {
        side_effects,
        namespace: Some(server.name.as_str().into()),
        visibility,
        ..ToolOptions::default()
    };
    let spec = ToolSpec {
        name: name.into(),
        description: listed.description.as_str().into(),
        parameters: Arc::clone(&listed.input_schema),
    };
    let handler = Handler {
        client: client.clone(),
        tool: listed.name.clone(),
        output_schema: listed.output_schema.clone(),
        on_question,
        announced: Arc::clone(announced),
    };
    AnyTool::dynamic(spec, options, Arc::new(handler))
}

struct Handler {
    client: McpClient,
    tool: String,
    output_schema: Option<Arc<Value>>,
    on_question: OnQuestion,
    /// The start of the server that listeners know of.
    announced: Arc<AtomicU64>,
}

#[async_trait]
impl ToolHandler for Handler {
    async fn call(&self, arguments: Value, cx: &ToolCx<'_>) -> Result<ToolOutput, ToolError> {
        let mut params = CallToolRequestParams::new(self.tool.clone());
        if let Value::Object(arguments) = arguments {
            params = params.with_arguments(arguments);
        }
        self.client.0.held.end_before(cx.key);
        let host = AgentCall { handler: self, cx };
        let run = ToolCallRun::new(&self.client, &host, cx.cancel, params);
        let ended = match cx.resume_value() {
            None => run.start().await,
            Some(kept) => {
                let kept: Kept = serde_json::from_value(kept.clone())
                    .map_err(|error| ToolError::Failed(error.into()))?;
                let answer = host.decided(&kept).await;
                run.resume(kept, answer).await
            }
        };
        match ended {
            Ok(CallEnd::Done(result)) => {
                let output = content::output(result, self.output_schema.as_deref());
                let mut output = output.map_err(|message| ToolError::Failed(message.into()))?;
                if output.content.iter().any(|it| it.as_text().is_none()) {
                    let parts = output.content.to_vec();
                    output.content = as_model_takes(parts, cx.state, cx.agent).into();
                }
                Ok(output)
            }
            Ok(CallEnd::Paused(paused)) => {
                let (kept, pause) = *paused;
                let kept = serde_json::to_value(&kept);
                let kept = kept.map_err(|error| ToolError::Failed(error.into()))?;
                Err(pause.with_resume(kept).into())
            }
            Err(CallFailure::Server(error)) => Err(ToolError::Failed(error.into())),
            Err(CallFailure::Stop(signal)) => Err(ToolError::Stop(signal)),
        }
    }
}

/// A call of an agent.
struct AgentCall<'a> {
    handler: &'a Handler,
    cx: &'a ToolCx<'a>,
}

impl AgentCall<'_> {
    /// Returns the answer to the question that the call has waited for.
    async fn decided(&self, kept: &Kept) -> Answer {
        let answer = self.cx.answer().cloned().unwrap_or_default();
        let question = match kept {
            Kept::Round(round) => round.question(),
            Kept::Held(question) => Some(question),
        };
        match question {
            Some(Question::Elicitation(question)) => {
                Answer::Now(question.to_result(match (self.cx.refusal(), answer) {
                    (Some(QuestionRefusal::Cancelled), _) => ElicitationReply::Cancel,
                    (Some(_), _) | (None, Value::Bool(false)) => ElicitationReply::Decline,
                    (None, answer) => ElicitationReply::Accept(answer),
                }))
            }
            Some(Question::Sampling(request)) if is_yes(&answer) => self.sample(request).await,
            Some(Question::Sampling(_)) => Answer::Refused(NOT_ALLOWED.to_owned()),
            None => Answer::Later,
        }
    }

    /// Asks the model of the agent, on the account of the run.
    async fn sample(&self, request: &SamplingRequest) -> Answer {
        let asked = request.to_inference().and_then(|inference| {
            let model = agent_model(self.cx.state, self.cx.agent);
            model.map(|(model, llm)| (inference, model, llm)).map_err(|error| error.to_string())
        });
        let (mut inference, model, llm) = match asked {
            Ok(asked) => asked,
            Err(reason) => return Answer::Refused(reason),
        };
        inference.model.clone_from(&llm.model);
        match self.cx.infer(&*model, inference).await {
            Ok(response) => {
                Answer::Now(SamplingRequest::to_result(&response, llm.model.as_deref()))
            }
            // A limit that is reached here is the limit of the run.
            Err(StepError::Stopped(signal)) => Answer::Stop(signal),
            Err(error) => Answer::Refused(text::line(&text::chain(&error))),
        }
    }

    /// What a question does that the user has to answer.
    fn without_answer(&self, question: &Question) -> Answer {
        match (self.handler.on_question, question) {
            (OnQuestion::Decline, Question::Elicitation(question)) => {
                Answer::Now(question.to_result(ElicitationReply::Decline))
            }
            (OnQuestion::Decline, Question::Sampling(request)) => Answer::Refused(format!(
                "no user is present to allow the request; set `sampling = \"allow\"` for MCP server `{}`",
                request.server
            )),
            (OnQuestion::Stop, question) => {
                let reason = format!("`{}` needs an answer", self.cx.call.name);
                let asked = question.to_pause().requests.into_iter().next();
                let asked = asked.map(|it| it.question().text.clone()).unwrap_or_default();
                let signal = StopSignal::requested("mcp", format!("{reason} ({asked})"));
                Answer::Stop(signal.with_denied_call(self.cx.call))
            }
            _ => Answer::Later,
        }
    }
}

#[async_trait]
impl CallHost for AgentCall<'_> {
    fn key(&self) -> Option<&IdempotencyKey> {
        Some(self.cx.key)
    }

    fn report(&self, report: Report) {
        let server = &self.handler.client.server().name;
        match report {
            Report::Progress(progress) => self.cx.events.emit(|| McpProgress {
                server: server.clone(),
                tool: self.cx.call.name.to_string(),
                call_id: self.cx.call.id.as_deref().map(ToOwned::to_owned),
                progress: progress.done,
                total: progress.total,
                message: progress.message.as_deref().map(text::line),
            }),
            Report::Log { level, message } => self.cx.events.emit(|| McpLog {
                server: server.clone(),
                level,
                message: text::line(&message),
            }),
        }
    }

    fn connected(&self, info: &ConnectionInfo) {
        let start = self.handler.client.status().starts;
        if self.handler.announced.swap(start, Ordering::AcqRel) != start {
            let server = self.handler.client.server();
            self.cx.events.emit(|| McpServerConnected {
                server: server.name.clone(),
                protocol: info.protocol.clone(),
                implementation: info.implementation.clone(),
                is_confined: server.is_confined(),
            });
        }
    }

    async fn answer(&self, question: &Question) -> Answer {
        match question {
            Question::Elicitation(question) => {
                if let Some(answers) = self.handler.client.0.host.answers() {
                    return Answer::Now(question.to_result(answers.answer(question).await));
                }
            }
            Question::Sampling(request) => match self.handler.client.server().sampling {
                ServerSampling::Allow => return self.sample(request).await,
                ServerSampling::Deny => return Answer::Refused(NOT_ALLOWED.to_owned()),
                ServerSampling::Ask => {}
            },
        }
        self.without_answer(question)
    }
}

/// Returns `true` if the user allows a request.
fn is_yes(decision: &Value) -> bool {
    match decision {
        Value::Bool(is_allowed) => *is_allowed,
        Value::String(word) => word.eq_ignore_ascii_case("yes"),
        _ => false,
    }
}
