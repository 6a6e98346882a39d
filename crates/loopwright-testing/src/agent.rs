//! Agents under test.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::{
    AgentLoop, AgentParts, AgentState, CompileError, ContextCompiler, Driver, RunOptions, Step,
    messages::{Prompt, SectionName, Selection},
};

use crate::{clock::test_env, poll::block_on, tool::MockTool};

/// Creates a minimal agent with a driver: it has the tool [`SCRIPTED_TOOL`](crate::SCRIPTED_TOOL),
/// a compiler that includes the whole conversation, and no hooks and listeners.
pub fn test_loop(driver: impl Driver + 'static) -> AgentLoop {
    let mut parts = AgentParts::new(Arc::new(driver), Arc::new(FullTranscript));
    parts.tools.add(MockTool::scripted());
    AgentLoop::new(parts)
}

/// Returns the options of a run by a frozen clock.
pub fn test_options() -> RunOptions {
    RunOptions { env: test_env(1), ..RunOptions::default() }
}

/// Runs a state to its end, by a frozen clock.
pub fn execute(agent: &AgentLoop, state: AgentState) -> AgentState {
    block_on(agent.start(state, test_options()).finish())
}

/// Returns the texts of the results of the tool calls in the last execution, as the model sees them, oldest first.
pub fn tool_results(state: &AgentState) -> Vec<String> {
    let executions = state.steps().flat_map(Step::tool_executions);
    executions.map(|(_, outcome)| outcome.to_result().to_text()).collect()
}

/// Returns the texts of all turns, oldest first.
pub fn turn_texts(state: &AgentState) -> Vec<String> {
    state.transcript().iter().map(|turn| turn.message().text()).collect()
}

/// A compiler that includes the whole conversation.
#[derive(Clone, Copy, Debug, Default)]
pub struct FullTranscript;

#[async_trait]
impl ContextCompiler for FullTranscript {
    async fn compile(
        &self,
        state: &AgentState,
        previous: Option<Prompt>,
    ) -> Result<Prompt, CompileError> {
        let turns = state.transcript();
        Ok(Selection::new("whole", [(SectionName::MESSAGES, turns)]).select(previous, |_| true))
    }
}

/// A compiler that includes everything except the tool turns of earlier executions.
#[derive(Clone, Copy, Debug, Default)]
pub struct CurrentTraceOnly;

#[async_trait]
impl ContextCompiler for CurrentTraceOnly {
    async fn compile(
        &self,
        state: &AgentState,
        previous: Option<Prompt>,
    ) -> Result<Prompt, CompileError> {
        let execution = state.execution().map(|it| it.id().clone());
        let rule = format!("trace {execution:?}");
        let selection = Selection::new(rule, [(SectionName::MESSAGES, state.transcript())]);
        Ok(selection
            .select(previous, |turn| !turn.meta().is_trace || turn.meta().execution == execution))
    }
}
