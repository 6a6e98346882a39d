//! An agent as a tool: each call is a turn of a session.

use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::{
    AgentEvent, AnyTool, RequestKind, SideEffects, ToolCx, ToolError, ToolHandler, ToolOptions,
    ToolOutput, ToolPause,
    messages::{Message, ToolSpec},
};
use loopwright_mcp::{McpProgress, server_part};
use loopwright_sessions::{DecideShown, RequestAddress, SessionError, SessionId, ShownRequest};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::args::session::{ResumeArgs, SessionArgs};
use crate::args::{AgentArgs, Cli};
use crate::console;
use crate::conversation::{Conversation, UserInput};
use crate::display::chain;
use crate::ending::Interruption;
use crate::exit::ExitCode;
use crate::loops::maintenance_runtime;
use crate::render::{Renderer, UiEvent, UiSender, render_loop, single_line, summary};
use crate::report::Report;
use crate::selected_agent::AGENT;
use crate::sessions::UserDecision;
use crate::signals::CancelSwitch;
use crate::startup::Startup;

/// The most characters of a line of progress.
const LINE: usize = 120;

/// Makes the tool of an agent: a defined one, or the program's own.
pub(super) fn agent_tool(
    cli: &Cli,
    agent: &AgentArgs,
    session: &SessionArgs,
    definition: Option<&str>,
    about: &str,
) -> AnyTool {
    let name = definition.unwrap_or(AGENT);
    let spec = ToolSpec {
        name: format!("ask_{}", server_part(name)).into(),
        description: format!("Gives a task to the agent `{name}` and returns its answer. {about}")
            .into(),
        parameters: Arc::new(json!({
            "type": "object",
            "properties": {
                "prompt": {"type": "string", "description": "The task, with everything the agent \
                    needs to know."},
                "session_id": {
                    "type": "string",
                    "description": "Continues the session of an earlier call instead of starting a new one.",
                },
            },
            "required": ["prompt"],
            "additionalProperties": false,
        })),
    };
    let mut agent = agent.clone();
    agent.definition = definition.map(str::to_owned);
    let handler = AgentTool { cli: cli.clone(), agent, session: session.clone() };
    let options = ToolOptions { side_effects: SideEffects::AtMostOnce, ..ToolOptions::default() };
    AnyTool::dynamic(spec, options, Arc::new(handler))
}

struct AgentTool {
    cli: Cli,
    agent: AgentArgs,
    session: SessionArgs,
}

/// A renderer that tells what happens in lines of progress.
struct ProgressLines(mpsc::UnboundedSender<String>);

impl Renderer for ProgressLines {
    fn take(&mut self, note: &UiEvent) -> io::Result<()> {
        if let UiEvent::Event(_, AgentEvent::ToolCallStarted(it)) = note {
            let line = format!("{} {}", it.tool, summary(&it.arguments, LINE));
            // Nobody listens any more once the call has ended.
            self.0.send(single_line(line.trim_end(), LINE)).ok();
        }
        Ok(())
    }
}

impl AgentTool {
    async fn conversation(&self, id: Option<SessionId>) -> Result<Conversation, ToolError> {
        let mut agent = self.agent.clone();
        let mut session = self.session.clone();
        if id.is_some() {
            // A session keeps its agent.
            agent.definition = None;
        }
        session.origin = ResumeArgs { resume: id, ..ResumeArgs::default() };
        let failed = |text: String| ToolError::Failed(text.into());
        let startup = Startup::load(&self.cli, &agent, &session);
        let mut startup = startup.map_err(|it| failed(chain(&*it.error)))?;
        let conversation = startup.conversation(&self.cli, &agent, &session, "chat");
        Box::pin(conversation).await.map_err(|it| failed(chain(&*it.error)))
    }

