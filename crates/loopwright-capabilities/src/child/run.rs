//! Runs of a sub-agent, including after an interruption.

use std::sync::Arc;

use loopwright_agent::ACTIVATED_TOOLS;
use loopwright_broadcast::text::shorten;
use loopwright_core::{
    AgentLoop, AgentState, Edit, ExecutionStatus, Failure, FailureKind, Journal, JournalError,
    PauseRequest, PendingApproval, Run, RunOptions, Spend, ToolCx, ToolPause,
    messages::{AgentId, Usage},
};
use serde::{Deserialize, Serialize};

use super::{ChildAgent, ChildError, ChildOutcome, DEPTH};

/// The number of characters of a sub-agent's prompt that listeners receive.
pub(super) const TOLD: usize = 100;

impl ChildAgent<'_> {
    pub(super) async fn work(
        self,
        agent: AgentLoop,
        prompt: &str,
        begin: impl FnOnce(AgentState) -> AgentState + Send,
    ) -> Result<ChildOutcome, ChildError> {
        let cx = self.cx;
        let kept = self.kept()?;
        // A child that was kept by the call itself has no journal.
        let journal = cx.journal.filter(|_| kept.state.is_none()).map(|it| it.child(cx.key));
        let recorded = match kept.state {
            Some(state) => Some(state),
            None => self.recorded(journal.as_deref()).await?,
        };
        let state = match recorded {
            Some(state) => self.decided(state),
            None => self.first_state(begin),
        };
        // What was consumed before an interruption is drawn from the account again: it is new, but for what the
        // parent has on record since the child paused.
        cx.meter.charge(since(state.total_spent(), kept.spent));
        let started = cx.env.clock.monotonic();
        cx.emit_subagent_started(
            &self.name,
            shorten(prompt, TOLD, TOLD),
            self.depth(),
            self.max_depth,
        );
        let is_over = state.status().is_terminal();
        let mut paid =
            Paid { cx, before: kept.spent, run: agent.start(state, self.options(journal.clone())) };
        if !is_over {
            while paid.run.next().await.is_some() {}
        }
        let state = paid.run.state().clone();
        drop(paid);
        if let ExecutionStatus::Failed(failure) = state.status()
            && failure.kind == FailureKind::Journal
        {
            return Err(self.journal_failed(failure.clone()));
        }
        let duration = cx.env.clock.monotonic().saturating_sub(started);
        cx.emit_subagent_completed(&self.name, &state, duration);
        let pause = self.pause(&state, journal.is_some());
        Ok(ChildOutcome { name: self.name, state, pause, left: None })
    }

    /// Returns what the call of the parent waits for, if the child waits.
    fn pause(&self, state: &AgentState, is_kept: bool) -> Option<ToolPause> {
        if *state.status() != ExecutionStatus::Paused {
            return None;
        }
        let directory = directory(state);
        let request = |asked: &PendingApproval<'_>| {
            PauseRequest::of_subagent(&self.name, asked).with_directory(directory.clone())
        };
        let requests = state.pending().iter().map(request).collect();
        let kept = Kept {
            spent: state.total_spent(),
            state: (!is_kept).then(|| AgentState::clone(state)),
        };
        let resume = serde_json::to_value(&kept).ok()?;
        Some(ToolPause { requests, resume: Some(Arc::new(resume)), ..ToolPause::default() })
    }

    /// Returns what the call kept of the child when it paused.
    fn kept(&self) -> Result<Kept, ChildError> {
        let Some(value) = self.cx.resume_value() else { return Ok(Kept::default()) };
        Kept::deserialize(value).map_err(|_| ChildError::Lost { name: Arc::clone(&self.name) })
    }

    /// Hands on what was decided about the child, unless it has that on record already.
    fn decided(&self, state: AgentState) -> AgentState {
        let decided = self.cx.nested_decisions();
        decided.fold(state, |state, (path, decision)| {
            let waits = state.pending().iter().any(|it| it.address() == path);
            if waits { state.decide_at(&path, decision.clone()) } else { state }
        })
    }

    /// Returns what the child was when its call was interrupted, or `None` if it had not begun.
    async fn recorded(
        &self,
        journal: Option<&dyn Journal>,
    ) -> Result<Option<AgentState>, ChildError> {
        let name = || Arc::clone(&self.name);
        let Some(journal) = journal else { return Ok(None) };
        let changes = match journal.load_changes().await {
            Err(JournalError::Lost) => return Err(ChildError::Lost { name: name() }),
            recorded => recorded.map_err(|error| {
                self.journal_failed(Failure::from_error(FailureKind::Journal, &error))
            })?,
        };
        if changes.is_empty() {
            return Ok(None);
        }
        let state = AgentState::new().replay(changes);
        Ok(Some(state.map_err(|source| ChildError::Damaged { name: name(), source })?))
    }

    fn journal_failed(&self, failure: Failure) -> ChildError {
        ChildError::Journal { name: Arc::clone(&self.name), failure }
    }

    /// Makes the state that a child begins with. Whatever `begin` says of the budget, it is capped.
    pub(super) fn first_state(&self, begin: impl FnOnce(AgentState) -> AgentState) -> AgentState {
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
        #[cfg(all(feature = "skills", target_os = "linux"))]
        let state = crate::skills::handed_on(parent, state);
        let state = begin(state);
        let capped = state.budget().capped_by(&self.budget);
        if capped == *state.budget() { state } else { state.with_budget(capped) }
    }

    pub(super) fn options(&self, journal: Option<Arc<dyn Journal>>) -> RunOptions {
        let cx = &self.cx;
        RunOptions {
            env: cx.child_env(),
            journal,
            meter: Some(cx.meter.clone()),
            sinks: cx.events.sinks(),
            cancel: cx.cancel.clone(),
            cancel_reason: cx.cancel_reason.clone(),
            on_interrupted: cx.on_interrupted,
            on_ask: cx.on_ask,
            // It has ended before its parent gives it up.
            grace: cx.grace / 4 * 3,
            ..RunOptions::default()
        }
    }
}

