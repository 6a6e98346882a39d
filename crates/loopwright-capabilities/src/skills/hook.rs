//! Enforcement of a skill's allowed tools.

use std::borrow::Cow;

use async_trait::async_trait;
use loopwright_core::{
    AgentState, BoxError, Flow, Hook, HookCx, HookPoint, HookPoints, StateEdit, ToolDecision,
    messages::ToolCall,
};

use crate::child::NARROWED;
use crate::skills::active::{ACTIVE, BOUND};

/// Keeps calls from running that the active skill does not allow.
///
/// It is a guard, so that it binds sub-agents too: one that carries out a skill is bound by it for good.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SkillGuard;

#[async_trait]
impl Hook for SkillGuard {
    fn name(&self) -> Cow<'static, str> {
        "skills".into()
    }

    fn points(&self) -> HookPoints {
        HookPoints::from_points([HookPoint::BeforeExecution, HookPoint::BeforeTool])
    }

    async fn before_execution(
        &self,
        state: &mut StateEdit<'_>,
        cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        let bound = state.get(&BOUND);
        if let Some(names) = bound.and_then(|it| it.narrows(cx.agent().tools())) {
            state.set(&NARROWED, &names)?;
        }
        Ok(Flow::Continue)
    }

    async fn before_tool(
        &self,
        call: &ToolCall,
        state: &AgentState,
        _cx: &HookCx<'_>,
    ) -> Result<ToolDecision, BoxError> {
        let skills = [state.get(&BOUND), state.get(&ACTIVE)];
        let reason = skills.into_iter().flatten().find_map(|it| it.forbids(call));
        Ok(reason.map_or(ToolDecision::Run, |reason| ToolDecision::Block { reason }))
    }
}
