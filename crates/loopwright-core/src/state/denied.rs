//! Calls that were denied.

use std::sync::Arc;

use loopwright_messages::ToolCall;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    execution::Execution, outcome::ToolOutput, state::AgentState, step::Step, stop::StopSignal,
};

/// The member of a sub-agent's output that lists its denied calls, and of a signal that names the call it denies.
const MEMBER: &str = "denied_calls";

/// A call that did not run because a rule, a hook, a person or a deadline denied it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeniedCall {
    /// The sub-agents that lead to the call, from the outermost one on; empty for a call of the agent itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<Arc<str>>,
    /// The tool.
    pub tool: Arc<str>,
    /// The arguments that were decided about, as JSON; as text if they are not JSON.
    pub arguments: Value,
    /// The reason, for the model.
    pub reason: String,
}

impl DeniedCall {
    fn new(call: &ToolCall, reason: String) -> Self {
        let arguments = call.parse_arguments();
        let arguments = arguments.unwrap_or_else(|_| Value::String(call.arguments.to_string()));
        Self { agents: Vec::new(), tool: Arc::clone(&call.name), arguments, reason }
    }

    /// Returns the members that list these calls in the value of a sub-agent's output. Returns `None` if there are no calls.
    pub fn to_member(calls: &[Self]) -> Option<(&'static str, Value)> {
        (!calls.is_empty()).then(|| (MEMBER, json!(calls)))
    }

    /// Returns the denied calls that the output of a sub-agent lists.
    fn of_output(output: &ToolOutput) -> Vec<Self> {
        let Some(value) = output.value.as_deref() else { return Vec::new() };
        let Some(agent) = value.get("subagent").and_then(Value::as_str) else { return Vec::new() };
        let listed = value.get(MEMBER).and_then(|it| Vec::<Self>::deserialize(it).ok());
        let mut calls = listed.unwrap_or_default();
        for call in &mut calls {
            call.agents.insert(0, agent.into());
        }
        calls
    }
}

impl StopSignal {
    /// Names the call that is denied by stopping the run. [`AgentState::denied_calls`] lists it.
    #[must_use]
    pub fn with_denied_call(self, call: &ToolCall) -> Self {
        let denied = DeniedCall::new(call, self.message.clone());
        self.with(MEMBER, json!([denied]))
    }

    /// Removes the name of the denied call, for the signal of an agent whose sub-agent made the call.
    #[must_use]
    pub fn without_denied_call(mut self) -> Self {
        self.context.remove(MEMBER);
        self
    }
}

impl AgentState {
    /// Returns the calls for the last message of the user that were denied, in order. Those of sub-agents that have answered or
    /// were stopped are among them.
    pub fn denied_calls(&self) -> Vec<DeniedCall> {
        let steps = self.execution().into_iter().flat_map(Execution::steps_for_message);
        let mut denied: Vec<DeniedCall> = steps.flat_map(Step::denied_calls).collect();
        let by_stop = self.stop_signal().and_then(|it| it.context.get(MEMBER));
        denied.extend(
            by_stop.and_then(|it| Vec::<DeniedCall>::deserialize(it).ok()).unwrap_or_default(),
        );
        denied
    }
}

impl Step {
    fn denied_calls(&self) -> Vec<DeniedCall> {
        let calls = self.tool_executions().zip(0..=u16::MAX);
        calls
            .flat_map(|((written, outcome), index)| match outcome.output() {
                Some(output) => DeniedCall::of_output(output),
                None if outcome.was_blocked() => {
                    let call = self.rewritten_call(index).unwrap_or(written);
                    vec![DeniedCall::new(call, outcome.error_message())]
                }
                None => Vec::new(),
            })
            .collect()
    }
}
