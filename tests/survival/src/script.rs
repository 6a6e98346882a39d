//! The scripted agent: a model in process, and one tool of each kind.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use loopwright_agent::{AgentDefinition, BuildError, LoopFactory};
use loopwright_core::{
    AgentLoop, ChatModel, FnTool, InferCx, ModelError, NoArgs, SideEffects, ToolOptions,
    messages::{InferenceRequest, InferenceResponse},
    tool_fn_with,
};
use loopwright_testing::{ModelDriver, ScenarioStep, test_loop};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::ledger::{Entry, Ledger};

/// What the agent answers in the end.
pub const ANSWER: &str = "done";

/// Kinds of tools, by what may be done about a call that was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// It only looks.
    Pure,
    /// It does the same however often it runs.
    Idempotent,
    /// It must not run twice.
    Once,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Pure, Self::Idempotent, Self::Once];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pure => "look",
            Self::Idempotent => "put",
            Self::Once => "pay",
        }
    }

    /// Returns the kind of a tool.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    fn effects(self) -> SideEffects {
        match self {
            Self::Pure => SideEffects::ReadOnly,
            Self::Idempotent => SideEffects::Idempotent,
            Self::Once => SideEffects::AtMostOnce,
        }
    }
}

/// A run of so many steps, the last of which is the answer.
#[derive(Clone, Debug)]
pub struct Script {
    steps: u32,
    ledger: Option<Ledger>,
}

/// How long a tool takes before its effect, and again after it.
const TAKES: Duration = Duration::from_millis(1);

impl Script {
    /// Makes a script whose model and tools take notes.
    pub fn noting(steps: u32, ledger: Ledger) -> Self {
        Self { steps, ledger: Some(ledger) }
    }

    /// Makes a script whose model and tools take neither notes nor time.
    pub fn silent(steps: u32) -> Self {
        Self { steps, ledger: None }
    }

    /// Returns what the model says at a step.
    pub fn step(&self, step: u32) -> ScenarioStep {
        use Kind::{Idempotent, Once, Pure};
        if step >= self.steps {
            return ScenarioStep::final_answer(ANSWER);
        }
        let kinds: &[Kind] = match step % 6 {
            1 => &[Once],
            2 => &[Pure],
            3 => &[Idempotent, Once],
            4 => &[Once, Once],
            5 => &[Idempotent],
            _ => &[Once, Pure],
        };
        ScenarioStep::tool_calls(kinds.iter().map(|kind| (kind.name(), json!({}))))
    }
}

/// Makes a tool of a kind that takes notes and time, or neither.
pub(crate) fn tool(kind: Kind, ledger: Option<Ledger>, takes: Duration) -> FnTool<NoArgs, String> {
    let tool = tool_fn_with(kind.name(), "", move |_: NoArgs, cx| {
        let (ledger, key) = (ledger.clone(), cx.key.to_string());
        Box::pin(async move {
            if let Some(ledger) = ledger {
                ledger.note(&Entry::Began { kind, key: key.clone() });
                tokio::time::sleep(takes).await;
                ledger.note(&Entry::Done { kind, key: key.clone() });
                tokio::time::sleep(takes).await;
            }
            Ok(key)
        })
    });
    tool.with_options(ToolOptions { side_effects: kind.effects(), ..ToolOptions::default() })
}

impl LoopFactory for Script {
    fn instantiate(&self, _definition: &AgentDefinition) -> Result<AgentLoop, BuildError> {
        let agent = test_loop(ModelDriver::new(Model(Arc::new(self.clone()))));
        let tool = |kind| tool(kind, self.ledger.clone(), TAKES);
        Ok(Kind::ALL.into_iter().fold(agent, |agent, kind| agent.with_tool(tool(kind))))
    }
}

/// Says what the script says, at the step that the request comes from.
struct Model(Arc<Script>);

#[async_trait]
impl ChatModel for Model {
    async fn infer(
        &self,
        request: &InferenceRequest,
        _cx: InferCx<'_>,
    ) -> Result<InferenceResponse, ModelError> {
        // One turn is the question; each step makes one.
        let step = u32::try_from(request.prompt.turns.len()).unwrap_or(u32::MAX);
        if let Some(ledger) = &self.0.ledger {
            ledger.note(&Entry::Asked { step });
        }
        self.0.step(step).to_response()
    }
}
