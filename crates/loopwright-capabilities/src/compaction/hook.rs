//! The conditions for compaction.

use std::borrow::Cow;
use std::fmt;

use async_trait::async_trait;
use loopwright_core::{
    BoxError, ErrorDecision, Execution, Failure, FailureKind, Flow, Hook, HookCx, HookPoint,
    HookPoints, StateEdit, StopReason, StopSignal,
};

use crate::{
    compaction::{
        compactor::{BACKOFF, Compactor, NAME},
        known::{Known, Size},
        policy::CompactionPolicy,
    },
    summarization::{Backoff, Books},
};

/// How often in a row a conversation is made shorter because a model did not take it.
const MAX_SHORTENINGS: u32 = 4;

/// The conditions for compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// Before a step, if it has this number of tokens.
    Reached(u64),
    /// Now; the run ends with it.
    Now,
}

impl When {
    /// Caps a policy so that the result is below the compaction threshold.
    pub(super) fn fitted(self, policy: CompactionPolicy) -> CompactionPolicy {
        match self {
            Self::Reached(tokens) => CompactionPolicy {
                keep_tokens: policy.keep_tokens.min(tokens / 2),
                max_summary_tokens: policy.max_summary_tokens.min(tokens / 8).max(1),
                max_input_tokens: policy.max_input_tokens.min(tokens / 2).max(1),
                ..policy
            },
            Self::Now => policy,
        }
    }
}

/// Compacts conversations when it is time to.
pub(super) struct Compacting {
    pub(super) when: When,
    pub(super) compactor: Compactor,
    pub(super) books: Books<Known>,
}

impl Compacting {
    /// Compacts a conversation that has reached a limit.
    async fn keep_below(
        &self,
        limit: u64,
        known: &mut Known,
        state: &mut StateEdit<'_>,
        cx: &HookCx<'_>,
    ) -> Result<(), BoxError> {
        let size = known.size(state, &*self.compactor.counter);
        let is_due = size.tokens() >= limit && Backoff::allows(&BACKOFF, state);
        if !is_due || !self.compactor.is_worth_it(state, known) {
            return Ok(());
        }
        let shown = self.compactor.shown(state, cx).await?;
        if let Size::Estimated(_) = size {
            // It is not due for what the model is not shown, which is known from now on.
            known.note_shown(shown.volume.tokens);
            if shown.volume.tokens < limit {
                return Ok(());
            }
        }
        let Some(told) = self.compactor.compact(shown, state, cx).await? else { return Ok(()) };
        if told.after.tokens < told.before.tokens {
            cx.events.emit(|| told);
        } else if Backoff::allows(&BACKOFF, state) {
            Backoff::wait(&BACKOFF, state)?;
        }
        Ok(())
    }
}

#[async_trait]
impl Hook for Compacting {
    fn name(&self) -> Cow<'static, str> {
        NAME.into()
    }

    fn points(&self) -> HookPoints {
        match self.when {
            When::Reached(_) => HookPoint::BeforeStep | HookPoint::OnError,
            When::Now => HookPoint::BeforeExecution.into(),
        }
    }

    async fn before_execution(
        &self,
        state: &mut StateEdit<'_>,
        cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        let shown = self.compactor.shown(state, cx).await?;
        if let Some(told) = self.compactor.compact(shown, state, cx).await? {
            cx.events.emit(|| told);
        }
        let text = "the conversation was compacted, as requested";
        Ok(Flow::Stop(StopSignal::new(StopReason::UserRequested, NAME, text)))
    }

    async fn before_step(
        &self,
        state: &mut StateEdit<'_>,
        cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        let (When::Reached(limit), Some(agent)) = (self.when, state.id().cloned()) else {
            return Ok(Flow::Continue);
        };
        let mut known = self.books.take(&agent);
        let kept = self.keep_below(limit, &mut known, state, cx).await;
        self.books.put(agent, known);
        kept.map(|()| Flow::Continue)
    }

    /// A request that was too long for the model is tried again once the conversation is shorter.
    async fn on_error(
        &self,
        failure: &Failure,
        state: &mut StateEdit<'_>,
        cx: &HookCx<'_>,
    ) -> Result<ErrorDecision, BoxError> {
        let failed = state.execution().map_or(0, Execution::failed_in_a_row);
        if failure.kind != FailureKind::ContextLength || failed > MAX_SHORTENINGS {
            return Ok(ErrorDecision::Fail);
        }
        let policy = self.compactor.policy.stricter(failed);
        let compactor = Compactor { policy, ..self.compactor.clone() };
        let shown = compactor.shown(state, cx).await?;
        let told = compactor.compact(shown, state, cx).await?;
        let Some(told) = told.filter(|it| it.after.tokens < it.before.tokens) else {
            return Ok(ErrorDecision::Fail);
        };
        cx.events.emit(|| told);
        Ok(ErrorDecision::Retry)
    }
}

impl fmt::Debug for Compacting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compacting").field("when", &self.when).finish_non_exhaustive()
    }
}
