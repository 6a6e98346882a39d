//! State changes of a run: apply, append, then emit.
//!
//! Changes become part of the state at once and wait in its outbox. They are not visible outside
//! the run, and no effect starts, before the journal has acknowledged them. [`Run::flush_changes`]
//! runs before every effect, and events wait for the changes that they report.

use std::{future::poll_fn, sync::Arc};

use crate::{
    change::{Change, ChangeRecord},
    event::{AgentEvent, ExecutionFailed, StopSignalReceived},
    failure::{Failure, FailureKind},
    hook::{HookError, HookPoint},
    interceptor::{HookCall, HookOutcome},
    journal::contained,
    run::{HookPass, Phase, Run, cancel_safe::CancelSafe},
    state::AgentState,
    stop::StopSignal,
};

/// The journal failed: no further effect, hook or append.
#[derive(Clone, Copy, Debug)]
pub(super) struct JournalFailed;

impl Run {
    /// Returns the state for a change. Other owners of the state keep the old version.
    pub(super) fn state_mut(&mut self) -> &mut AgentState {
        Arc::make_mut(&mut self.state)
    }

    pub(super) fn record(&mut self, change: Change) {
        let stamped = ChangeRecord { at: self.now(), change };
        let keeps = self.options.journal.is_some();
        let state = self.state_mut();
        let applied = state.apply(&stamped);
        debug_assert!(
            applied.is_ok(),
            "the run recorded a change that cannot be applied: \
            {applied:?}"
        );
        if keeps {
            state.outbox.push(stamped);
        }
    }

    /// Queues an event, which is emitted when the changes before it are acknowledged.
    pub(super) fn say<E: Into<AgentEvent>>(&mut self, event: impl FnOnce(&Self) -> E) {
        if self.events.has_listeners() {
            let event = event(self).into();
            self.pending_events.push(event);
        }
    }

    pub(super) fn signal(&mut self, signal: StopSignal) {
        self.record(Change::StopRaised(signal.clone()));
        self.say(|_| StopSignalReceived { signal });
    }

    /// Returns `true` if a change is not acknowledged or an event not emitted.
    fn has_unsaid(&self) -> bool {
        self.journal_failed || !self.pending_events.is_empty() || !self.state.outbox.is_empty()
    }

    /// Waits until all changes of the state are acknowledged, and emits their events.
    pub(super) async fn flush_changes(&mut self) -> Result<(), JournalFailed> {
        if self.journal_failed {
            return Err(JournalFailed);
        }
        while !self.state.outbox.is_empty() {
            if self.appending.is_none() {
                let Some(journal) = self.options.journal.clone() else {
                    self.state_mut().outbox.clear();
                    break;
                };
                let first = self.state.seq - self.state.outbox.len() as u64;
                let batch = self.state_mut().outbox.batch();
                self.appending = Some(Box::pin(async move {
                    contained(async { journal.append(first, &batch).await }).await
                }));
            }
            let Some(appending) = &mut self.appending else { break };
            let mut batch = self.batch.as_mut();
            // An append is never given up: its outcome would be unknown.
            let appended = poll_fn(|cx| {
                let appended = appending.as_mut().poll(cx);
                if let (true, Some(batch)) = (appended.is_pending(), &mut batch) {
                    batch.running.advance(cx);
                }
                appended
            });
            let appended = appended.await;
            self.appending = None;
            self.time_passed();
            match appended {
                Ok(()) => self.state_mut().outbox.acknowledge(),
                Err(error) => {
                    return Err(self.abort(Failure::from_error(FailureKind::Journal, &error)));
                }
            }
        }
        for event in self.pending_events.drain(..) {
            self.events.emit(|| event);
        }
        Ok(())
    }

    /// Ends the run at this point. The state keeps the unacknowledged changes, so that the next run
    /// sends them first.
    pub(super) fn abort(&mut self, failure: Failure) -> JournalFailed {
        self.batch = None;
        self.drain_inbox_final();
        self.pending_events.clear();
        self.record(Change::JournalFailed(failure.clone()));
        let (steps, usage) = (self.state.step_count(), self.state.usage());
        self.events.emit(|| ExecutionFailed { failure, steps, usage });
        self.point = Phase::Over;
        self.journal_failed = true;
        JournalFailed
    }

    /// Calls the hooks of a point. Their edits take effect when all of them have finished.
    pub(super) async fn ask(
        &mut self,
        ask: HookCall,
    ) -> Result<Result<HookOutcome, HookError>, JournalFailed> {
        let (point, hooks) = (ask.point(), self.agent.interceptor());
        if !hooks.contains(point) {
            return Ok(Ok(HookOutcome::Nothing));
        }
        let may_be_idle = self.hooks.is_none() && !self.events.has_listeners();
        if may_be_idle && hooks.is_idle(point, &self.state, &self.options.env) {
            return Ok(Ok(HookOutcome::Nothing));
        }
        if self.hooks.is_none() {
            if point != HookPoint::BeforeExecution && self.has_unsaid() {
                // Hooks may do things to the world: what they see is on record.
                self.flush_changes().await?;
            }
            self.hooks = Some(self.round(ask));
        }
        let Some(parked) = &mut self.hooks else { return Ok(Ok(HookOutcome::Nothing)) };
        let came = parked.wait(&self.options).await;
        self.hooks = None;
        self.time_passed();
        let taken = came.map_or(Ok(HookOutcome::Nothing), |round| self.take_over(round));
        self.has_called_hooks |= matches!(point, HookPoint::OnError | HookPoint::AfterStep);
        // What is done before a step is part of the step, and a failed step has hooks still to come.
        if !matches!(point, HookPoint::BeforeStep | HookPoint::OnError) {
            self.record_work();
        }
        Ok(taken)
    }

    fn round(&self, ask: HookCall) -> CancelSafe<HookPass> {
        let (inference, mut state) = (self.inference(), Arc::clone(&self.state));
        CancelSafe::new(async move {
            let mut log = Vec::new();
            let cx = inference.hook_cx(&inference);
            let said =
                inference.agent.interceptor().call_hooks(&ask, &mut state, &mut log, &cx).await;
            let ledger = inference.ledger();
            HookPass { state, log, ledger, said }
        })
    }

    /// Applies the results of a round of hooks; of a failed round, only its spend.
    fn take_over(&mut self, round: HookPass) -> Result<HookOutcome, HookError> {
        // Hooks change a state only by what they log.
        if round.said.is_ok() && !round.log.is_empty() {
            let outbox = std::mem::take(&mut self.state_mut().outbox);
            let is_rebudgeted = self.state.budget() != round.state.budget();
            self.state = round.state;
            self.state_mut().outbox = outbox;
            if is_rebudgeted {
                self.set_limits();
            }
            for stamped in round.log {
                if let Change::StopRaised(signal) = &stamped.change {
                    let signal = signal.clone();
                    self.say(|_| StopSignalReceived { signal });
                }
                self.state_mut().outbox.push(stamped);
            }
        }
        if !round.ledger.spend.is_zero() {
            self.record(Change::SpendRecorded(round.ledger.spend));
        }
        round.said
    }
}
