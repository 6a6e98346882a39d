//! The second half of a step: runs the calls of the response.
//!
//! Calls run in waves: all calls that can run together, or one that must run alone. For each wave,
//! the run decides about all calls, records their start, runs them concurrently, and records each
//! outcome when it arrives.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use loopwright_messages::FinishReason;

use crate::{
    agent::AgentLoop,
    budget::Spend,
    change::Change,
    clock::Timestamp,
    event::{ExecutionPaused, ToolApprovalRequested, ToolCallBlocked, ToolCallCompleted},
    executor::{AskedCall, CallContext, CallDisposition, FinishedCall, PausedCall, ReadyCall},
    hook::HookPoint,
    on_ask::OnAsk,
    outcome::{ApprovalRequest, Arguments, ToolOutcome},
    pause::PendingApproval,
    run::{
        Phase, PhaseResult, Run,
        batch::{Batch, BatchEvent, Queued},
        cancel_safe::CancelSafe,
        halt::StopMode,
        record::JournalFailed,
        running::Running,
        sources::alongside,
    },
    state::AgentState,
    step::{CallState, Few, OpenStep},
    stop::StopSignal,
    trace::{self, Span},
};

impl Run {
    pub(super) async fn act(&mut self) -> Result<PhaseResult, JournalFailed> {
        if self.batch.is_none() {
            if self.is_unlisted() {
                // A run that resumes with the calls of an answer has the tools that they name.
                self.update_tools().await;
            }
            self.batch = self.start_batch();
        }
        loop {
            let Some(batch) = &mut self.batch else { return Ok(self.close_step()) };
            if let Some(preparing) = &mut batch.preparing {
                let verdicts = preparing.wait(&self.options).await;
                batch.preparing = None;
                self.time_passed();
                match verdicts {
                    Some(verdicts) => self.take_verdicts(verdicts.into()),
                    None => self.give_up_deciding(),
                }
            } else if !batch.ready.is_empty() {
                self.flush_changes().await?;
                self.launch();
            } else if !batch.running.is_empty() {
                let event = batch.event(&self.options.cancel);
                let event = alongside(self.sources.as_deref_mut(), event).await;
                self.time_passed();
                self.take_event(event)?;
                if self.batch.as_ref().is_some_and(|it| !it.running.is_empty()) {
                    self.flush_changes().await?;
                }
            } else {
                if self.asks_hooks() {
                    // What hooks see is on record.
                    self.flush_changes().await?;
                }
                if !self.next_wave() {
                    return self.finish_batch().await;
                }
            }
        }
    }

    /// Sorts the calls of the open step. Returns `None` if there are none.
    fn start_batch(&mut self) -> Option<Batch> {
        let open = self.state.execution()?.open_step()?;
        let count = open.calls().len();
        if count == 0 {
            return None;
        }
        let thought = Arc::clone(open.thought()?);
        let left = self.time_left();
        let cut_off =
            matches!(thought.finish_reason, FinishReason::Length | FinishReason::ContentFilter);
        let now = self.now();
        let mut batch = Batch::new(self, thought, self.key()?, left);
        for index in (0..=u16::MAX).take(count) {
            let open = self.state.execution().and_then(|it| it.open_step());
            let state = open.and_then(|it| it.calls().get(usize::from(index)));
            let Some(state) = state.cloned() else { break };
            if cut_off && state == CallState::Queued {
                let reason = "the answer was cut off, so the call may be incomplete".to_owned();
                self.complete_call(&batch.acting, index, ToolOutcome::Skipped { reason }.into());
            } else if let Some(ended) = batch.sort(index, state, self, now) {
                if ended.signal.is_some() {
                    batch.halt = Some(StopMode::Stopped);
                }
                self.complete_call(&batch.acting, index, ended);
            }
        }
        batch.queue.reverse();
        if left.is_some_and(|it| it.is_zero()) && !batch.queue.is_empty() {
            // An answer that came too late, or a decision: no call begins.
            let signal = self.lateness();
            self.signal_once(signal);
            batch.halt = Some(StopMode::Stopped);
        }
        Some(batch)
    }

