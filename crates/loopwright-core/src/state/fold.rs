//! Application of changes to a state: the only place where states change.

use std::{sync::Arc, time::Duration};

use loopwright_messages::{
    ExecutionId, Message, Role, SectionName, ToolExchange, Turn, TurnBody, TurnMeta,
};

use crate::{
    budget::Spend,
    change::{Change, ChangeRecord, Edit},
    clock::Timestamp,
    continuation::{EVALUATIONS_NAME, Evaluation, decisive},
    execution::{Baseline, Execution, ExecutionStatus},
    failure::Failure,
    key::{Namespace, StateKey},
    outcome::{ApprovalDecision, StateEffect, ToolOutcome},
    pause::RequestKind,
    state::AgentState,
    step::{CallState, CallTimes, Few, OpenStep, Step, StepKind, StepResponse},
    stop::{StopReason, Strength},
};

/// An invalid history.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "change {seq} ({change}) cannot be applied to the state: {reason}; the journal is damaged or belongs to another state"
)]
pub struct ReplayError {
    /// The number of the change.
    pub seq: u64,
    /// The kind of change.
    pub change: &'static str,
    /// The missing precondition.
    pub reason: &'static str,
}

impl AgentState {
    /// Applies the changes of a journal, in their order.
    ///
    /// # Errors
    ///
    /// Returns an error with the number of the change if a change does not follow from the state.
    pub fn replay(
        mut self,
        changes: impl IntoIterator<Item = ChangeRecord>,
    ) -> Result<Self, ReplayError> {
        for stamped in changes {
            self.apply(&stamped)?;
        }
        Ok(self)
    }

    pub(crate) fn apply(&mut self, stamped: &ChangeRecord) -> Result<(), ReplayError> {
        self.fold(stamped).map_err(|reason| ReplayError {
            seq: self.seq,
            change: stamped.change.name(),
            reason,
        })?;
        self.seq += 1;
        self.touch(stamped.at);
        Ok(())
    }

    /// Stamps the changes made outside a run.
    pub(crate) fn stamp(&mut self, now: Timestamp) {
        if self.outbox.stamp(now) {
            self.touch(now);
        }
    }

    fn touch(&mut self, at: Timestamp) {
        self.created_at.get_or_insert(at);
        self.updated_at = Some(at);
    }

