//! Agents under test.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::{
    AgentLoop, AgentState, CompileError, ContextCompiler, Driver, Instructions, Interceptor,
    Layers, Parts, Profile, Sinks, ToolExecutor, ToolSet,
    messages::{Prompt, SectionName, Selection, Transcript},
};

use crate::tool::MockTool;

/// Makes the smallest agent of a driver: it offers [`SCRIPTED_TOOL`](crate::SCRIPTED_TOOL), shows the
/// whole conversation, and has neither hooks nor listeners.
pub fn loop_of(driver: impl Driver + 'static) -> AgentLoop {
    AgentLoop::new(Parts {
        driver: Arc::new(driver),
        compiler: Arc::new(WholeConversation),
        tools: ToolSet::new().with(MockTool::scripted()),
        executor: ToolExecutor::default(),
        interceptor: Interceptor::default(),
        sinks: Sinks::default(),
        instructions: Instructions::default(),
        head: Transcript::new(),
        response_format: None,
        layers: Layers::default(),
        profile: Profile::default(),
    })
}

/// Shows a model everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct WholeConversation;

#[async_trait]
impl ContextCompiler for WholeConversation {
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
pub struct CurrentTrace;

#[async_trait]
impl ContextCompiler for CurrentTrace {
    async fn compile(
        &self,
        state: &AgentState,
        previous: Option<Prompt>,
    ) -> Result<Prompt, CompileError> {
        let execution = state.execution().map(|it| it.id().clone());
        let rule = format!("trace {execution:?}");
        let selection = Selection::new(rule, [(SectionName::MESSAGES, state.transcript())]);
        Ok(selection
            .select(previous, |turn| !turn.meta().trace || turn.meta().execution == execution))
    }
}
