//! The steps of a remote task.
//!
//! The sub-agent that stands for a remote agent has no model. Its driver derives each step from the previous one: send the
//! message, follow the task, ask the user if the task needs input, send the answer, and so on. So the journal of the
//! sub-agent has the ID of the task, and a run that continues after a crash follows that task. With AG-UI, the call that
//! sends the message also waits for the answer.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_agent::{AgentBuilder, BuildError, UseDriver, UseTools};
use loopwright_core::{
    AgentLoop, AgentState, BoxError, Driver, Json, Key, SideEffects, Spend, StepError,
    StepResponse, ThinkCx, Tool, ToolCx, ToolError, ToolOptions, ToolPause,
    messages::{
        Content, FinishReason, Message, Part, Role, ToolCall, ToolExchange, ToolResult, TurnBody,
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    ag_ui::{self, Asked, RunAgent, Waiting},
    agent::RemoteProtocol,
    client::{Client, RemoteError},
    wire::{Sent, Task, TaskState},
};

/// The conversation with the remote agent that a message continues.
pub(super) const CONTEXT: Key<String> = Key::session("remote_agent", "context");

pub(super) const SEND: &str = "send_message";
const FOLLOW: &str = "follow_task";
const ASK: &str = "ask_user";
const CANCEL: &str = "cancel_task";

/// A task as the last call saw it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Progress {
    /// `None` if the remote agent answered without a task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) task: Option<String>,
    #[serde(default)]
    pub(super) context: String,
    pub(super) state: TaskState,
    #[serde(default)]
    pub(super) text: String,
    /// The questions of a run of AG-UI, which has no task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) waiting: Option<Waiting>,
}

impl Progress {
    /// Reads a task. What it consumed counts once it has ended.
    fn of(task: &Task, cx: &ToolCx<'_>) -> Self {
        if task.has_ended() {
            cx.meter.charge(task.spend());
            cx.add_spend(task.spend());
        }
        Self {
            task: Some(task.id.clone()),
            context: task.context_id.clone(),
            state: task.status.state,
            text: task.text(),
            waiting: None,
        }
    }

    /// Returns what the last call of a sub-agent saw, or the text of its error.
    pub(super) fn last(state: &AgentState) -> Result<Self, String> {
        let exchange = |it: &TurnBody| match it {
            TurnBody::ToolExchange(exchange) => Some(exchange.clone()),
            _ => None,
        };
        let turns = state.transcript();
        let last = turns.iter().rev().find_map(|it| exchange(it.body()));
        let Some(last) = last else { return Err("no message was sent".to_owned()) };
        match last.pairs().last() {
            Some((_, result)) if result.is_error => Err(result.to_text()),
            Some((_, result)) => {
                serde_json::from_str(&result.to_text()).map_err(|error| error.to_string())
            }
            None => Err("no message was sent".to_owned()),
        }
    }
}

/// Builds the sub-agent for a remote agent.
pub(super) fn agent(client: &Arc<Client>) -> Result<AgentLoop, BuildError> {
    let tools = UseTools::new().with_tool(AskUser);
    let tools = match client.agent.protocol {
        RemoteProtocol::A2a => tools
            .with_tool(SendMessage(Arc::clone(client)))
            .with_tool(FollowTask(Arc::clone(client)))
            .with_tool(CancelTask(Arc::clone(client))),
        RemoteProtocol::AgUi => tools.with_tool(RunAgent(Arc::clone(client))),
    };
    AgentBuilder::base().with(UseDriver::new(Steps)).with(tools).build()
}

/// Derives each step from the one before it.
struct Steps;

#[async_trait]
impl Driver for Steps {
    async fn think(
        &self,
        state: &AgentState,
        _cx: &ThinkCx<'_>,
    ) -> Result<StepResponse, StepError> {
        let last = state.transcript().last().map(|it| it.body().clone());
        let next = match last {
            Some(TurnBody::Input(message)) => {
                let context = state.get(&CONTEXT).unwrap_or_default();
                Next::Call(SEND, json!({ "text": message.text(), "context": context }))
            }
            Some(TurnBody::ToolExchange(exchange)) => {
                let answers = ag_ui::answers(&input(state), &exchange);
                answers.map_or_else(|| after(&exchange), |it| Next::Call(SEND, it))
            }
            Some(TurnBody::Reply(_)) | None => Next::Answer(String::new()),
        };
        Ok(next.into_response(state.total_steps()))
    }

    fn name(&self) -> &'static str {
        "remote_agent"
    }
}

