//! The phases after a step, and after the last one.

use crate::{
    budget::Spend,
    change::Change,
    event::{
        ExecutionCompleted, ExecutionFailed, ExecutionStopped, StateUpdated, StepCompleted,
        TokenUsageReported,
    },
    execution::{Execution, ExecutionStatus},
    failure::Failure,
    interceptor::{HookCall, HookOutcome},
    run::{Phase, PhaseResult, Run, record::JournalFailed},
    step::Step,
    stop::{StopSignal, Strength},
};

/// The maximum number of times that an end is overruled without a step in between.
const MAX_VETOES: u32 = 8;

impl Run {
    /// Records a step without a response.
    pub(super) fn fail(&mut self, failure: Failure, spend: Spend) -> PhaseResult {
        let duration = self.lap();
        self.step_span.step_failed(&failure);
        self.record(Change::StepFailed { failure: failure.clone(), spend, duration });
        self.advance_to(Phase::Recover(failure))
    }

    /// Calls hooks to decide whether the run continues after a failed step.
    pub(super) async fn recover(&mut self, failure: Failure) -> Result<PhaseResult, JournalFailed> {
        match self.ask(HookCall::OnError(failure.clone())).await? {
            Ok(HookOutcome::Retry) => (),
            Ok(_) => self.failure = Some(failure),
            Err(error) => self.failure = Some(Failure::from(&error)),
        }
        Ok(self.advance_to(Phase::AfterStep))
    }

    pub(super) async fn after_step(&mut self) -> Result<PhaseResult, JournalFailed> {
        if let Err(error) = self.ask(HookCall::AfterStep).await? {
            self.failure = self.failure.take().or(Some(Failure::from(&error)));
        }
        self.say_step();
        Ok(self.advance_to(Phase::Decide))
    }

    /// Records that hooks were called about the last step, so that a run that resumes from a
    /// returned state does not call them again. No other record shows it if they did nothing.
    pub(super) fn note_hooks_called(&mut self) {
        let awaits_hooks = self.state.execution().is_some_and(|it| it.awaits_hooks);
        if std::mem::take(&mut self.has_called_hooks) && awaits_hooks {
            let time = self.lap();
            self.record(Change::Worked(time));
        }
    }

    fn say_step(&mut self) {
        if !self.events.has_listeners() {
            return;
        }
        let Some(step) = self.state.last_step() else { return };
        let (completed, reported) = (completed(step), reported(step));
        self.say(|_| completed);
        if let Some(reported) = reported {
            self.say(|_| reported);
        }
        self.say(|run| StateUpdated {
            status: run.state.status().as_str().into(),
            step_count: run.state.step_count(),
        });
    }

    /// Calls hooks to decide about the end, and takes the last messages of the user.
    pub(super) async fn stop(
        &mut self,
        signal: Option<StopSignal>,
        follows_step: bool,
    ) -> Result<PhaseResult, JournalFailed> {
        let word = match self.ask(HookCall::OnStop(signal)).await? {
            Ok(word) => word,
            Err(error) => {
                return Ok(
                    self.advance_to(Phase::Close(ExecutionStatus::Failed(Failure::from(&error))))
                );
            }
        };
        let signals = self.state.execution().map(Execution::signals).unwrap_or_default();
        let signal = StopSignal::strongest(signals).cloned();
        if signals.iter().any(|it| it.strength() == Strength::Hard) {
            let messages = self.inbox.close();
            self.take_messages(messages);
            return Ok(self.advance_to(Phase::Close(status_of(signal))));
        }
        let asked =
            self.state.execution().is_some_and(|it| it.continuation_requested_by().is_some());
        // An ending that is overruled again and again without a step between is an ending.
        let goes_on = (asked || word == HookOutcome::Continue) && self.vetoes < MAX_VETOES;
        self.vetoes += 1;
        let messages = if goes_on { self.inbox.drain() } else { self.inbox.drain_or_close() };
        let is_steered = self.take_messages(messages);
        if is_steered || goes_on {
            let by = if is_steered { "user" } else { "on_stop" };
            if !asked {
                self.record(Change::ContinuationRequested { by: by.into() });
            }
            self.go_on();
            // The state was handed out before the attempt to begin a step.
            return Ok(if follows_step { PhaseResult::StepDone } else { PhaseResult::Continue });
        }
        Ok(self.advance_to(Phase::Close(status_of(signal))))
    }

    pub(super) async fn close(
        &mut self,
        status: ExecutionStatus,
    ) -> Result<PhaseResult, JournalFailed> {
        let messages = self.inbox.close();
        self.take_messages(messages);
        self.record_work();
        let status = match self.ask(HookCall::AfterExecution(status.clone())).await? {
            Ok(_) => status,
            Err(error) => match status {
                failed @ ExecutionStatus::Failed(_) => failed,
                _ => ExecutionStatus::Failed(Failure::from(&error)),
            },
        };
        self.record(Change::ExecutionEnded(status));
        self.say_end();
        (self.point, self.state_ready) = (Phase::Over, true);
        self.flush_changes().await?;
        Ok(PhaseResult::Finished)
    }

    fn say_end(&mut self) {
        self.span.run_ended(&self.state);
        let (steps, usage) = (self.state.step_count(), self.state.usage());
        match self.state.status().clone() {
            ExecutionStatus::Stopped(signal) => self.say(|_| ExecutionStopped { signal, steps }),
            ExecutionStatus::Failed(failure) => {
                self.say(|_| ExecutionFailed { failure, steps, usage });
            }
            _ => (),
        }
        self.say(|run| ExecutionCompleted {
            status: run.state.status().as_str().into(),
            steps,
            usage,
            errors: run.state.errors().count(),
        });
    }
}

fn status_of(signal: Option<StopSignal>) -> ExecutionStatus {
    match signal {
        Some(signal) if signal.reason.is_forced() => ExecutionStatus::Stopped(signal),
        _ => ExecutionStatus::Completed,
    }
}

fn completed(step: &Step) -> StepCompleted {
    StepCompleted {
        step: step.number(),
        kind: step.kind(),
        has_tool_calls: step.has_tool_calls(),
        errors: step.errors().collect(),
        usage: step.usage(),
        finish: step.finish_reason().cloned(),
        duration: step.duration(),
    }
}

fn reported(step: &Step) -> Option<TokenUsageReported> {
    let usage = step.usage();
    (usage.total() > 0).then(|| TokenUsageReported {
        operation: "step".into(),
        step: step.number(),
        usage,
    })
}
