//! What comes after a step, and after the last one.

use crate::{
    budget::Spend,
    change::Change,
    event::{
        ExecutionCompleted, ExecutionFailed, ExecutionStopped, StateUpdated, StepCompleted,
        TokenUsageReported,
    },
    execution::{Execution, Status},
    failure::Failure,
    interceptor::{Ask, Word},
    run::{Point, Run, Turn, record::Broken},
    step::Step,
    stop::{StopSignal, Strength},
};

/// How often an ending may be overruled without a step between.
const MAX_VETOES: u32 = 8;

impl Run {
    /// Records a step that has no answer.
    pub(super) fn fail(&mut self, failure: Failure, spend: Spend) -> Turn {
        let took = self.lap();
        self.record(Change::StepFailed { failure: failure.clone(), spend, took });
        self.go(Point::Recover(failure))
    }

    /// Asks whether the run goes on in spite of a failed step.
    pub(super) async fn recover(&mut self, failure: Failure) -> Result<Turn, Broken> {
        match self.ask(Ask::OnError(failure.clone())).await? {
            Ok(Word::Retry) => (),
            Ok(_) => self.failure = Some(failure),
            Err(error) => self.failure = Some(Failure::from(&error)),
        }
        Ok(self.go(Point::AfterStep))
    }

    pub(super) async fn after_step(&mut self) -> Result<Turn, Broken> {
        if let Err(error) = self.ask(Ask::AfterStep).await? {
            self.failure = self.failure.take().or(Some(Failure::from(&error)));
        }
        self.say_step();
        Ok(self.go(Point::Decide))
    }

    /// Records that hooks were called about the last step, so that a run that resumes from a state that is
    /// handed out does not call them again. Nothing else shows it if they did nothing.
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

    /// Gives hooks the last word on an ending, and the user a last chance to say something.
    pub(super) async fn stop(
        &mut self,
        signal: Option<StopSignal>,
        follows_step: bool,
    ) -> Result<Turn, Broken> {
        let word = match self.ask(Ask::OnStop(signal)).await? {
            Ok(word) => word,
            Err(error) => return Ok(self.go(Point::Close(Status::Failed(Failure::from(&error))))),
        };
        let signals = self.state.execution().map(Execution::signals).unwrap_or_default();
        let signal = StopSignal::strongest(signals).cloned();
        if signals.iter().any(|it| it.strength() == Strength::Hard) {
            let messages = self.inbox.close();
            self.take_messages(messages);
            return Ok(self.go(Point::Close(status_of(signal))));
        }
        let asked =
            self.state.execution().is_some_and(|it| it.continuation_requested_by().is_some());
        // An ending that is overruled again and again without a step between is an ending.
        let goes_on = (asked || word == Word::Continue) && self.vetoes < MAX_VETOES;
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
            return Ok(if follows_step { Turn::Step } else { Turn::On });
        }
        Ok(self.go(Point::Close(status_of(signal))))
    }

    pub(super) async fn close(&mut self, status: Status) -> Result<Turn, Broken> {
        let messages = self.inbox.close();
        self.take_messages(messages);
        self.record_work();
        let status = match self.ask(Ask::AfterExecution(status.clone())).await? {
            Ok(_) => status,
            Err(error) => match status {
                failed @ Status::Failed(_) => failed,
                _ => Status::Failed(Failure::from(&error)),
            },
        };
        self.record(Change::Closed(status));
        self.say_end();
        (self.point, self.is_due) = (Point::Over, true);
        self.flush().await?;
        Ok(Turn::Over)
    }

    fn say_end(&mut self) {
        let (steps, usage) = (self.state.step_count(), self.state.usage());
        match self.state.status().clone() {
            Status::Stopped(signal) => self.say(|_| ExecutionStopped { signal, steps }),
            Status::Failed(failure) => self.say(|_| ExecutionFailed { failure, steps, usage }),
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

fn status_of(signal: Option<StopSignal>) -> Status {
    match signal {
        Some(signal) if signal.reason.is_forced() => Status::Stopped(signal),
        _ => Status::Completed,
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
        took: step.duration(),
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
