//! Agents under test.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::{
    AgentLoop, AgentMeta, AgentParts, AgentState, CompileError, ContextCompiler, Driver,
    EventSinks, Instructions, Interceptor, ModelLayers, ToolExecutor, ToolSet,
    messages::{Prompt, SectionName, Selection, Transcript},
};

use crate::tool::MockTool;

/// Makes the smallest agent of a driver: it offers [`SCRIPTED_TOOL`](crate::SCRIPTED_TOOL), shows the
/// whole conversation, and has neither hooks nor listeners.
pub fn test_loop(driver: impl Driver + 'static) -> AgentLoop {
    AgentLoop::new(AgentParts {
        driver: Arc::new(driver),
        compiler: Arc::new(FullTranscript),
        tools: ToolSet::new().with(MockTool::scripted()),
        executor: ToolExecutor::default(),
        interceptor: Interceptor::default(),
        event_sinks: EventSinks::default(),
        instructions: Instructions::default(),
        preamble: Transcript::new(),
        response_format: None,
        layers: ModelLayers::default(),
        profile: AgentMeta::default(),
    })
}

/// Shows a model everything.
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

/// Shows a model everything but the tool turns of earlier executions.
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
