//! An agent as a tool: each call is a run of a session.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::{
    AnyTool, SideEffects, ToolCx, ToolError, ToolHandler, ToolOptions, ToolOutput, ToolPause,
    messages::ToolSpec,
};
use loopwright_mcp::{McpProgress, server_part};
use loopwright_sessions::{ControlMessage, JobRecord, SessionHeader, SessionId};
use serde_json::{Value, json};

use crate::{
    agents::AgentInfo,
    extract::own_session,
    principal::{Principal, Role},
    problem::Problem,
    projections::run::{RunEvent, RunFollower, RunOutcome, last_event},
    routes::{
        messages::{MessageMode, last_run, say},
        pending::{DecisionBody, decided},
        sessions::{NewSessionBody, begin},
    },
    server::Server,
    views::{PendingKind, PendingView},
};

/// Makes the tool of an agent.
pub(super) fn agent_tool(server: &Server, principal: &Principal, agent: &AgentInfo) -> AnyTool {
    let (name, about) = (&agent.name, &agent.description);
    let spec = ToolSpec {
        name: format!("ask_{}", server_part(name)).into(),
        description: format!("Asks the agent `{name}` and returns its answer. {about}").into(),
        parameters: Arc::new(json!({
            "type": "object",
            "properties": {
                "prompt": {"type": "string", "description": "The task, with everything the agent needs to know."},
                "session_id": {
                    "type": "string",
                    "description": "Continues the session of an earlier call instead of starting a new one.",
                },
            },
            "required": ["prompt"],
            "additionalProperties": false,
        })),
    };
    let options = ToolOptions { side_effects: SideEffects::AtMostOnce, ..ToolOptions::default() };
    let (server, principal, agent) = (server.clone(), principal.clone(), name.clone());
    AnyTool::dynamic(spec, options, Arc::new(AgentTool { server, principal, agent }))
}

struct AgentTool {
    server: Server,
    principal: Principal,
    agent: String,
}

/// A run that answers a call.
struct Run {
    session: SessionId,
    record: JobRecord,
    /// The last event before it.
    after: u64,
}

/// What a call does next.
enum Next {
    Follow(Run),
    Ask(SessionId, PendingView),
}

impl AgentTool {
    async fn session(&self, id: &str) -> Result<SessionHeader, Problem> {
        let id = SessionId::new(id).map_err(|_| Problem::unknown_session())?;
        own_session(&**self.server.store(), &self.principal, id).await
    }

    /// Says the prompt, in a new session or in that of an earlier call.
    async fn begin(&self, arguments: &Value) -> Result<Next, Problem> {
        let header = if let Some(id) = arguments["session_id"].as_str() {
            self.session(id).await?
        } else {
            let new = NewSessionBody { agent: Some(self.agent.clone()), title: None };
            begin(&self.server, &self.principal, None, new).await?.0.header().clone()
        };
        let after = last_event(&**self.server.store(), &header.id).await?;
        let prompt = arguments["prompt"].as_str().unwrap_or_default().to_owned();
        let said = say(&self.server, &header, None, prompt, MessageMode::Reject).await?;
        Ok(Next::Follow(Run { session: header.id, record: said.0, after }))
    }

    /// Records the answer about the call that was asked about, and asks about the next one, or continues.
    async fn decide(&self, resumed: &Value, answer: Option<&Value>) -> Result<Next, Problem> {
        let header = self.session(resumed["session_id"].as_str().unwrap_or_default()).await?;
        let after = last_event(&**self.server.store(), &header.id).await?;
        let call = resumed["call"].as_str().unwrap_or_default();
        let is_question = resumed["is_question"] == Value::Bool(true);
        let body = match answer {
            Some(answer) if is_question => DecisionBody::Answer { answer: answer.clone() },
            Some(answer) if answer["allow"] == Value::Bool(true) => {
                DecisionBody::Approve { arguments: None, keep: None }
            }
            _ => DecisionBody::Deny { reason: None, keep: None },
        };
        let session = decided(&self.server, &header, call, body).await?;
        if let Some(asked) = PendingView::list(&session).into_iter().next() {
            return Ok(Next::Ask(header.id, asked));
        }
        let record = last_run(&self.server, &header.id).await?;
        Ok(Next::Follow(Run { session: header.id, record, after }))
    }