    fn fold(&mut self, stamped: &ChangeRecord) -> Result<(), &'static str> {
        match &stamped.change {
            Change::ExecutionStarted { agent, execution } => {
                self.id.get_or_insert_with(|| agent.clone());
                self.open_execution(execution.clone(), stamped.at);
            }
            Change::StateEdited { edit, .. } => self.apply_edit(edit),
            Change::MessageSteered(message) => self.say(message),
            Change::ModelResponded(thought) => {
                self.spend(thought.spend)?;
                self.open_step()?.answer(Arc::clone(thought), stamped.at);
            }
            Change::ToolCallCompleted { call, outcome, spend, started_at } => {
                self.spend(*spend)?;
                let open = self.open_step()?;
                open.set(*call, CallState::Completed(Arc::clone(outcome)))?;
                open.time(*call, *started_at, stamped.at);
            }
            Change::ApprovalRequested { call, question, arguments } => {
                let open = self.open_step()?;
                open.set(*call, CallState::AwaitingApproval(question.clone()))?;
                if let Some(arguments) = arguments {
                    open.keep(*call, arguments, None);
                }
            }
            Change::AnswerRequested { call, arguments, pause, spend } => {
                self.spend(*spend)?;
                let open = self.open_step()?;
                open.set(*call, CallState::AwaitingAnswer)?;
                open.keep(*call, arguments, Some(pause));
            }
            Change::ToolCallStarted { call, attempt, arguments } => {
                let started =
                    CallState::Started { attempt: *attempt, arguments: arguments.clone() };
                let open = self.open_step()?;
                open.set(*call, started)?;
                open.time(*call, Some(stamped.at), stamped.at);
            }
            Change::StepCompleted { duration } => self.close_step(*duration)?,
            Change::StepFailed { failure, spend, duration } => {
                self.spend(*spend)?;
                self.fail_step(failure, *spend, *duration, stamped.at)?;
            }
            Change::SpendRecorded(spend) => self.spend(*spend)?,
            Change::Worked(time) => self.work(*time)?,
            Change::ExecutionCleared => self.clear_execution(),
            Change::AnswerInterrupted { message } => self.keep_interrupted_answer(message)?,
            Change::ExecutionEnded(status) => {
                self.seal_open_step();
                let is_forced =
                    matches!(status, ExecutionStatus::Stopped(_) | ExecutionStatus::Failed(_));
                let is_unanswered = is_forced && !self.is_answered();
                let execution = self.running()?;
                execution.fold(&stamped.change, stamped.at);
                execution.is_unanswered = is_unanswered;
            }
            change => self.running()?.fold(change, stamped.at),
        }
        Ok(())
    }

    /// Returns `true` if the conversation ends with an answer, or is empty. The text of an interrupted answer
    /// is the only reply of an execution that no step recorded.
    fn is_answered(&self) -> bool {
        let Some(last) = self.transcript().last() else { return true };
        let is_interrupted = last.meta().execution.is_some() && last.meta().step.is_none();
        matches!(last.body(), TurnBody::Reply(_)) && !is_interrupted
    }

    /// Ends the open step with the part of the response that arrived.
    fn keep_interrupted_answer(&mut self, message: &Message) -> Result<(), &'static str> {
        let execution = self.running()?;
        let open = execution.open.take_if(|open| open.thought.is_none());
        let open = open.ok_or("no open step is waiting for a response")?;
        // No step recorded it: the step starts again under the same number.
        let meta = TurnMeta { execution: Some(execution.id.clone()), step: None, is_trace: false };
        let turn = Turn::new(TurnBody::Reply(message.clone()))
            .map_err(|_| "the response is not from the model, or it calls tools")?;
        self.context.sections.messages_mut().push(Arc::new(turn.with_meta(meta)));
        self.append_all(&open.said);
        Ok(())
    }

    fn running(&mut self) -> Result<&mut Execution, &'static str> {
        self.execution.as_mut().ok_or("no execution exists")
    }

    fn open_step(&mut self) -> Result<&mut OpenStep, &'static str> {
        self.running()?.open.as_mut().ok_or("no step is open")
    }

    fn open_execution(&mut self, id: ExecutionId, at: Timestamp) {
        self.seal_open_step();
        self.executions += 1;
        self.execution = Some(Execution::new(id, at));
    }

    pub(crate) fn clear_execution(&mut self) {
        self.seal_open_step();
        self.execution = None;
    }

    fn spend(&mut self, spend: Spend) -> Result<(), &'static str> {
        self.running()?.spent += spend;
        self.total_spent += spend;
        Ok(())
    }

    fn work(&mut self, time: Duration) -> Result<(), &'static str> {
        let execution = self.running()?;
        execution.active_time += time;
        if let Some(open) = &mut execution.open {
            open.worked += time;
        }
        execution.awaits_hooks = false;
        self.total_worked += time;
        Ok(())
    }

    /// Appends a message to the conversation, or after the open step.
    fn say(&mut self, message: &Message) {
        if let Some(open) = self.execution.as_mut().and_then(|it| it.open.as_mut()) {
            open.said.push(message.clone());
        } else {
            self.append(SectionName::MESSAGES, message);
        }
    }

    fn append(&mut self, section: &str, message: &Message) {
        if message.is_empty() {
            return;
        }
        // A message that calls tools is not a turn: only the loop records exchanges.
        if let Ok(turn) = Turn::from_message(message.clone()) {
            self.context.sections.entry(section).push(turn);
        }
    }

    fn append_all(&mut self, messages: &[Message]) {
        for message in messages {
            self.append(SectionName::MESSAGES, message);
        }
    }

    pub(crate) fn apply_edit(&mut self, edit: &Edit) {
        match edit {
            Edit::Append { section, message } if section.as_str() == SectionName::MESSAGES => {
                self.take_up_again(message);
                self.say(message);
            }
            Edit::Append { section, message } => self.append(section.as_str(), message),
            Edit::Replace { section, turns, .. } => {
                *self.context.sections.entry(section.as_str()) = turns.clone();
            }
            Edit::Move { from, to, turns } => self.shift(from.as_str(), to.as_str(), *turns),
            Edit::Set(slot, value) => self.put(slot, value.clone()),
            Edit::SystemPrompt(prompt) => self.context.system_prompt.clone_from(prompt),
            Edit::ResponseFormat(format) => self.context.response_format.clone_from(format),
            Edit::Llm(llm) => self.llm.clone_from(llm),
            Edit::Budget(budget) => self.budget = *budget,
            Edit::RenewBudget => {
                if let Some(execution) = &mut self.execution {
                    execution.renew_budget();
                }
            }
            Edit::Parent(parent) => self.parent = Some(parent.clone()),
            Edit::Resolve { call, resolution } => self.resolve(*call, &[], resolution),
            Edit::ResolveNested { path, resolution } => {
                if let Some((call, below)) = path.split_first() {
                    self.resolve(*call, below, resolution);
                }
            }
        }
    }

    /// Records a decision about a waiting call. Ignores a decision that does not match.
    fn resolve(&mut self, call: u16, below: &[u16], decision: &ApprovalDecision) {
        let Ok(open) = self.open_step() else { return };
        match open.calls.get_mut(usize::from(call)) {
            Some(state @ (CallState::AwaitingApproval(_) | CallState::Queued))
                if below.is_empty() && RequestKind::Approval.accepts(decision) =>
            {
                *state = CallState::Decided(decision.clone());
                if let ApprovalDecision::ApproveWith { arguments } = decision {
                    open.keep(call, arguments, None);
                }
            }
            Some(CallState::AwaitingAnswer) => {
                let note = open.notes.iter_mut().find(|it| it.call == call);
                if let Some(pause) = note.and_then(|it| it.pause.as_mut()) {
                    Arc::make_mut(pause).decide(below, decision);
                }
            }
            _ => (),
        }
    }

    /// Resumes an execution that ended before an answer because the user sent a message: its budget
    /// is renewed, and a note follows the unanswered message.
    fn take_up_again(&mut self, message: &Message) {
        let Some(execution) = self.execution.as_mut().filter(|it| it.is_unanswered) else {
            return;
        };
        if message.role() != Role::User || message.is_empty() {
            return;
        }
        let is_users = execution.signals.iter().any(|it| it.reason == StopReason::UserRequested);
        let reason = if is_users { "interrupted by the user" } else { "the run ended early" };
        execution.renew_budget();
        execution.steps_before_message = execution.step_count();
        let is_open =
            self.transcript().last().is_some_and(|turn| turn.message().role() == Role::User);
        if is_open {
            self.append(
                SectionName::MESSAGES,
                &Message::assistant(format!("[No answer: {reason}.]")),
            );
        }
    }

    fn shift(&mut self, from: &str, to: &str, count: usize) {
        let source = self.context.sections.entry(from);
        let oldest = source.prefix(count);
        *source = source.iter_from(count).cloned().collect();
        self.context.sections.entry(to).extend(oldest.iter().cloned());
    }

    fn put(&mut self, slot: &StateKey, value: Option<serde_json::Value>) {
        let key = Arc::clone(&slot.key);
        match (slot.space, &mut self.execution) {
            (Namespace::Metadata, _) => self.context.metadata.put(key, value),
            (Namespace::Session, _) => self.context.values.put(key, value),
            (Namespace::Execution, Some(execution)) => execution.values.put(key, value),
            (Namespace::Execution, None) => (),
        }
    }

    fn close_step(&mut self, duration: Duration) -> Result<(), &'static str> {
        let execution = self.running()?;
        let open = execution.open.as_ref().ok_or("no step is open")?;
        let thought = Arc::clone(open.thought.as_ref().ok_or("the step has no response")?);
        let outcomes = open.outcomes().ok_or("a call has not completed")?;
        let open = execution.open.take().ok_or("no step is open")?;
        let id = execution.id.clone();
        let turn = record(&thought, &outcomes, &id, open.number);
        if let Some(turn) = &turn {
            self.context.sections.messages_mut().push(Arc::clone(turn));
        }
        for effect in outcomes.iter().filter_map(|it| it.output()).flat_map(|it| &it.state_effects)
        {
            self.take_effect(effect);
        }
        self.append_all(&open.said);
        let step = Step {
            execution: id,
            number: open.number,
            kind: kind_of(&outcomes),
            turn,
            outcomes,
            times: open.times,
            rewritten: open.notes.into_iter().filter_map(|it| Some((it.call, it.shown?))).collect(),
            failure: None,
            finish: Some(thought.finish_reason.clone()),
            spend: thought.spend,
            started_at: open.started_at,
            duration: open.worked + duration,
            continued_by: None,
        };
        self.push_step(step, duration)
    }

    fn take_effect(&mut self, effect: &StateEffect) {
        match effect {
            StateEffect::Set(slot, value) => self.put(slot, value.clone()),
            StateEffect::Append(message) => self.append(SectionName::MESSAGES, message),
        }
    }

    fn fail_step(
        &mut self,
        failure: &Failure,
        spend: Spend,
        duration: Duration,
        at: Timestamp,
    ) -> Result<(), &'static str> {
        let execution = self.running()?;
        let open = execution.open.take();
        if open.as_ref().is_some_and(|it| it.thought.is_some()) {
            execution.open = open;
            return Err("the step already has a response");
        }
        let (number, id) = (execution.step_count() + 1, execution.id.clone());
        let started_at = open.as_ref().map_or(at, |it| it.started_at);
        let worked = open.as_ref().map_or(Duration::ZERO, |it| it.worked);
        let said = open.map(|it| it.said).unwrap_or_default();
        self.append_all(&said);
        let step = Step {
            execution: id,
            number,
            kind: StepKind::Error,
            turn: None,
            outcomes: Few::new(),
            times: Few::new(),
            rewritten: Vec::new(),
            failure: Some(Box::new(failure.clone())),
            finish: None,
            spend,
            started_at,
            duration: worked + duration,
            continued_by: None,
        };
        self.push_step(step, duration)
    }

    /// Adds a step. `duration` is its active time that is not yet counted.
    fn push_step(&mut self, step: Step, duration: Duration) -> Result<(), &'static str> {
        self.total_steps += 1;
        self.total_worked += duration;
        let execution = self.running()?;
        execution.active_time += duration;
        execution.push(step);
        Ok(())
    }

    /// Ends a step that was left open, so that no response and no outcome is lost.
    pub(crate) fn seal_open_step(&mut self) {
        let Some(open) = self.execution.as_mut().and_then(|it| it.open.as_mut()) else { return };
        if open.thought.is_none() {
            let said = std::mem::take(&mut open.said);
            if let Some(execution) = &mut self.execution {
                execution.open = None;
            }
            self.append_all(&said);
            return;
        }
        for state in &mut open.calls {
            let outcome = match state {
                CallState::Completed(_) => continue,
                CallState::Started { .. } => ToolOutcome::Unknown,
                CallState::AwaitingAnswer => ToolOutcome::Cancelled { started: true },
                CallState::AwaitingApproval(question) if question.is_recovery() => {
                    ToolOutcome::Unknown
                }
                _ => ToolOutcome::Cancelled { started: false },
            };
            *state = CallState::Completed(Arc::new(outcome));
        }
        // The step has an answer and all its calls are over, so that it can be closed.
        let closed = self.close_step(Duration::ZERO);
        debug_assert_eq!(closed, Ok(()));
    }
}