    /// Returns the time until the time limit or the deadline.
    fn time_left(&mut self) -> Option<Duration> {
        if self.state.budget().time.is_none() && self.state.budget().deadline.is_none() {
            return None;
        }
        let (working, now) = (self.working(), self.now());
        self.state.time_left(working, now)
    }

    fn lateness(&mut self) -> StopSignal {
        let (working, now) = (self.working(), self.now());
        self.state.lateness(working, now)
    }

    /// Returns `true` if hooks are called about the next calls.
    fn asks_hooks(&self) -> bool {
        let has_calls = self.batch.as_ref().is_some_and(|it| !it.queue.is_empty());
        has_calls && has_tool_hooks(&self.agent)
    }

    /// Starts the next calls that can run together; `false` if there are none.
    fn next_wave(&mut self) -> bool {
        let Some(batch) = &mut self.batch else { return false };
        if batch.queue.is_empty() && batch.asked.is_empty() && batch.waiting.is_empty() {
            return false;
        }
        if self.options.cancel.is_cancelled() {
            batch.halt = Some(StopMode::Cancelled);
        }
        if let Some(halt) = batch.halt.clone() {
            self.skip_rest(&halt);
            return false;
        }
        let wave = batch.next_group();
        if wave.is_empty() {
            return false;
        }
        let acting = Arc::clone(&batch.acting);
        if has_tool_hooks(&self.agent) {
            batch.deciding = wave.iter().map(|it| (it.index, it.again.is_some())).collect();
            let state = Arc::clone(&self.state);
            batch.preparing = Some(CancelSafe::new(join_all(
                wave.into_iter()
                    .map(move |it| prepare(Arc::clone(&acting), it, Arc::clone(&state))),
            )));
        } else {
            let verdicts = wave.into_iter().map(|it| (it.index, it.admit(&acting))).collect();
            self.take_verdicts(verdicts);
        }
        true
    }

    fn take_verdicts(&mut self, verdicts: Few<(u16, CallDisposition)>) {
        let Some(acting) = self.batch.as_ref().map(|it| Arc::clone(&it.acting)) else { return };
        let halt = verdicts.iter().find_map(|(_, it)| it.halt());
        for (index, verdict) in verdicts {
            match (verdict, &halt) {
                (CallDisposition::Run(ready), Some(halt)) => {
                    let has_begun = ready.attempt > 1 || acting.pause(index).is_some();
                    let outcome = if has_begun { ToolOutcome::Unknown } else { halt.outcome() };
                    self.complete_call(&acting, index, outcome.into());
                }
                (CallDisposition::Run(ready), None) => self.begin_call(index, ready),
                (CallDisposition::Over(ended), _) => self.complete_call(&acting, index, *ended),
                (CallDisposition::Ask(question), _) => {
                    if let Some(batch) = &mut self.batch {
                        batch.asked.push((index, question));
                    }
                }
                (CallDisposition::Stop(signal), _) => {
                    let reason = format!("the run was stopped: {}", signal.message);
                    self.complete_call(&acting, index, ToolOutcome::Skipped { reason }.into());
                    self.halt(StopMode::Stopped, Some(signal));
                }
            }
        }
    }

    /// Completes calls whose hooks did not finish.
    fn give_up_deciding(&mut self) {
        let Some(batch) = &mut self.batch else { return };
        let (acting, deciding) = (Arc::clone(&batch.acting), std::mem::take(&mut batch.deciding));
        for (index, begun_before) in deciding {
            let outcome =
                if begun_before { ToolOutcome::Unknown } else { StopMode::Cancelled.outcome() };
            self.complete_call(&acting, index, outcome.into());
        }
    }

    fn begin_call(&mut self, index: u16, ready: ReadyCall) {
        let now = self.now();
        if let Some(started) = ready.record(index) {
            self.record(started);
        }
        if let Some(batch) = &mut self.batch {
            batch.started_at = now;
            batch.ready.push((index, ready));
        }
    }

    fn launch(&mut self) {
        let Some(batch) = &mut self.batch else { return };
        for (index, ready) in std::mem::take(&mut batch.ready) {
            let (acting, state) = (Arc::clone(&batch.acting), Arc::clone(&self.state));
            let span = match acting.call(index) {
                Some(call) => trace::tool_call(&self.step_span, call, index),
                None => Span::none(),
            };
            batch.running.push(Box::pin(async move {
                let ended = span.around(acting.run(index, ready, &state)).await;
                span.tool_answered(&ended.outcome);
                (index, ended)
            }));
        }
    }