    /// Follows a run to its end, and reports what it does.
    async fn follow(&self, run: Run, cx: &ToolCx<'_>) -> Result<ToolOutput, ToolError> {
        let mut follower =
            RunFollower::of(&self.server, &run.record, run.after).await.map_err(failed)?;
        let (mut text, mut done, mut is_cancelled) = (String::new(), 0.0, false);
        let outcome = loop {
            let event = tokio::select! {
                event = follower.next() => event,
                () = cx.cancel.cancelled(), if !is_cancelled => {
                    is_cancelled = true;
                    let cancel = self.server.store().send_control(&run.session, &ControlMessage::Cancel);
                    cancel.await.map_err(|it| failed(it.into()))?;
                    continue;
                }
            };
            match event {
                Some(RunEvent::StepStarted(_)) => text.clear(),
                Some(RunEvent::Text(fragment)) => text.push_str(&fragment),
                Some(RunEvent::ToolStarted { name, arguments, .. }) => {
                    done += 1.0;
                    let line = format!("{name} {arguments}");
                    cx.events.emit(|| McpProgress::new(&cx.call.name, done, line.trim_end()));
                }
                Some(RunEvent::Ended(end)) => break end.outcome,
                Some(_) => {}
                None => break RunOutcome::Failed("the run ended without a result".to_owned()),
            }
        };
        let session = run.session;
        match outcome {
            RunOutcome::Completed => {
                let mut output = ToolOutput::text(text.clone());
                let value = json!({ "answer": text, "session_id": session.as_str() });
                output.value = Some(Arc::new(value));
                Ok(output)
            }
            RunOutcome::NeedsInput(pending) => match pending.into_iter().next() {
                Some(asked) => Err(self.ask(&session, &asked)),
                None => Err(refused(format!("session {session} needs input"))),
            },
            RunOutcome::Stopped(reason) | RunOutcome::Failed(reason) => {
                Err(refused(format!("{reason}; continue with `session_id` {session}")))
            }
        }
    }

    /// Makes the call wait until the client's user has decided, if its principal may decide.
    fn ask(&self, session: &SessionId, asked: &PendingView) -> ToolError {
        if self.principal.role() < Role::Approve {
            return refused(format!(
                "session {session} is waiting for an approval, which requires role `approve`"
            ));
        }
        let text = format!("{}\n\n{} {}", asked.question, asked.tool, asked.arguments);
        let is_question = asked.kind == PendingKind::Answer;
        let resume = json!({
            "session_id": session.as_str(), "call": asked.request, "is_question": is_question,
        });
        let pause = if is_question {
            let pause = ToolPause::ask(asked.question.clone());
            match &asked.schema {
                Some(schema) => pause.with_schema(schema.clone()),
                None => pause,
            }
        } else {
            let allow = json!({"type": "boolean", "title": "Allow this call"});
            ToolPause::ask(text).with_schema(json!({
                "type": "object", "properties": {"allow": allow}, "required": ["allow"],
            }))
        };
        pause.with_resume(resume).into()
    }
}

fn refused(text: String) -> ToolError {
    ToolError::Failed(text.into())
}

#[expect(clippy::needless_pass_by_value, reason = "a function for `map_err`")]
fn failed(problem: Problem) -> ToolError {
    refused(problem.text().to_owned())
}

#[async_trait]
impl ToolHandler for AgentTool {
    async fn call(&self, arguments: Value, cx: &ToolCx<'_>) -> Result<ToolOutput, ToolError> {
        let next = match cx.resume_value() {
            Some(resumed) => self.decide(resumed, cx.answer()).await,
            None => Box::pin(self.begin(&arguments)).await,
        };
        match next.map_err(failed)? {
            Next::Follow(run) => self.follow(run, cx).await,
            Next::Ask(session, asked) => Err(self.ask(&session, &asked)),
        }
    }
}
