//! When a conversation is compacted.

use std::borrow::Cow;
use std::fmt;

use async_trait::async_trait;
use loopwright_core::{
    AgentState, BoxError, Flow, Hook, HookCx, HookPoint, HookPoints, StateEdit, StopReason,
    StopSignal, messages::SectionName,
};

use crate::{
    compaction::compactor::{BACKOFF, Compactor, NAME},
    summarization::{Backoff, Books, last_model_turn},
};

/// When a conversation is compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// Before a step, if it has so many tokens.
    Reached(u64),
    /// Now; the run ends with it.
    Now,
}

/// Compacts conversations when it is time to.
pub(super) struct Compacting {
    pub(super) when: When,
    pub(super) compactor: Compactor,
    pub(super) books: Books,
}

impl Compacting {
    /// Returns how many tokens the next request has, as far as it is known: what the provider counted in
    /// the last step and what came since, or else what the conversation is estimated to be. The cost is
    /// that of what came since.
    fn size(&self, state: &AgentState) -> u64 {
        let Some(agent) = state.id() else { return 0 };
        let mut counts = self.books.take(agent);
        let sections = state.context().sections();
        let counted = [
            (SectionName::SUMMARY, &mut counts.summary),
            (SectionName::BUFFER, &mut counts.buffer),
            (SectionName::MESSAGES, &mut counts.messages),
        ];
        let mut size = 0;
        for (name, ledger) in counted {
            if let Some(section) = sections.get(name) {
                ledger.follow(section, &*self.compactor.counter);
                size += ledger.total();
            }
        }
        let messages = state.transcript();
        let new = messages.len() - last_model_turn(messages).unwrap_or(0);
        let new = counts.messages.newest(new);
        self.books.put(agent.clone(), counts);
        match state.last_step().map_or(0, |step| step.spend().usage.total()) {
            0 => size,
            reported => reported + new,
        }
    }
}

#[async_trait]
impl Hook for Compacting {
    fn name(&self) -> Cow<'static, str> {
        NAME.into()
    }

    fn points(&self) -> HookPoints {
        match self.when {
            When::Reached(_) => HookPoint::BeforeStep.into(),
            When::Now => HookPoint::BeforeExecution.into(),
        }
    }

    async fn before_execution(
        &self,
        state: &mut StateEdit<'_>,
        cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        if let Some(told) = self.compactor.compact(state, cx).await? {
            cx.events.emit(|| told);
        }
        let text = "the conversation was compacted, and nothing else was to be done";
        Ok(Flow::Stop(StopSignal::new(StopReason::UserRequested, NAME, text)))
    }

    async fn before_step(
        &self,
        state: &mut StateEdit<'_>,
        cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        let When::Reached(tokens) = self.when else { return Ok(Flow::Go) };
        let is_due = self.size(state) >= tokens && Backoff::allows(&BACKOFF, state);
        if !is_due || !self.compactor.is_worth_it(state) {
            return Ok(Flow::Go);
        }
        let Some(told) = self.compactor.compact(state, cx).await? else { return Ok(Flow::Go) };
        let is_smaller = told.after.tokens < told.before.tokens;
        if is_smaller {
            cx.events.emit(|| told);
        } else if Backoff::allows(&BACKOFF, state) {
            Backoff::wait(&BACKOFF, state)?;
        }
        Ok(Flow::Go)
    }
}

impl fmt::Debug for Compacting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compacting").field("when", &self.when).finish_non_exhaustive()
    }
}