/// Returns the message that the caller sent.
fn input(state: &AgentState) -> String {
    let text = |it: &TurnBody| match it {
        TurnBody::Input(message) => Some(message.text()),
        _ => None,
    };
    state.transcript().iter().find_map(|it| text(it.body())).unwrap_or_default()
}

enum Next {
    Call(&'static str, Value),
    /// Asks the user several questions at once.
    Ask(Vec<Value>),
    Answer(String),
}

impl Next {
    fn into_response(self, steps: u64) -> StepResponse {
        let call = |id: String, name, arguments: Value| {
            Part::new(Content::ToolCall(ToolCall::new(id, name, arguments.to_string())))
        };
        let (message, finish_reason) = match self {
            Self::Call(name, arguments) => {
                let part = call(format!("call_{steps}"), name, arguments);
                (Message::new(Role::Assistant, [part]), FinishReason::ToolCalls)
            }
            Self::Ask(questions) => {
                let questions = (0..).zip(questions);
                let ask = |(number, it): (u32, _)| call(format!("call_{steps}_{number}"), ASK, it);
                (Message::new(Role::Assistant, questions.map(ask)), FinishReason::ToolCalls)
            }
            Self::Answer(text) => (Message::assistant(text), FinishReason::Stop),
        };
        StepResponse { message, finish_reason, spend: Spend::default(), answered_by: None }
    }
}

fn after(exchange: &ToolExchange) -> Next {
    match exchange.pairs().last() {
        Some((call, result)) if &*call.name == ASK => after_question(call, result),
        Some((_, result)) if !result.is_error => {
            match serde_json::from_str::<Progress>(&result.to_text()) {
                Ok(progress) => after_progress(progress),
                Err(error) => Next::Answer(error.to_string()),
            }
        }
        Some((_, result)) => Next::Answer(result.to_text()),
        None => Next::Answer(String::new()),
    }
}

fn after_progress(progress: Progress) -> Next {
    if let Some(waiting) = progress.waiting {
        return Next::Ask(ag_ui::questions(waiting, &progress.context));
    }
    let Some(task) = progress.task else { return Next::Answer(progress.text) };
    match progress.state {
        TaskState::Working => Next::Call(FOLLOW, json!({ "task": task })),
        TaskState::InputRequired | TaskState::AuthRequired => {
            let (question, context) = (progress.text, progress.context);
            Next::Call(ASK, json!({ "question": question, "task": task, "context": context }))
        }
        TaskState::Completed | TaskState::Failed | TaskState::Canceled | TaskState::Rejected => {
            Next::Answer(progress.text)
        }
    }
}

/// The answer goes to the task that asked. Without one, the task is cancelled.
fn after_question(call: &ToolCall, result: &ToolResult) -> Next {
    let asked = call.parse_arguments().unwrap_or_default();
    if result.is_error {
        return Next::Call(CANCEL, json!({ "task": asked["task"], "reason": result.to_text() }));
    }
    let text = result.to_text();
    Next::Call(SEND, json!({ "text": text, "task": asked["task"], "context": asked["context"] }))
}

/// Sends a message. If the call is interrupted, it is unknown whether the remote agent has it.
struct SendMessage(Arc<Client>);

#[derive(Deserialize, JsonSchema)]
struct SendArgs {
    text: String,
    #[serde(default)]
    task: String,
    #[serde(default)]
    context: String,
}

impl Tool for SendMessage {
    type Args = SendArgs;
    type Output = Json<Progress>;
    type Error = BoxError;

    fn name(&self) -> &'static str {
        SEND
    }

    fn description(&self) -> &'static str {
        "Sends a message to the remote agent."
    }

    async fn call(&self, args: SendArgs, cx: &ToolCx<'_>) -> Result<Self::Output, BoxError> {
        let mut message = json!({
            // The same for all attempts, so that a server can recognize a repeated message.
            "messageId": cx.key.to_string(), "role": "ROLE_USER", "parts": [{ "text": args.text }],
        });
        for (field, value) in [("taskId", args.task), ("contextId", args.context)] {
            if !value.is_empty() {
                message[field] = value.into();
            }
        }
        let sent = self.0.send(message).await.map_err(|error| failed(&error))?;
        Ok(Json(match sent {
            Sent::Task(task) => Progress::of(&task, cx),
            Sent::Message(message) => Progress {
                task: None,
                context: message.context_id.clone(),
                state: TaskState::Completed,
                text: message.text(),
                waiting: None,
            },
        }))
    }
}