    fn take_event(&mut self, event: BatchEvent) -> Result<(), JournalFailed> {
        let Some(batch) = &mut self.batch else { return Ok(()) };
        let acting = Arc::clone(&batch.acting);
        match event {
            BatchEvent::Ended(index, ended) => {
                if let Some(failure) = ended.journal {
                    return Err(self.abort(failure));
                }
                match ended.pause {
                    None => self.complete_call(&acting, index, ended),
                    Some(pause) => match self.options.on_ask.refuse_pause(&acting, index, &pause) {
                        None => self.pause_call(index, *pause, ended.spend),
                        Some(refused) => {
                            let FinishedCall { outcome, signal, blocked_by, .. } = refused;
                            let ended =
                                FinishedCall { outcome, signal, blocked_by, pause: None, ..ended };
                            self.complete_call(&acting, index, ended);
                        }
                    },
                }
                Ok(())
            }
            BatchEvent::Cancelled => {
                self.halt(StopMode::Cancelled, None);
                Ok(())
            }
            BatchEvent::Late => {
                batch.deadline = None;
                let signal = self.lateness();
                self.tools_reason.set(signal.clone().into_final());
                self.cancel_tools(&acting);
                self.halt(StopMode::Stopped, Some(signal));
                Ok(())
            }
            BatchEvent::GraceOver => {
                batch.running = Running::NONE;
                let open = self.state.execution().and_then(|it| it.open_step());
                let begun = batch.begun(open.map_or(&[], OpenStep::calls));
                // What they consumed before they were given up is known all the same.
                let spent = acting.inference.take_spend();
                for index in begun {
                    let cancelled = FinishedCall::from(ToolOutcome::Cancelled { started: true });
                    self.complete_call(&acting, index, FinishedCall { has_run: true, ..cancelled });
                }
                self.cancel_tools(&acting);
                self.charge(spent);
                Ok(())
            }
        }
    }

    /// Cancels the running tools. Later calls have their own token.
    fn cancel_tools(&mut self, acting: &CallContext) {
        acting.cancel.cancel();
        self.tools = Arc::new(self.leftovers.0.child_token());
    }

    /// Prevents further calls from starting, and gives the running ones their grace period.
    fn halt(&mut self, halt: StopMode, signal: Option<StopSignal>) {
        if let Some(signal) = signal {
            self.signal(signal);
        }
        let grace = self.options.env.clock.sleep(self.options.grace);
        if let Some(batch) = &mut self.batch {
            batch.halt.get_or_insert(halt);
            batch.grace.get_or_insert(grace);
        }
    }

    fn skip_rest(&mut self, halt: &StopMode) {
        let Some(batch) = &mut self.batch else { return };
        let acting = Arc::clone(&batch.acting);
        let queued = std::mem::take(&mut batch.queue);
        let asked = std::mem::take(&mut batch.asked);
        for index in std::mem::take(&mut batch.waiting) {
            self.complete_call(&acting, index, ToolOutcome::Cancelled { started: true }.into());
        }
        let rest = queued.into_iter().rev().map(|it| (it.index, it.again.is_some()));
        let rest: Vec<_> = rest
            .chain(asked.into_iter().map(|(index, it)| (index, it.question.is_recovery())))
            .collect();
        for (index, begun_before) in rest {
            let outcome = if begun_before { ToolOutcome::Unknown } else { halt.outcome() };
            self.complete_call(&acting, index, outcome.into());
        }
    }

    /// Records the request of a tool in the middle of its call.
    fn pause_call(&mut self, call: u16, mut paused: PausedCall, spend: Spend) {
        paused.pause.expire_at(self.answer_deadline());
        let Some(batch) = &mut self.batch else { return };
        batch.waiting.push(call);
        let written =
            || batch.acting.call(call).map(|it| Arguments::new(Arc::clone(&it.arguments)));
        let Some(arguments) = paused.arguments.or_else(written) else { return };
        self.record(Change::AnswerRequested {
            call,
            arguments,
            pause: Arc::new(paused.pause),
            spend,
        });
    }

