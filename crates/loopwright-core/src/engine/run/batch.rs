//! The calls of a step in progress: which wait, which run, and what comes next.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc, time::Duration};

use futures_util::{
    future::{BoxFuture, Either, pending, select},
    stream::StreamExt as _,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{
    clock::Timestamp,
    executor::{
        AskedCall, CallContext, CallDisposition, CallPositions, FinishedCall, JournalRef, ReadyCall,
    },
    failure::{Failure, FailureKind},
    interrupted::OnInterrupted,
    journal::IdempotencyKey,
    on_ask::OnAsk,
    outcome::{ApprovalDecision, ApprovalRequest, Arguments, CANCELLED, ToolOutcome},
    pause::ToolPause,
    run::{Run, cancel_safe::CancelSafe, halt::StopMode, running::Running},
    step::{CallState, Few, StepResponse},
    tool::AnyTool,
};

/// The calls of a step in progress.
pub(super) struct Batch {
    pub(super) acting: Arc<CallContext>,
    /// Calls without a decision, the last one first.
    pub(super) queue: Few<Queued>,
    pub(super) preparing: Option<CancelSafe<Vec<(u16, CallDisposition)>>>,
    /// Calls that hooks are deciding about, and whether they had started before.
    pub(super) deciding: Vec<(u16, bool)>,
    /// Calls whose start is recorded.
    pub(super) ready: Few<(u16, ReadyCall)>,
    /// When the calls that run now started.
    pub(super) started_at: Timestamp,
    pub(super) running: Running,
    pub(super) asked: Vec<(u16, AskedCall)>,
    /// Calls whose tools have started and wait for an answer.
    pub(super) waiting: Vec<u16>,
    /// Why no further call starts.
    pub(super) halt: Option<StopMode>,
    /// The grace period, in which started calls can finish.
    pub(super) grace: Option<BoxFuture<'static, ()>>,
    pub(super) deadline: Option<BoxFuture<'static, ()>>,
    pub(super) failure: Option<Failure>,
}

pub(super) struct Queued {
    pub(super) index: u16,
    pub(super) resolved: bool,
    /// The arguments that the decision covers. `None` means those of the model.
    pub(super) edited: Option<Arguments>,
    /// The attempt and arguments of the call before the interruption.
    pub(super) again: Option<(u32, Arguments)>,
}

#[expect(clippy::large_enum_variant, reason = "it is the usual one, and lives for a moment")]
pub(super) enum BatchEvent {
    Ended(u16, FinishedCall),
    Cancelled,
    Late,
    GraceOver,
}

impl Queued {
    /// Decides without hooks: there are none, or they were called before the interruption.
    pub(super) fn admit(self, acting: &CallContext) -> CallDisposition {
        let Some(call) = acting.call(self.index) else {
            return CallDisposition::over(ToolOutcome::Unknown);
        };
        match self.again {
            None => {
                let written = || Arguments::new(Arc::clone(&call.arguments));
                let verdict = acting.validate(call, self.edited.unwrap_or_else(written));
                verdict.unless_asked(self.resolved)
            }
            Some((attempt, arguments)) => match acting.validate(call, arguments) {
                CallDisposition::Run(ready) => {
                    CallDisposition::Run(ReadyCall { attempt: attempt + 1, ..ready })
                }
                verdict => verdict,
            },
        }
    }
}

/// Ends a call whose deadline has passed.
fn late(outcome: ToolOutcome) -> FinishedCall {
    FinishedCall { blocked_by: Some("deadline".into()), ..outcome.into() }
}

impl Batch {
    pub(super) fn new(
        run: &Run,
        thought: Arc<StepResponse>,
        key: IdempotencyKey,
        left: Option<Duration>,
    ) -> Self {
        let acting = CallContext {
            positions: CallPositions::of(&thought),
            thought,
            journal: run.options.journal.clone().map(JournalRef),
            cancel: Arc::clone(&run.tools),
            cancel_reason: run.tools_reason.clone(),
            on_interrupted: run.options.on_interrupted,
            on_ask: run.options.on_ask,
            grace: run.options.grace,
            inference: run.inference(),
            key,
            notes: run
                .state
                .execution()
                .and_then(|it| it.open_step())
                .map(|it| it.notes.clone())
                .unwrap_or_default(),
        };
        let deadline = left.map(|it| run.options.env.clock.sleep(it));
        Self {
            acting: Arc::new(acting),
            queue: Few::new(),
            preparing: None,
            deciding: Vec::new(),
            ready: Few::new(),
            started_at: Timestamp::UNSTAMPED,
            running: Running::NONE,
            asked: Vec::new(),
            waiting: Vec::new(),
            halt: None,
            grace: None,
            deadline,
            failure: None,
        }
    }

    /// Sorts a call by its state. Returns its outcome if it already has one.
    pub(super) fn sort(
        &mut self,
        index: u16,
        state: CallState,
        run: &Run,
        now: Timestamp,
    ) -> Option<FinishedCall> {
        let note = self.acting.notes.iter().find(|it| it.call == index);
        let mut edited = note.map(|it| it.arguments.clone());
        let (resolved, again) = match state {
            CallState::Completed(_) => return None,
            CallState::Queued => (false, None),
            CallState::AwaitingApproval(question) if question.is_expired(now) => {
                return Some(late(question.expired()));
            }
            CallState::AwaitingApproval(question) => {
                self.asked.push((index, AskedCall { question, arguments: edited }));
                return None;
            }
            CallState::Decided(ApprovalDecision::Approve) => (true, None),
            // No tool asked for a value: whether the call may run is still open.
            CallState::Decided(ApprovalDecision::Reply(_) | ApprovalDecision::Fail { .. }) => {
                let text = "the call may already have run, and a reply does not say \
                    whether to run it again; run it again?";
                let question = ApprovalRequest::new(text, ApprovalRequest::RECOVERY);
                self.asked.push((index, AskedCall { question, arguments: edited }));
                return None;
            }
            CallState::Decided(ApprovalDecision::ApproveWith { arguments }) => {
                edited = Some(arguments);
                (true, None)
            }
            CallState::AwaitingAnswer => {
                let acting = Arc::clone(&self.acting);
                let goes_on = |it: &&ToolPause| {
                    it.can_continue(now) || acting.on_ask != OnAsk::Pause && it.is_of_subagent()
                };
                let pause = acting.pause(index).filter(goes_on);
                let (Some(pause), Some(arguments)) = (pause, edited.take()) else {
                    self.waiting.push(index);
                    return None;
                };
                let over = pause.expired(now).map(late);
                let decision = pause.own_decision().filter(|_| pause.refusal().is_none());
                let over = over.or_else(|| self.over(index, decision?));
                if over.is_some() {
                    return over;
                }
                // Its attempts count anew.
                (true, Some((0, arguments)))
            }
            CallState::Decided(decision) => return self.over(index, &decision),
            CallState::Started { attempt, arguments } => {
                let has_begun = run.unstarted_calls.binary_search(&index).is_err();
                if has_begun && !self.may_run_again(index, &arguments) {
                    let policy = run.options.on_interrupted;
                    return self.interrupted(index, policy, arguments).map(Into::into);
                }
                if has_begun && attempt >= run.options.max_attempts {
                    let text = format!(
                        "all {attempt} attempts at this call were interrupted, so it was not \
                            retried"
                    );
                    let failure = Failure::new(FailureKind::CrashLoop, text);
                    return Some(ToolOutcome::Failed(failure).into());
                }
                (true, Some((attempt, arguments)))
            }
        };
        self.queue.push(Queued { index, resolved, edited, again });
        None
    }

    /// Returns the end of a call that a decision ends without running the tool.
    fn over(&self, index: u16, decision: &ApprovalDecision) -> Option<FinishedCall> {
        let blocked = |reason: &String| ToolOutcome::Blocked { reason: reason.clone() };
        let outcome = match decision {
            ApprovalDecision::Deny { reason } => blocked(reason),
            ApprovalDecision::DenyAndStop { reason } => {
                let signal = self.acting.rejection(index, reason);
                return Some(FinishedCall { signal: Some(signal), ..blocked(reason).into() });
            }
            ApprovalDecision::Answer(output) => ToolOutcome::Returned(output.clone()),
            ApprovalDecision::Fail { message } => {
                ToolOutcome::Failed(Failure::new(FailureKind::Tool, message.clone()))
            }
            ApprovalDecision::Cancel => ToolOutcome::Blocked { reason: CANCELLED.to_owned() },
            _ => return None,
        };
        Some(outcome.into())
    }

    pub(super) fn tool(&self, index: u16) -> Option<&AnyTool> {
        let call = self.acting.call(index)?;
        self.acting.inference.agent.tools().get(&call.name)
    }

    pub(super) fn may_run_again(&self, index: u16, arguments: &Arguments) -> bool {
        let read = || serde_json::from_str::<Value>(arguments.as_str()).unwrap_or_default();
        self.tool(index).is_some_and(|it| it.is_repeatable(|| Cow::Owned(read())))
    }

    pub(super) fn interrupted(
        &mut self,
        index: u16,
        policy: OnInterrupted,
        arguments: Arguments,
    ) -> Option<ToolOutcome> {
        match policy {
            OnInterrupted::ReportUnknown => Some(ToolOutcome::Unknown),
            OnInterrupted::RequireApproval => {
                let text = "the call was interrupted and may have taken effect: run it again?";
                let question = ApprovalRequest::new(text, ApprovalRequest::RECOVERY);
                self.asked.push((index, AskedCall { question, arguments: Some(arguments) }));
                None
            }
        }
    }

    /// Takes the calls that can run concurrently from the queue.
    pub(super) fn next_group(&mut self) -> Few<Queued> {
        let queue = self.queue.iter().rev();
        let together = queue.take_while(|it| !self.is_exclusive(it.index)).count();
        let is_alone = together == 0 && !self.queue.is_empty();
        let left = self.queue.len() - together - usize::from(is_alone);
        self.queue.drain(left..).rev().collect()
    }

    /// Returns the calls that have started and not ended.
    pub(super) fn begun(&self, calls: &[CallState]) -> Vec<u16> {
        let waiting = self.queue.iter().map(|it| it.index);
        let asked = self.asked.iter().map(|it| it.0).chain(self.waiting.iter().copied());
        let waiting: BTreeSet<u16> = waiting.chain(asked).collect();
        let open =
            (0..=u16::MAX).zip(calls).filter(|(_, it)| !matches!(it, CallState::Completed(_)));
        open.map(|(index, _)| index).filter(|index| !waiting.contains(index)).collect()
    }

    pub(super) fn is_exclusive(&self, index: u16) -> bool {
        self.tool(index).is_some_and(|it| it.options().exclusive)
    }

    /// Waits for the next event of the running calls.
    pub(super) async fn event(&mut self, cancel: &CancellationToken) -> BatchEvent {
        let ending = async {
            match (&mut self.grace, &mut self.deadline) {
                (Some(grace), _) => {
                    grace.await;
                    BatchEvent::GraceOver
                }
                (None, Some(deadline)) => {
                    match select(std::pin::pin!(cancel.cancelled()), deadline).await {
                        Either::Left(_) => BatchEvent::Cancelled,
                        Either::Right(_) => BatchEvent::Late,
                    }
                }
                (None, None) => {
                    cancel.cancelled().await;
                    BatchEvent::Cancelled
                }
            }
        };
        match select(self.running.next(), std::pin::pin!(ending)).await {
            Either::Left((Some((index, ended)), _)) => BatchEvent::Ended(index, ended),
            Either::Left((None, _)) => pending().await,
            Either::Right((event, _)) => event,
        }
    }
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch").field("halt", &self.halt).finish_non_exhaustive()
    }
}