pub(super) fn failed(error: &RemoteError) -> String {
    let note = if error.may_have_arrived() {
        "; the message may have arrived: check before you send it again"
    } else {
        ""
    };
    format!("{error}{note}")
}

/// Follows a task until it has ended or needs input. Cancels it if the run is cancelled.
struct FollowTask(Arc<Client>);

#[derive(Deserialize, JsonSchema)]
struct TaskArgs {
    task: String,
}

impl Tool for FollowTask {
    type Args = TaskArgs;
    type Output = Json<Progress>;
    type Error = BoxError;

    fn name(&self) -> &'static str {
        FOLLOW
    }

    fn description(&self) -> &'static str {
        "Waits for a task of the remote agent."
    }

    fn options(&self) -> ToolOptions {
        ToolOptions { side_effects: SideEffects::ReadOnly, ..ToolOptions::default() }
    }

    async fn call(&self, args: TaskArgs, cx: &ToolCx<'_>) -> Result<Self::Output, BoxError> {
        let (client, time) = (&self.0, self.0.policy.timeout);
        let ended = tokio::select! {
            biased;
            () = cx.cancel.cancelled() => None,
            ended = timeout(time, client.wait(&args.task)) => Some(ended),
        };
        match ended {
            Some(Ok(task)) => Ok(Json(Progress::of(&task?, cx))),
            Some(Err(_)) => {
                let cancelled = client.cancel(&args.task).await;
                let note = if cancelled.is_ok() { "it was cancelled" } else { "it may continue" };
                Err(format!("the task took longer than {} s; {note}", time.as_secs()).into())
            }
            None => {
                let cancelled = timeout(cx.grace / 2, client.cancel(&args.task)).await;
                let is_known = matches!(cancelled, Ok(Ok(_)));
                let note = if is_known { "was cancelled" } else { "may continue" };
                Err(format!("the run is being cancelled; the task {note}").into())
            }
        }
    }
}

/// Asks the user what the remote agent asks.
struct AskUser;

#[derive(Deserialize, JsonSchema)]
struct AskArgs {
    question: String,
    #[serde(default)]
    #[expect(dead_code, reason = "the driver reads it from the call")]
    task: String,
    #[serde(default)]
    #[expect(dead_code, reason = "the driver reads it from the call")]
    context: String,
    /// The question of a run of AG-UI, whose answer stays JSON.
    #[serde(default)]
    asked: Option<Asked>,
}

impl Tool for AskUser {
    type Args = AskArgs;
    type Output = String;
    type Error = ToolError;

    fn name(&self) -> &'static str {
        ASK
    }

    fn description(&self) -> &'static str {
        "Passes a question from the remote agent on to the user."
    }

    fn options(&self) -> ToolOptions {
        ToolOptions { side_effects: SideEffects::ReadOnly, ..ToolOptions::default() }
    }

    async fn call(&self, args: AskArgs, cx: &ToolCx<'_>) -> Result<String, ToolError> {
        match cx.answer() {
            Some(Value::String(text)) if args.asked.is_none() => Ok(text.clone()),
            Some(answer) => Ok(answer.to_string()),
            None => {
                let question = match args.question.trim() {
                    "" => "The remote agent needs input.",
                    question => question,
                };
                let schema = args.asked.map(Asked::into_schema);
                let schema = schema.unwrap_or_else(|| json!({ "type": "string" }));
                Err(ToolPause::ask(question).with_schema(schema).into())
            }
        }
    }
}

/// Cancels a task whose question was not answered.
struct CancelTask(Arc<Client>);

#[derive(Deserialize, JsonSchema)]
struct CancelArgs {
    task: String,
    reason: String,
}

impl Tool for CancelTask {
    type Args = CancelArgs;
    type Output = String;
    type Error = BoxError;

    fn name(&self) -> &'static str {
        CANCEL
    }

    fn description(&self) -> &'static str {
        "Cancels a task of the remote agent."
    }

    fn options(&self) -> ToolOptions {
        ToolOptions { side_effects: SideEffects::Idempotent, ..ToolOptions::default() }
    }

    async fn call(&self, args: CancelArgs, _cx: &ToolCx<'_>) -> Result<String, BoxError> {
        let cancelled = self.0.cancel(&args.task).await;
        let note = if cancelled.is_ok() { "was cancelled" } else { "may continue" };
        // The answer of the sub-agent is the reason why it has none.
        Err(format!("{}; the task {note}", args.reason).into())
    }
}
