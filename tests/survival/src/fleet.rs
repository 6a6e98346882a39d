//! Workers that do jobs, and what has to be true of all of them together.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use loopwright_agent::{AgentDefinition, BuildError, LoopFactory};
use loopwright_core::{
    AgentLoop, Change, ChangeRecord, ChatModel, IdempotencyKey, InferCx, ModelError, ToolOutcome,
    messages::{ExecutionId, InferenceRequest, InferenceResponse, Role},
};
use loopwright_testing::{ModelDriver, ScenarioStep, test_loop};
use serde_json::json;

use crate::{
    ledger::{Entry, Ledger},
    script::{ANSWER, Kind, tool},
};

/// The agent whose tools may all run twice.
pub const CAREFUL: &str = "careful";
/// The agent with a tool that may not.
pub const PAYING: &str = "paying";

/// Agents that answer each message after two steps with tools, by their names.
#[derive(Clone, Debug)]
pub struct Crew {
    ledger: Ledger,
}

/// How long a tool takes before its effect, and again after it: so that workers die there, too.
const TAKES: Duration = Duration::from_millis(10);

impl Crew {
    /// Makes agents whose models and tools take notes.
    pub fn noting(ledger: Ledger) -> Self {
        Self { ledger }
    }
}

impl LoopFactory for Crew {
    fn instantiate(&self, definition: &AgentDefinition) -> Result<AgentLoop, BuildError> {
        let is_paying = definition.name == PAYING;
        let agent = test_loop(ModelDriver::new(Model { is_paying }));
        let kinds = [Kind::Pure, Kind::Idempotent, Kind::Once];
        let tool = |kind| tool(kind, Some(self.ledger.clone()), TAKES);
        Ok(kinds.into_iter().fold(agent, |agent, kind| agent.with_tool(tool(kind))))
    }
}

/// Says what comes next after what was said last.
struct Model {
    is_paying: bool,
}

#[async_trait]
impl ChatModel for Model {
    async fn infer(
        &self,
        request: &InferenceRequest,
        _cx: InferCx<'_>,
    ) -> Result<InferenceResponse, ModelError> {
        let turns = request.prompt.turns.iter().rev();
        let since = turns.take_while(|turn| turn.message().role() != Role::User).count();
        let kinds: &[Kind] = match (since, self.is_paying) {
            (0, false) => &[Kind::Idempotent],
            (0, true) => &[Kind::Once],
            (1, _) => &[Kind::Pure, Kind::Idempotent],
            _ => return ScenarioStep::final_answer(ANSWER).to_response(),
        };
        let calls = kinds.iter().map(|kind| (kind.name(), json!({})));
        ScenarioStep::tool_calls(calls).to_response()
    }
}

/// What is stored of the calls of all sessions.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    /// Calls that are over.
    settled: BTreeMap<String, Arc<ToolOutcome>>,
    /// Calls that began and are not over.
    open: BTreeSet<String>,
}

impl Calls {
    /// Takes note of a session's calls.
    pub fn read(&mut self, changes: &[ChangeRecord]) {
        let (mut execution, mut step) = (ExecutionId::from(""), 1);
        for stamped in changes {
            let key = |call: u16| {
                IdempotencyKey { execution: execution.clone(), step, call: Some(call) }.to_string()
            };
            match &stamped.change {
                Change::ExecutionStarted { execution: id, .. } => {
                    (execution, step) = (id.clone(), 1);
                }
                Change::StepCompleted { .. } | Change::StepFailed { .. } => step += 1,
                Change::ToolCallStarted { call, .. } => {
                    self.open.insert(key(*call));
                }
                Change::ToolCallCompleted { call, outcome, .. } => {
                    self.open.remove(&key(*call));
                    self.settled.insert(key(*call), Arc::clone(outcome));
                }
                _ => {}
            }
        }
    }

    /// Returns how many calls began and are not over: each of them waits for a decision.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Finds whatever a ledger and what is stored do not agree about.
    ///
    /// - No call that must not happen twice began twice.
    /// - No effect is untold: whatever took effect has an outcome, or waits for a decision.
    /// - Whatever returned took effect, and only what must not happen twice waits.
    pub fn problems(&self, entries: &[Entry]) -> Vec<String> {
        let mut kinds: BTreeMap<&str, Kind> = BTreeMap::new();
        let mut began: BTreeMap<&str, usize> = BTreeMap::new();
        let mut done: BTreeMap<&str, usize> = BTreeMap::new();
        for entry in entries {
            match entry {
                Entry::Began { kind, key } => {
                    kinds.insert(key, *kind);
                    *began.entry(key).or_default() += 1;
                }
                Entry::Done { key, .. } => *done.entry(key).or_default() += 1,
                _ => {}
            }
        }
        let mut problems = Vec::new();
        for (key, times) in &began {
            if kinds[key] == Kind::Once && *times > 1 {
                problems.push(format!("{key} began {times} times"));
            }
        }
        for key in done.keys() {
            if !self.settled.contains_key(*key) && !self.open.contains(*key) {
                problems.push(format!("{key} took effect and nobody is told"));
            }
        }
        for (key, outcome) in &self.settled {
            let times = done.get(&**key).copied().unwrap_or_default();
            let is_right = match (kinds.get(&**key), &**outcome) {
                (Some(Kind::Once), ToolOutcome::Returned(_)) => times == 1,
                (Some(_), ToolOutcome::Returned(_)) => times >= 1,
                _ => false,
            };
            if !is_right {
                problems.push(format!("{key} took effect {times} times: {outcome:?}"));
            }
        }
        for key in &self.open {
            // It may have been put on record and not have begun.
            if kinds.get(&**key).is_some_and(|kind| *kind != Kind::Once) {
                problems.push(format!("{key} may run twice, and waits"));
            }
        }
        problems
    }
}