    /// Returns the deadline of a request that sets none.
    fn answer_deadline(&mut self) -> Option<Timestamp> {
        let limit = self.agent.executor().answer_within?;
        Some(self.now().plus(limit))
    }

    /// Records the outcome of a call, and emits the event.
    fn complete_call(&mut self, acting: &CallContext, index: u16, ended: FinishedCall) {
        let started_at = self.start_to_record(index, ended.has_run);
        let FinishedCall {
            outcome, spend, duration, arguments, signal, failure, blocked_by, ..
        } = ended;
        let arguments = arguments.or_else(|| self.recorded_arguments(index));
        let outcome = Arc::new(outcome);
        if let (ToolOutcome::Blocked { reason }, Some(call)) = (&*outcome, acting.call(index)) {
            self.say(|_| ToolCallBlocked {
                step: acting.key.step,
                call: index,
                tool: Arc::clone(&call.name),
                arguments: Arc::clone(
                    arguments.as_ref().map_or(&call.arguments, Arguments::shared),
                ),
                reason: reason.clone(),
                hook: blocked_by.unwrap_or_else(|| "user".into()),
            });
        }
        let change =
            Change::ToolCallCompleted { call: index, outcome: outcome.clone(), spend, started_at };
        self.record(change);
        self.say_settled(acting, index, arguments.as_ref(), outcome, duration);
        if let Some(failure) = failure {
            if let Some(batch) = &mut self.batch {
                batch.failure.get_or_insert(failure);
            }
            self.halt(StopMode::HookFailed, None);
        }
        if let Some(signal) = signal {
            self.halt(StopMode::Stopped, Some(signal));
        }
    }

    /// Returns the arguments with which the start of a call is recorded, or else those that were decided about. The start of
    /// calls without effects is not recorded.
    fn recorded_arguments(&self, index: u16) -> Option<Arguments> {
        let open = self.state.execution()?.open_step()?;
        match open.calls.get(usize::from(index))? {
            CallState::Started { arguments, .. } => Some(arguments.clone()),
            _ => open.note(index).map(|it| it.arguments.clone()),
        }
    }

    /// Returns the start time of a call, unless the recorded changes contain it.
    fn start_to_record(&mut self, index: u16, has_run: bool) -> Option<Timestamp> {
        let now = self.now();
        let open = self.state.execution()?.open_step()?;
        let was_started = matches!(open.calls.get(usize::from(index))?, CallState::Started { .. });
        let started_at = match &self.batch {
            _ if was_started => return None,
            Some(batch) if has_run => batch.started_at,
            _ => now,
        };
        (started_at != open.times.get(usize::from(index))?.started_at).then_some(started_at)
    }

    fn say_settled(
        &mut self,
        acting: &CallContext,
        call: u16,
        arguments: Option<&Arguments>,
        outcome: Arc<ToolOutcome>,
        duration: Duration,
    ) {
        let Some(made) = acting.call(call).filter(|_| self.events.has_listeners()) else { return };
        self.say(|_| ToolCallCompleted {
            step: acting.key.step,
            call,
            id: made.id.clone(),
            tool: Arc::clone(&made.name),
            arguments: Arc::clone(arguments.map_or(&made.arguments, Arguments::shared)),
            success: !outcome.is_error(),
            outcome,
            duration,
        });
    }

    async fn finish_batch(&mut self) -> Result<PhaseResult, JournalFailed> {
        self.refuse_requests();
        let Some(batch) = &mut self.batch else { return Ok(self.close_step()) };
        if batch.asked.is_empty() && batch.waiting.is_empty() {
            return Ok(self.close_step());
        }
        let waiting = std::mem::take(&mut batch.waiting);
        let (acting, asked) = (Arc::clone(&batch.acting), std::mem::take(&mut batch.asked));
        self.drain_inbox_final();
        let mut calls: Vec<u16> = asked.iter().map(|(index, _)| *index).collect();
        calls.extend(&waiting);
        calls.sort_unstable();
        let deadline = self.answer_deadline();
        for (call, AskedCall { mut question, arguments }) in asked {
            question.expire_at(deadline);
            if let Some(made) = acting.call(call) {
                let tool = acting.inference.agent.tools().get(&made.name);
                question.parameters = tool.map(|it| Arc::clone(&it.spec().parameters));
            }
            let arguments = arguments.filter(|it| !self.is_known(&acting, call, it));
            self.record(Change::ApprovalRequested { call, question, arguments });
            self.say_questions(&acting, call);
        }
        for call in waiting {
            self.say_questions(&acting, call);
        }
        self.record_work();
        self.record(Change::ExecutionPaused);
        self.say(|_| ExecutionPaused { calls });
        self.batch = None;
        (self.point, self.state_ready) = (Phase::Over, true);
        self.flush_changes().await?;
        Ok(PhaseResult::Finished)
    }

