//! Saves the directory as an agent and its sub-agents work.

use std::{borrow::Cow, sync::Arc};

use async_trait::async_trait;
use loopwright_agent::{AgentDefinition, BuildError, LoopFactory};
use loopwright_core::{
    AgentLoop, AgentState, BoxError, FilesChanged, Flow, Hook, HookCx, HookPoint, HookPoints,
    HookStack, Priority, StateEdit, ToolOutcome, messages::ToolCall,
};

use super::OpenFolder;

/// Saves the directory after calls and steps.
struct SaveFolder(Arc<OpenFolder>);

#[async_trait]
impl Hook for SaveFolder {
    fn name(&self) -> Cow<'static, str> {
        "save_folder".into()
    }

    fn points(&self) -> HookPoints {
        HookPoints::from_points([
            HookPoint::AfterTool,
            HookPoint::AfterStep,
            HookPoint::AfterExecution,
        ])
    }

    async fn after_tool(
        &self,
        _call: &ToolCall,
        outcome: &mut ToolOutcome,
        _state: &AgentState,
        _cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        let is_unchanged = outcome.output().is_some_and(|it| it.files == FilesChanged::None);
        if !is_unchanged {
            self.0.save().await?;
        }
        Ok(Flow::Continue)
    }

    async fn after_step(
        &self,
        _state: &mut StateEdit<'_>,
        _cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        self.0.save().await?;
        Ok(Flow::Continue)
    }

    async fn after_execution(
        &self,
        _state: &mut StateEdit<'_>,
        _cx: &HookCx<'_>,
    ) -> Result<(), BoxError> {
        Ok(self.0.save().await?)
    }
}

/// Creates agents that save the directory. Their sub-agents inherit the hook at tool calls.
pub(crate) struct SavedLoops {
    pub(crate) loops: Arc<dyn LoopFactory>,
    pub(crate) folder: Arc<OpenFolder>,
}

impl LoopFactory for SavedLoops {
    fn instantiate(&self, definition: &AgentDefinition) -> Result<AgentLoop, BuildError> {
        let agent = self.loops.instantiate(definition)?;
        Ok(agent.with(|parts| {
            let mut hooks = HookStack::default();
            for hook in parts.interceptor.hooks() {
                let shared = Arc::clone(hook.hook());
                hooks.register(hook.name().into(), hook.priority(), hook.points(), shared);
            }
            // After all others, which may change files.
            hooks.add_at(Priority(i16::MIN), SaveFolder(Arc::clone(&self.folder)));
            parts.interceptor = hooks.into_interceptor();
        }))
    }
}