impl Execution {
    fn fold(&mut self, change: &Change, at: Timestamp) {
        match change {
            Change::ExecutionResumed => self.resume(),
            Change::StepStarted { attempt } => {
                let number = self.step_count() + 1;
                self.awaits_hooks = false;
                self.note_decisive_criterion();
                let open = self.open.get_or_insert_with(|| OpenStep::new(number, at));
                open.attempt = *attempt;
            }
            Change::StopRaised(signal) => {
                self.awaits_hooks = false;
                self.signals.push(signal.clone());
            }
            Change::StopWithdrawn(reason) => self.withdraw(|it| it == *reason),
            Change::ContinuationRequested { by } => self.continuation = Some(Arc::clone(by)),
            Change::StopOverruled => {
                self.awaits_hooks = false;
                self.withdraw(|_| true);
                if let Some(by) = self.continuation.take() {
                    self.note_continued(by);
                }
            }
            Change::JournalFailed(failure) => {
                self.status = ExecutionStatus::Failed(failure.clone());
            }
            Change::ExecutionPaused => self.status = ExecutionStatus::Paused,
            Change::ExecutionEnded(status) => {
                self.status = status.clone();
                self.awaits_hooks = false;
                self.ended_at = Some(at);
                self.continuation = None;
            }
            _ => (),
        }
    }

