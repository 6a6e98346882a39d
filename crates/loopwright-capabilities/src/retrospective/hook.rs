//! The hook that rewinds the conversation.

use std::{borrow::Cow, fmt, sync::Arc};

use async_trait::async_trait;
use loopwright_core::{
    AgentLoop, AgentState, BoxError, Flow, Hook, HookCx, HookPoint, HookPoints, StateEdit,
    messages::{CacheBreak, Message, SectionName},
};
use serde::Deserialize as _;

use crate::retrospective::{
    checkpoint::{self, RewindRequest, WAYS, Ways},
    prompt, tool,
};

pub(super) const NAME: &str = "execution_retrospective";

pub(super) type OnRewind = dyn Fn(&RewindRequest, &AgentState) + Send + Sync;

/// Takes the conversation back when the step that asked for it has ended. Where that was interrupted, it
/// is made up for before the next step.
#[derive(Clone, Default)]
pub(super) struct Rewinding {
    pub(super) on_rewind: Option<Arc<OnRewind>>,
}

/// Returns `true` if an agent keeps checkpoints.
pub(super) fn is_in(agent: &AgentLoop) -> bool {
    agent.interceptor().hooks().iter().any(|hook| hook.name() == NAME)
}

/// Returns what the last step asked for.
fn asked(state: &AgentState) -> Option<RewindRequest> {
    let calls = state.last_step()?.tool_executions();
    let own = calls.filter(|(call, _)| &*call.name == tool::NAME);
    let mut values = own.filter_map(|(_, outcome)| outcome.output()?.value.as_deref());
    values.find_map(|value| RewindRequest::deserialize(value).ok())
}

impl Rewinding {
    fn rewind(&self, state: &mut StateEdit<'_>) -> Result<(), BoxError> {
        let Some(rewind) = asked(state) else { return Ok(()) };
        let (mut ways, next) = (Ways::of(state), state.step_count() + 1);
        if ways.bend_at(next) {
            return Ok(());
        }
        let turns = checkpoint::before(state, ways.step_after(rewind.checkpoint));
        state.replace(SectionName::MESSAGES, turns, CacheBreak::Compaction);
        state.push_message(Message::user(prompt::guidance(&rewind)));
        ways.go_back(rewind.checkpoint, next);
        state.set(&WAYS, &ways)?;
        if let Some(on_rewind) = &self.on_rewind {
            on_rewind(&rewind, state);
        }
        Ok(())
    }
}

#[async_trait]
impl Hook for Rewinding {
    fn name(&self) -> Cow<'static, str> {
        NAME.into()
    }

    fn points(&self) -> HookPoints {
        HookPoint::BeforeStep | HookPoint::AfterStep
    }

    async fn before_step(
        &self,
        state: &mut StateEdit<'_>,
        _cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        self.rewind(state)?;
        Ok(Flow::Continue)
    }

    async fn after_step(
        &self,
        state: &mut StateEdit<'_>,
        _cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        self.rewind(state)?;
        Ok(Flow::Continue)
    }
}

impl fmt::Debug for Rewinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rewinding")
            .field("is_told", &self.on_rewind.is_some())
            .finish_non_exhaustive()
    }
}
