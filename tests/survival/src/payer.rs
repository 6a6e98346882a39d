//! An agent that pays: it asks before most payments, one of them two sub-agents deep.

use std::{fmt, sync::Arc};

use loopwright_agent::{AgentDefinition, AgentLoopExt as _, BuildError, LoopFactory};
use loopwright_capabilities::child::{ChildAgent, ChildError};
use loopwright_core::{
    AgentLoop, AgentState, ApprovalRequest, BoxError, CallableHook, Clock as _, Interceptor,
    SideEffects, ToolCx, ToolDecision, ToolError, ToolOptions, ToolOutput,
    messages::{InferenceRequest, TurnBody},
};
use loopwright_sessions::{
    ContinueRun, DecideCall, SendMessage, SessionError, SessionFactory, SessionId, SessionRuntime,
};
use loopwright_testing::{FakeModel, MockTool, ScenarioStep};
use serde_json::{Value, json};

use crate::{clock::SlowClock, task::Visit};

/// The sum that is paid without a question.
pub const FREE: u64 = 2;

/// An agent that pays, and what a payment does.
#[derive(Clone)]
pub struct Payer(Arc<dyn Fn(u64) + Send + Sync>);

impl fmt::Debug for Payer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Payer").finish_non_exhaustive()
    }
}

impl Payer {
    /// Makes an agent whose payments do this.
    pub fn new(pay: impl Fn(u64) + Send + Sync + 'static) -> Self {
        Self(Arc::new(pay))
    }
}

/// Asks about every payment but the free one.
fn asks() -> CallableHook {
    CallableHook::new("asks").before_tool(|call, _state, _cx| {
        let is_free = &*call.name != "pay" || call.arguments.contains(&FREE.to_string());
        let ask = || ApprovalRequest::new("pay?", "asks");
        Ok(if is_free { ToolDecision::Run } else { ToolDecision::Ask(ask()) })
    })
}

impl LoopFactory for Payer {
    fn instantiate(&self, _: &AgentDefinition) -> Result<AgentLoop, BuildError> {
        let payer = Arc::clone(&self.0);
        let pay = MockTool::new("pay", "", move |arguments: Value| {
            payer(arguments["sum"].as_u64().unwrap_or_default());
            Ok::<_, BoxError>("paid")
        });
        let options =
            ToolOptions { side_effects: SideEffects::AtMostOnce, ..ToolOptions::default() };
        let agent = AgentLoop::simple(FakeModel::from_fn(|request| answer(request).to_response()))
            .with_tool(spawning("outer", "helper"))
            .with_tool(spawning("inner", "payer"))
            .with_tool(pay.with_options(options));
        Ok(agent.with_interceptor(Interceptor::from_hook(Arc::new(asks()))))
    }
}

/// Answers as a function of what an agent was asked and has done: asked again, it answers the same.
fn answer(request: &InferenceRequest) -> ScenarioStep {
    let said = request.prompt.stable().next().map(|it| it.message().text()).unwrap_or_default();
    let turns = request.prompt.turns.iter();
    let calls = turns.filter(|it| matches!(it.body(), TurnBody::ToolExchange(_))).count();
    match (said.as_str(), calls) {
        ("go", 0) => ScenarioStep::tool_calls([
            ("outer", json!({})),
            ("pay", json!({ "sum": 1 })),
            ("pay", json!({ "sum": 2 })),
        ]),
        ("outer", 0) => ScenarioStep::tool_call("inner", json!({})),
        ("inner", 0) => ScenarioStep::tool_call("pay", json!({ "sum": 0 })),
        (said, _) => ScenarioStep::final_answer(format!("{said} is done")),
    }
}

fn spawning(tool: &'static str, child: &'static str) -> MockTool {
    let spawn = MockTool::with_cx(tool, "", move |_, cx| Box::pin(spawn(tool, child, cx)));
    let side_effects = SideEffects::Resumable;
    spawn.with_options(ToolOptions { side_effects, ..ToolOptions::default() })
}

async fn spawn(
    tool: &'static str,
    child: &'static str,
    cx: &ToolCx<'_>,
) -> Result<ToolOutput, ToolError> {
    let ended = ChildAgent::of(cx, child).run(tool, |state| state.with_user_message(tool)).await;
    let ended = ended.map_err(ChildError::into_tool_error)?;
    let answer = ended.answer().map_err(ChildError::into_tool_error)?;
    Ok(ended.to_output(answer.to_text()))
}

/// Does one thing with a session of the agent.
///
/// # Errors
///
/// If the session cannot be created, continued or decided about.
pub async fn visit(
    runtime: &SessionRuntime,
    id: &SessionId,
    visit: &Visit,
) -> Result<(), SessionError> {
    match visit {
        Visit::Create => {
            let definition = AgentDefinition::new("payer", "pays", "You pay.");
            let now = SlowClock::default().now();
            let session =
                SessionFactory::new().create_from(definition, AgentState::new(), id.clone(), now);
            runtime.create(session).await?;
        }
        Visit::Send => {
            runtime.execute(id, &SendMessage::text("go")).await?;
        }
        Visit::Decide { address, decision } => {
            let decide = DecideCall { path: Some(address.clone()), resolution: decision.clone() };
            runtime.execute(id, &decide).await?;
        }
        Visit::Continue => {
            runtime.execute(id, &ContinueRun).await?;
        }
    }
    Ok(())
}