    /// Resumes the execution. Clears the reasons of its end, except limits, which are checked
    /// again.
    fn resume(&mut self) {
        if std::mem::take(&mut self.is_unanswered) {
            self.signals.clear();
            self.continuation = None;
            self.consecutive_failures = 0;
            self.values.remove(EVALUATIONS_NAME);
        }
        // An interruption of an earlier run does not stop the one that resumes.
        self.signals.retain(|it| it.reason != StopReason::UserRequested);
        self.status = ExecutionStatus::InProgress;
        self.ended_at = None;
    }

    /// Records the criterion that requested the step after a response, if it was the only request.
    fn note_decisive_criterion(&mut self) {
        let is_answered = self.last_step().is_some_and(|step| {
            step.kind == StepKind::FinalResponse && step.continued_by.is_none()
        });
        if !is_answered || self.open.is_some() {
            return;
        }
        let evaluations = self.values.typed::<Vec<Evaluation>>(EVALUATIONS_NAME);
        let by = evaluations.as_deref().and_then(decisive).map(|it| Arc::clone(&it.criterion));
        if let Some(by) = by {
            self.note_continued(by);
        }
    }

    fn note_continued(&mut self, by: Arc<str>) {
        if let Some(step) = self.steps.back_mut() {
            Arc::make_mut(step).continued_by = Some(by);
        }
    }