    /// Ends the calls that ask, if the run does not wait for answers: now, or since before it resumed.
    fn refuse_requests(&mut self) {
        let on_ask = self.options.on_ask;
        let Some(batch) = self.batch.as_mut().filter(|_| on_ask != OnAsk::Pause) else { return };
        let acting = Arc::clone(&batch.acting);
        let mut refused = Vec::new();
        let pending = self.state.pending();
        batch.waiting.retain(|index| {
            let ended = on_ask.refuse_answer(&pending, *index);
            // The request of a sub-agent that cannot refuse it still waits.
            let waits = ended.is_none();
            refused.extend(ended.map(|it| (*index, it)));
            waits
        });
        for (index, asked) in std::mem::take(&mut batch.asked) {
            let ended = on_ask.refuse_call(&acting, index, &asked);
            refused.extend(ended.map(|it| (index, it)));
        }
        for (index, ended) in refused {
            self.complete_call(&acting, index, ended);
        }
        if let Some(halt) = self.batch.as_ref().and_then(|it| it.halt.clone()) {
            self.skip_rest(&halt);
        }
    }

    /// Returns `true` if a request without arguments is about these: they are those of the model, and no earlier
    /// request or decision recorded others.
    fn is_known(&self, acting: &CallContext, call: u16, arguments: &Arguments) -> bool {
        let open = self.state.execution().and_then(|it| it.open_step());
        let has_others = open.is_some_and(|it| it.note(call).is_some());
        !has_others && acting.call(call).is_some_and(|it| it.arguments == *arguments.shared())
    }

    /// Emits the request about a call of this agent. A sub-agent emits its own.
    fn say_questions(&mut self, acting: &CallContext, call: u16) {
        if !self.events.has_listeners() {
            return;
        }
        let own = |it: &&PendingApproval<'_>| it.index == call && it.path.is_empty();
        let Some(event) = self.state.pending().iter().find(own).map(|it| ToolApprovalRequested {
            step: acting.key.step,
            call,
            tool: Arc::clone(&it.call.name),
            arguments: Arc::clone(&it.call.arguments),
            // Listeners know the tools.
            question: ApprovalRequest { parameters: None, ..it.question.clone() },
        }) else {
            return;
        };
        self.say(|_| event);
    }

    fn close_step(&mut self) -> PhaseResult {
        let failure = self.batch.take().and_then(|it| it.failure);
        let duration = self.lap();
        self.step_span.step_completed(duration);
        self.record(Change::StepCompleted { duration });
        match failure {
            Some(failure) => self.advance_to(Phase::Recover(failure)),
            None => self.advance_to(Phase::AfterStep),
        }
    }
}

fn has_tool_hooks(agent: &AgentLoop) -> bool {
    let hooks = agent.interceptor();
    hooks.contains(HookPoint::BeforeTool) || hooks.contains(HookPoint::AfterTool)
}

async fn prepare(
    acting: Arc<CallContext>,
    queued: Queued,
    state: Arc<AgentState>,
) -> (u16, CallDisposition) {
    let index = queued.index;
    let verdict = match queued.again {
        Some(_) => queued.admit(&acting),
        None => acting.prepare(index, queued.resolved, queued.edited, &state).await,
    };
    match verdict {
        CallDisposition::Over(ended) if ended.failure.is_none() => {
            (index, CallDisposition::over(acting.finish(index, *ended, &state).await))
        }
        verdict => (index, verdict),
    }
}
