//! The first half of a step: produces a response from the state.

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures_util::FutureExt as _;
use loopwright_messages::{Message, Role};

use crate::{
    budget::Spend,
    change::Change,
    driver::ThinkCx,
    failure::{Failure, FailureKind, Panicked, panic_message},
    journal::{EffectRecord, contained},
    run::{
        Phase, PhaseResult, Run, ThinkResult, cancel_safe::CancelSafe, record::JournalFailed,
        sources::alongside,
    },
    shared::lock,
    step::{OpenStep, StepResponse},
    step_error::StepError,
    stop::StopReason,
    trace,
};

impl Run {
    /// Records that a step starts, or starts again.
    pub(super) fn begin_step(&mut self) -> PhaseResult {
        let attempt =
            self.state.execution().and_then(|it| it.open_step()).map_or(0, OpenStep::attempt);
        if attempt >= self.options.max_attempts {
            let text = format!(
                "the step was interrupted {attempt} times; raise `max_attempts` to try again"
            );
            return self.fail(Failure::new(FailureKind::CrashLoop, text), Spend::default());
        }
        self.vetoes = 0;
        self.record(Change::StepStarted { attempt: attempt + 1 });
        let open = self.state.execution().and_then(|it| it.open_step());
        let number = open.map_or(0, OpenStep::number);
        self.step_span = trace::step(&self.span, number, attempt + 1);
        self.advance_to(Phase::Think)
    }

    pub(super) async fn think(&mut self) -> Result<PhaseResult, JournalFailed> {
        if self.thinking.is_none() {
            self.flush_changes().await?;
            self.thinking = Some(self.start_thinking());
        }
        let Some(parked) = &mut self.thinking else { return Ok(PhaseResult::Continue) };
        let came = alongside(self.sources.as_deref_mut(), parked.wait(&self.options)).await;
        self.thinking = None;
        self.time_passed();
        match came {
            Some(ThinkResult { journal: Some(error), .. }) => {
                Err(self.abort(Failure::from_error(FailureKind::Journal, &error)))
            }
            Some(thinking) => Ok(self.take_thought(thinking)),
            None => Ok(self.advance_to(Phase::Decide)),
        }
    }

    fn start_thinking(&self) -> CancelSafe<ThinkResult> {
        let (inference, state) = (self.inference(), Arc::clone(&self.state));
        let (memory, journal) = (self.memory.clone(), self.options.journal.clone());
        let key = journal.as_ref().and_then(|_| self.key());
        CancelSafe::new(self.step_span.around(async move {
            if let (Some(journal), Some(key)) = (journal, key) {
                match contained(async { journal.lookup(&key).await }).await {
                    Ok(EffectRecord::Response(thought)) => {
                        return ThinkResult::known(Ok(StepResponse::clone(&thought)));
                    }
                    Ok(_) => (),
                    Err(error) => {
                        return ThinkResult {
                            journal: Some(error),
                            ..ThinkResult::known(Err(StepError::Cancelled))
                        };
                    }
                }
            }
            let cx = ThinkCx { state: &state, inference: &inference, memory: &memory };
            let driver = inference.agent.driver();
            let thought =
                AssertUnwindSafe(async { driver.think(&state, &cx).await }).catch_unwind().await;
            let mut thought = thought.unwrap_or_else(|payload| {
                Err(StepError::Driver(Panicked(panic_message(&*payload)).into()))
            });
            let ledger = inference.ledger();
            if let Ok(thought) = &mut thought {
                if ledger.calls > 0 || ledger.answered_by_hook {
                    thought.spend = ledger.spend;
                }
                thought.answered_by =
                    thought.answered_by.take().or_else(|| lock(&memory).source.take());
            }
            ThinkResult { thought, ledger, journal: None }
        }))
    }

    fn take_thought(&mut self, thinking: ThinkResult) -> PhaseResult {
        let ThinkResult { thought, ledger, .. } = thinking;
        match thought {
            Ok(thought) => {
                if thought.message.role() != Role::Assistant {
                    let text = "the driver's response must have role `assistant`";
                    return self.fail(Failure::new(FailureKind::Driver, text), ledger.spend);
                }
                let calls = thought.message.tool_calls().count();
                if calls > usize::from(u16::MAX) {
                    let text =
                        format!("the model made too many tool calls in one response: {calls}");
                    return self.fail(Failure::new(FailureKind::Model, text), ledger.spend);
                }
                self.record(Change::ModelResponded(thought.into()));
                self.advance_to(Phase::Act)
            }
            Err(StepError::Stopped(signal)) => {
                self.charge(ledger.spend);
                self.keep_interrupted_answer("stopped by a limit or a hook");
                self.signal(signal);
                self.advance_to(Phase::Decide)
            }
            Err(StepError::Cancelled) => {
                self.charge(ledger.spend);
                let signal = self.inbox.cancel_reason();
                let is_users = signal.reason == StopReason::UserRequested;
                let note = if is_users { "interrupted by the user" } else { &signal.message };
                self.keep_interrupted_answer(note);
                // Decided at once: nothing overrules a cancellation.
                self.options.cancel.cancel();
                self.advance_to(Phase::Decide)
            }
            Err(error) => self.fail(error.to_failure(), ledger.spend),
        }
    }

    /// Adds the text that the model had written before the interruption to the conversation.
    /// Incomplete reasoning and calls are discarded.
    fn keep_interrupted_answer(&mut self, note: &str) {
        let text = std::mem::take(&mut lock(&self.memory).unfinished);
        if text.trim().is_empty() || !self.agent.driver().answers_in_text() {
            return;
        }
        let message = Message::assistant(format!("{}\n\n[{note}]", text.trim_end()));
        self.record(Change::AnswerInterrupted { message });
    }

    pub(super) fn charge(&mut self, spend: Spend) {
        if !spend.is_zero() {
            self.record(Change::SpendRecorded(spend));
        }
    }
}

impl ThinkResult {
    fn known(thought: Result<StepResponse, StepError>) -> Self {
        Self { thought, ledger: crate::infer::SpendTally::default(), journal: None }
    }
}