    fn renew_budget(&mut self) {
        self.renewed = Baseline {
            steps: self.step_count(),
            tokens: self.spent.usage.total(),
            cost: self.spent.cost,
            time: self.active_time,
        };
        self.signals.retain(|it| !it.reason.is_limit());
        self.values.remove(EVALUATIONS_NAME);
    }

    /// Removes the soft signals with these reasons. Hard ones always stay.
    fn withdraw(&mut self, is_withdrawn: impl Fn(StopReason) -> bool) {
        self.signals.retain(|it| it.strength() == Strength::Hard || !is_withdrawn(it.reason));
    }

    #[expect(clippy::cast_possible_truncation, reason = "a step has at most 65,535 calls")]
    fn push(&mut self, step: Step) {
        self.values.remove(EVALUATIONS_NAME);
        self.tool_errors += step.outcomes.iter().filter(|it| it.is_error()).count() as u32;
        if step.kind == StepKind::Error {
            self.failed_steps += 1;
        }
        self.consecutive_failures =
            if step.has_errors() { self.consecutive_failures + 1 } else { 0 };
        self.awaits_hooks = true;
        self.steps.push_back(Arc::new(step));
    }
}

impl OpenStep {
    fn new(number: u32, started_at: Timestamp) -> Self {
        Self {
            number,
            attempt: 0,
            started_at,
            worked: Duration::ZERO,
            thought: None,
            calls: Few::new(),
            times: Few::new(),
            notes: Vec::new(),
            said: Vec::new(),
        }
    }

    fn answer(&mut self, thought: Arc<StepResponse>, at: Timestamp) {
        self.calls = thought.message.tool_calls().map(|_| CallState::Queued).collect();
        self.times = Few::from_elem(CallTimes::at(at), self.calls.len());
        self.thought = Some(thought);
    }

    fn time(&mut self, call: u16, started_at: Option<Timestamp>, ended_at: Timestamp) {
        if let Some(times) = self.times.get_mut(usize::from(call)) {
            let started_at = started_at.unwrap_or(times.started_at);
            *times = CallTimes { started_at, ended_at };
        }
    }

    fn set(&mut self, call: u16, to: CallState) -> Result<(), &'static str> {
        let state = self.calls.get_mut(usize::from(call)).ok_or("unknown call")?;
        if matches!(state, CallState::Completed(_)) {
            return Err("the call has already completed");
        }
        if matches!(to, CallState::Completed(_)) {
            // The step keeps the arguments that were shown.
            self.notes.retain(|it| it.call != call || it.shown.is_some());
        }
        *state = to;
        Ok(())
    }
}

fn kind_of(outcomes: &[Arc<ToolOutcome>]) -> StepKind {
    if outcomes.is_empty() { StepKind::FinalResponse } else { StepKind::ToolExecution }
}

/// Creates the step's turn. Returns `None` if the model's message is empty.
fn record(
    thought: &StepResponse,
    outcomes: &[Arc<ToolOutcome>],
    execution: &ExecutionId,
    step: u32,
) -> Option<Arc<Turn>> {
    let message = thought.message.clone();
    let body = if outcomes.is_empty() && message.is_empty() {
        return None;
    } else if outcomes.is_empty() {
        TurnBody::Reply(message)
    } else {
        let results = outcomes.iter().map(|it| it.to_result());
        TurnBody::ToolExchange(ToolExchange::new(message, results).ok()?)
    };
    let is_trace = !outcomes.is_empty();
    let meta = TurnMeta { execution: Some(execution.clone()), step: Some(step), is_trace };
    Some(Arc::new(Turn::new(body).ok()?.with_meta(meta)))
}
