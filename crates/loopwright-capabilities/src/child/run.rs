//! How a child works, and continues working after an interruption.

use std::sync::Arc;

use loopwright_agent::ACTIVATED_TOOLS;
use loopwright_broadcast::text::shorten;
use loopwright_core::{
    AgentLoop, AgentState, Edit, Journal, Run, RunOptions, ToolCx, messages::AgentId,
};

use super::{ChildAgent, ChildError, ChildOutcome, DEPTH};

/// So much of what a child is asked is told to listeners, in characters.
const TOLD: usize = 100;

impl ChildAgent<'_> {
    pub(super) async fn work(
        self,
        agent: AgentLoop,
        prompt: &str,
        begin: impl FnOnce(AgentState) -> AgentState + Send,
    ) -> Result<ChildOutcome, ChildError> {
        let cx = self.cx;
        let journal = cx.journal.map(|it| it.child(cx.key));
        let state = match self.recorded(journal.as_deref()).await? {
            Some(state) => state,
            None => self.first_state(begin),
        };
        // What was consumed before an interruption is drawn from the account again: it is new.
        cx.meter.charge(state.total_spent());
        let started = cx.env.clock.monotonic();
        cx.emit_subagent_started(
            &self.name,
            shorten(prompt, TOLD, TOLD),
            self.depth(),
            self.max_depth,
        );
        let is_over = state.status().is_terminal();
        let mut paid = Paid { cx, run: agent.start(state, self.options(journal)) };
        if !is_over {
            while paid.run.next().await.is_some() {}
        }
        let state = paid.run.state().clone();
        drop(paid);
        let took = cx.env.clock.monotonic().saturating_sub(started);
        cx.emit_subagent_completed(&self.name, &state, took);
        Ok(ChildOutcome { name: self.name, state })
    }

    /// Returns what the child was when its call was interrupted; `None` if it had not begun.
    async fn recorded(
        &self,
        journal: Option<&dyn Journal>,
    ) -> Result<Option<AgentState>, ChildError> {
        let name = || Arc::clone(&self.name);
        let Some(journal) = journal else { return Ok(None) };
        let recorded = journal.load_changes().await;
        let changes = recorded.map_err(|source| ChildError::Journal { name: name(), source })?;
        if changes.is_empty() {
            return Ok(None);
        }
        let state = AgentState::new().replay(changes);
        Ok(Some(state.map_err(|source| ChildError::Damaged { name: name(), source })?))
    }

    /// Makes the state that a child begins with. Whatever `begin` says of the budget, it is capped.
    fn first_state(&self, begin: impl FnOnce(AgentState) -> AgentState) -> AgentState {
        let parent = self.cx.state;
        let mut state = AgentState::new()
            .with_budget(self.budget)
            .edit(Edit::Set(DEPTH.slot(), Some(self.depth().into())));
        if parent.get(&ACTIVATED_TOOLS).is_some() {
            // It asks for what it needs of the tools that its parent has on demand.
            let none = serde_json::Value::Array(Vec::new());
            state = state.edit(Edit::Set(ACTIVATED_TOOLS.slot(), Some(none)));
        }
        if let Some(parent) = parent.id() {
            state = state.with_parent(AgentId::clone(parent));
        }
        if let Some(llm) = parent.llm() {
            state = state.with_llm(llm.clone());
        }
        let state = begin(state);
        let capped = state.budget().capped_by(&self.budget);
        if capped == *state.budget() { state } else { state.with_budget(capped) }
    }

    fn options(&self, journal: Option<Arc<dyn Journal>>) -> RunOptions {
        let cx = &self.cx;
        RunOptions {
            env: cx.child_env(),
            journal,
            meter: Some(cx.meter.clone()),
            sinks: cx.events.sinks(),
            cancel: cx.cancel.clone(),
            // It has ended before its parent gives it up.
            grace: cx.grace / 4 * 3,
            ..RunOptions::default()
        }
    }
}

/// A run whose spending the parent is told of, however it ends.
struct Paid<'a> {
    cx: ToolCx<'a>,
    run: Run,
}

impl Drop for Paid<'_> {
    fn drop(&mut self) {
        self.cx.add_spend(self.run.state().total_spent());
    }
}