/// Returns the directory in which the commands of an agent start; empty for its working directory.
#[cfg(all(feature = "tools", target_os = "linux"))]
#[expect(clippy::unnecessary_wraps, reason = "a build without commands has none")]
fn directory(state: &AgentState) -> Option<Arc<str>> {
    Some(crate::bash::Bash::last_directory(state).unwrap_or_default().into())
}

#[cfg(not(all(feature = "tools", target_os = "linux")))]
fn directory(_state: &AgentState) -> Option<Arc<str>> {
    None
}

/// A run whose spending the parent is told of, however it ends.
struct Paid<'a> {
    cx: ToolCx<'a>,
    /// What the parent has on record.
    before: Spend,
    run: Run,
}

/// What a call keeps of a child that waits.
#[derive(Default, Serialize, Deserialize)]
struct Kept {
    /// What the child consumed by then.
    #[serde(default)]
    spent: Spend,
    /// The child itself, if no journal has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state: Option<AgentState>,
}

impl Drop for Paid<'_> {
    fn drop(&mut self) {
        self.cx.add_spend(since(self.run.state().total_spent(), self.before));
    }
}

/// Returns what was consumed since then.
fn since(now: Spend, then: Spend) -> Spend {
    let (one, other) = (now.usage, then.usage);
    let usage = Usage {
        input: one.input.saturating_sub(other.input),
        output: one.output.saturating_sub(other.output),
        cache_read: one.cache_read.saturating_sub(other.cache_read),
        cache_write: one.cache_write.saturating_sub(other.cache_write),
        reasoning: one.reasoning.saturating_sub(other.reasoning),
    };
    Spend { usage, cost: now.cost.saturating_sub(then.cost) }
}