    /// Takes a turn, reporting progress.
    async fn turn(
        conversation: &mut Conversation,
        message: Option<Message>,
        cx: &ToolCx<'_>,
    ) -> Result<Report, ToolError> {
        let (feed, notes) = UiSender::new();
        let (sender, mut lines) = mpsc::unbounded_channel();
        let shown = tokio::task::spawn_blocking(move || {
            render_loop(Box::new(ProgressLines(sender)), &notes, || {})
        });
        let brake = CancelSwitch::new();
        let said = UserInput { message, ..UserInput::default() };
        let mut done = 0.0;
        let turn = conversation.take_turn(&feed, &brake, said);
        tokio::pin!(turn);
        let mut is_cancelled = false;
        let report = loop {
            tokio::select! {
                report = &mut turn => break report,
                Some(line) = lines.recv() => {
                    done += 1.0;
                    cx.events.emit(|| McpProgress::new(&cx.call.name, done, line));
                }
                () = cx.cancel.cancelled(), if !is_cancelled => {
                    is_cancelled = true;
                    brake.cancel(Interruption::Interrupt);
                }
            }
        };
        let over = match &report {
            Ok(report) => report.clone(),
            Err(error) => Report::refused(error.exit_code(), error.stop_reason(), chain(error)),
        };
        feed.tell(UiEvent::Over(Box::new(over)));
        shown.await.ok();
        report.map_err(|error| ToolError::Failed(chain(&error).into()))
    }

    /// Records what the user has answered about the call that was shown. If it no longer waits as it was shown, nothing is
    /// recorded, and what waits now is asked next.
    async fn decide(conversation: &Conversation, cx: &ToolCx<'_>) -> Result<(), ToolError> {
        let Some(id) = &conversation.session else { return Ok(()) };
        let failed = |error: loopwright_sessions::SessionError| ToolError::Failed(error.into());
        let runtime = maintenance_runtime(&conversation.store);
        let session = runtime.session(id).await.map_err(failed)?;
        let shown = cx.resume_value().and_then(|it| it["request"].as_str());
        let shown: Option<RequestAddress> = shown.and_then(|it| it.parse().ok());
        let Some(asked) = shown.and_then(|it| it.find(&session).ok().flatten()) else {
            return Ok(());
        };
        let is_question = matches!(asked.kind, RequestKind::Question { .. });
        let answer = cx.answer().and_then(|it| it["answer"].as_str());
        let is_allowed = cx.answer().is_some_and(|it| it["allow"] == Value::Bool(true));
        let decision = match answer {
            Some(answer) if is_question => UserDecision::Reply(answer.to_owned()),
            _ if is_allowed && !is_question => UserDecision::Approve(None),
            _ => UserDecision::Deny(None),
        };
        let resolution = decision.of(Some(&asked), session.state());
        let request = ShownRequest::of(session.id(), session.state(), &asked);
        match runtime.execute(id, &DecideShown { request, resolution }).await {
            Ok(_) | Err(SessionError::Superseded { .. }) => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }
}

#[async_trait]
impl ToolHandler for AgentTool {
    async fn call(&self, arguments: Value, cx: &ToolCx<'_>) -> Result<ToolOutput, ToolError> {
        let given = cx.resume_value().and_then(|it| it["session_id"].as_str());
        let is_answered = given.is_some();
        let given = given.or_else(|| arguments["session_id"].as_str());
        let id = given.map(SessionId::new).transpose();
        let id = id.map_err(|error| ToolError::Failed(error.into()))?;
        let mut conversation = self.conversation(id).await?;
        let message = if is_answered {
            Self::decide(&conversation, cx).await?;
            None
        } else {
            arguments["prompt"].as_str().map(Message::user)
        };
        let report = Box::pin(Self::turn(&mut conversation, message, cx)).await?;
        let session = conversation.session.as_ref().map(ToString::to_string);
        if report.exit_code == ExitCode::NeedsInput
            && let Some(asked) = report.pending.first()
        {
            let text = format!("{}\n\n{} {}", asked.question, asked.tool, asked.arguments);
            let (name, field) = if asked.kind == "question" {
                ("answer", json!({"type": "string", "title": "Answer"}))
            } else {
                ("allow", json!({"type": "boolean", "title": "Allow this call"}))
            };
            let schema = json!({"type": "object", "properties": {name: field}, "required": [name]});
            let pause = ToolPause::ask(text).with_schema(schema);
            return Err(pause
                .with_resume(json!({"session_id": session, "request": asked.request}))
                .into());
        }
        if report.status == "failed" || report.text.is_empty() {
            let reason = report.remark.clone().or_else(|| report.errors.last().cloned());
            let reason = reason.unwrap_or_else(|| format!("no answer: {}", report.stop_reason));
            return Err(ToolError::Failed(reason.into()));
        }
        if let Some(remark) = &report.remark {
            console::tell(remark);
        }
        let mut output = ToolOutput::text(report.text.clone());
        output.value = Some(Arc::new(json!({
            "answer": report.text, "session_id": session, "stop_reason": report.stop_reason,
        })));
        Ok(output)
    }
}
