//! What is said to a run while it goes on, and how it is cancelled.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use loopwright_core::{
    BoxError, CallableHook, ChatModel, Delta, ExecutionStatus, Flow, Hook, HookCx, InferCx,
    ModelError, ModelErrorKind, Run, RunHandle, RunOptions, SideEffects, StateEdit, Step,
    StopDecision, StopReason, StopSignal, ToolError, ToolOptions, ToolOutcome, ToolOutput,
    messages::{InferenceRequest, InferenceResponse, Message},
};
use loopwright_testing::{
    FakeDriver, FakeModel, FrozenClock, MemoryJournal, MockTool, ModelDriver, ScenarioStep,
    block_on, poll_times, run_until_stuck, test_loop, yield_times,
};
use serde_json::json;
use std::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::support::{
    agent, asked, execute, hooked, is_valid, journaled, lock, options, outcomes, replay, said, told,
};

/// A place where a hook or tool finds the handle of the run that it belongs to.
type Handle = Arc<Mutex<Option<RunHandle>>>;

#[expect(clippy::unwrap_used, reason = "the lint spares tests, but not what they share")]
fn steering(handle: &Handle, text: &'static str) {
    lock(handle).as_ref().unwrap().steer(Message::user(text)).unwrap();
}

fn with_handle(run: &Run, handle: &Handle) {
    *lock(handle) = Some(run.handle());
}

#[test]
fn a_message_extends_a_soft_ending_until_it_is_answered() {
    let handle = Handle::default();
    let slot = Arc::clone(&handle);
    let hook = CallableHook::new("user").after_step(move |state, _| {
        if state.step_count() == 1 {
            steering(&slot, "one more thing");
        }
        Ok(Flow::Continue)
    });
    let run =
        hooked(&test_loop(FakeDriver::responses(["one", "two"])), hook).start(asked(), options());
    with_handle(&run, &handle);
    let state = block_on(run.finish());
    assert_eq!(said(&state), ["go", "one", "one more thing", "two"]);
    assert_eq!(state.status(), &ExecutionStatus::Completed);
}

/// Answers once, is interrupted in its second answer, and answers again.
struct Interrupted(CancellationToken, AtomicU32);

#[async_trait]
impl ChatModel for Interrupted {
    async fn infer(
        &self,
        _request: &InferenceRequest,
        cx: InferCx<'_>,
    ) -> Result<InferenceResponse, ModelError> {
        match self.1.fetch_add(1, SeqCst) {
            0 => ScenarioStep::final_answer("one").to_response(),
            1 => {
                cx.deltas.push(Delta::Text("as far as"));
                self.0.cancel();
                Err(ModelError::new(ModelErrorKind::Cancelled, "cancelled"))
            }
            _ => ScenarioStep::final_answer("two").to_response(),
        }
    }
}

#[test]
fn an_interrupted_answer_to_a_message_after_an_answer_is_resumed() {
    let (handle, cancel) = (Handle::default(), CancellationToken::new());
    let slot = Arc::clone(&handle);
    let hook = CallableHook::new("user").after_step(move |state, _| {
        if state.step_count() == 1 {
            steering(&slot, "and then?");
        }
        Ok(Flow::Continue)
    });
    let model = Interrupted(cancel.clone(), AtomicU32::new(0));
    let agent = hooked(&test_loop(ModelDriver::new(model)), hook);
    let run = agent.start(asked(), RunOptions { cancel, ..options() });
    with_handle(&run, &handle);
    let state = block_on(run.finish());
    assert!(state.is_resumable(), "{}", state.explain_stop());
    let state = execute(&agent, state);
    let part = "as far as\n\n[interrupted by the user]";
    let asks = "Continue from where you were interrupted.";
    assert_eq!(said(&state), ["go", "one", "and then?", part, asks, "two"]);
    assert_eq!((state.status(), state.execution_count()), (&ExecutionStatus::Completed, 1));
}

#[test]
fn a_message_in_the_last_moment_of_a_soft_ending_is_answered() {
    let handle = Handle::default();
    let slot = Arc::clone(&handle);
    let hook = CallableHook::new("user").on_stop(move |_, state, _| {
        if state.step_count() == 1 {
            steering(&slot, "wait");
        }
        Ok(loopwright_core::StopDecision::Stop)
    });
    let run =
        hooked(&test_loop(FakeDriver::responses(["one", "two"])), hook).start(asked(), options());
    with_handle(&run, &handle);
    let state = block_on(run.finish());
    assert_eq!(said(&state), ["go", "one", "wait", "two"]);
    let requested: Vec<_> = state.steps().map(Step::continued_by).collect();
    assert_eq!(requested, [Some("user"), None]);
}

#[test]
fn a_message_stays_in_the_conversation_at_a_hard_ending() {
    let handle = Handle::default();
    let slot = Arc::clone(&handle);
    let hook = CallableHook::new("user").after_step(move |_, _| {
        steering(&slot, "wait");
        Ok(Flow::Stop(StopSignal::new(StopReason::StepsLimitReached, "guard", "")))
    });
    let run = hooked(&agent([]), hook).start(asked(), options());
    with_handle(&run, &handle);
    let state = block_on(run.finish());
    assert_eq!(said(&state), ["go", "ok", "wait"]);
    assert_eq!(state.stop_signal().unwrap().reason, StopReason::StepsLimitReached);
}

#[test]
fn a_message_before_the_first_step_is_part_of_it() {
    let run = test_loop(FakeDriver::responses(["one", "two"])).start(asked(), options());
    run.handle().steer(Message::user("by the way")).unwrap();
    assert_eq!(said(&block_on(run.finish())), ["go", "by the way", "one"]);
}

#[test]
fn a_message_before_the_first_step_overrules_a_soft_stop_before_it() {
    let hook = CallableHook::new("closed")
        .before_execution(|_, _| Ok(Flow::Stop(StopSignal::requested("closed", "no"))));
    let run =
        hooked(&test_loop(FakeDriver::responses(["one", "two"])), hook).start(asked(), options());
    run.handle().steer(Message::user("please")).unwrap();
    assert_eq!(said(&block_on(run.finish())), ["go", "please", "one"]);
}

#[test]
fn a_message_while_tools_run_comes_after_their_step() {
    let handle = Handle::default();
    let slot = Arc::clone(&handle);
    let look = MockTool::new("look", "", move |_| {
        steering(&slot, "and then?");
        Ok::<_, loopwright_core::BoxError>("seen")
    });
    let steps = [ScenarioStep::tool_call("look", json!({})).with_text("looking"), "done".into()];
    let run = agent(steps).with_tool(look).start(asked(), options());
    with_handle(&run, &handle);
    let state = block_on(run.finish());
    assert_eq!(said(&state), ["go", "looking", "and then?", "done"]);
    assert_eq!(state.step_count(), 2);
}

#[test]
fn a_message_while_a_step_begins_again_is_answered_by_another_one() {
    let journal = MemoryJournal::new();
    let agent = test_loop(ModelDriver::new(FakeModel::ignoring_cancel()));
    assert!(run_until_stuck(agent.start(asked(), journaled(&journal)).finish()).is_none());
    let kept = replay(&journal);
    let agent = test_loop(FakeDriver::responses(["one", "two"]));
    let run = agent.start(kept, journaled(&journal));
    run.handle().steer(Message::user("are you there?")).unwrap();
    assert_eq!(said(&block_on(run.finish())), ["go", "one", "are you there?", "two"]);
}

#[test]
fn a_message_to_a_step_that_was_interrupted_is_answered_by_another_one() {
    let journal = MemoryJournal::new();
    let agent = test_loop(ModelDriver::new(FakeModel::ignoring_cancel()));
    assert!(run_until_stuck(agent.start(asked(), journaled(&journal)).finish()).is_none());
    let kept = replay(&journal).with_user_message("are you there?");
    let agent = test_loop(FakeDriver::responses(["one", "two"]));
    let state = block_on(agent.start(kept, journaled(&journal)).finish());
    assert_eq!(said(&state), ["go", "one", "are you there?", "two"]);
    assert_eq!(replay(&journal), state);
}

#[test]
fn a_message_while_a_run_pauses_is_not_lost() {
    let handle = Handle::default();
    let slot = Arc::clone(&handle);
    let hook = CallableHook::new("approval").before_tool(move |_, _, cx| {
        if !cx.already_approved {
            steering(&slot, "wait");
        }
        let question = loopwright_core::ApprovalRequest::new("?", "approval");
        Ok(loopwright_core::ToolDecision::Ask(question))
    });
    let agent = hooked(&agent([ScenarioStep::tool("looking"), "done".into()]), hook);
    let run = agent.start(asked(), options());
    with_handle(&run, &handle);
    let paused = block_on(run.finish());
    assert_eq!(paused.status(), &ExecutionStatus::Paused);
    let state = execute(&agent, paused.decide(0, loopwright_core::ApprovalDecision::Approve));
    assert_eq!(said(&state), ["go", "looking", "wait", "done"]);
}

#[test]
fn after_the_end_a_message_is_given_back() {
    let run = agent([]).start(asked(), options());
    let handle = run.handle();
    drop(block_on(run.finish()));
    assert_eq!(handle.steer(Message::user("late")), Err(Message::user("late")));
    let run = agent([]).start(asked(), options());
    let handle = run.handle();
    drop(run);
    assert_eq!(handle.steer(Message::user("late")), Err(Message::user("late")));
}

#[test]
fn an_unread_message_is_part_of_the_returned_state() {
    let run = agent([]).start(asked(), options());
    run.handle().steer(Message::user("by the way")).unwrap();
    let state = run.into_state();
    assert_eq!(said(&state), ["go", "by the way"]);
    assert_eq!(said(&execute(&agent([]), state)), ["go", "by the way", "ok"]);
}

#[test]
fn a_veto_does_not_close_the_run_to_messages() {
    let hook = CallableHook::new("again").on_stop(|_, state, _| {
        let is_first = state.step_count() == 1;
        Ok(if is_first {
            loopwright_core::StopDecision::Continue
        } else {
            loopwright_core::StopDecision::Stop
        })
    });
    let agent = hooked(&test_loop(FakeDriver::responses(["one", "two", "three"])), hook);
    let mut run = agent.start(asked(), options());
    assert!(block_on(run.next()).is_some());
    run.handle().steer(Message::user("still there?")).unwrap();
    assert_eq!(said(&block_on(run.finish())), ["go", "one", "still there?", "two"]);
}

// ------------------------------------------------------------------------------------------------
// Cancelling

#[test]
fn a_run_that_is_cancelled_before_it_begins_takes_no_step() {
    let run = agent([]).start(asked(), options());
    run.handle().cancel();
    let state = block_on(run.finish());
    assert_eq!(
        (state.step_count(), state.stop_signal().unwrap().reason),
        (0, StopReason::UserRequested)
    );
}

#[test]
fn cancelling_gives_up_the_model_call() {
    for model in [FakeModel::pending(), FakeModel::ignoring_cancel()] {
        let mut run = test_loop(ModelDriver::new(model.clone())).start(asked(), options());
        assert!(run_until_stuck(run.next()).is_none());
        run.handle().cancel();
        let state = block_on(run.finish());
        assert_eq!(state.stop_signal().unwrap().reason, StopReason::UserRequested);
        assert_eq!((state.step_count(), model.asked()), (0, 1));
        assert_eq!(said(&state), ["go"]);
    }
}

#[test]
fn cancelling_gives_running_tools_their_grace_and_then_drops_them() {
    let clock = FrozenClock::manual();
    let quick = MockTool::with_cx("quick", "", |_, cx| {
        let cancelled = cx.cancel.cancelled();
        Box::pin(async move {
            cancelled.await;
            Ok(ToolOutput::text("stopped in time"))
        })
    });
    let calls = [("quick", json!({})), ("hang", json!({}))];
    let agent = agent([ScenarioStep::tool_calls(calls)])
        .with_tool(quick)
        .with_tool(MockTool::hanging("hang"));
    let options = RunOptions { env: clock.env(1), grace: Duration::from_secs(5), ..options() };
    let mut run = agent.start(asked(), options);
    assert!(run_until_stuck(run.next()).is_none());
    run.handle().cancel();
    assert!(run_until_stuck(run.next()).is_none(), "the grace has not passed");
    clock.advance(Duration::from_secs(5));
    let state = block_on(run.finish());
    let outcomes = outcomes(&state, 0);
    assert_eq!(outcomes[0], ToolOutcome::Returned(ToolOutput::text("stopped in time")));
    assert_eq!(outcomes[1], ToolOutcome::Cancelled { started: true });
    assert_eq!(state.stop_signal().unwrap().reason, StopReason::UserRequested);
    is_valid(&state);
}

#[test]
fn calls_that_have_not_begun_are_cancelled_without_having_begun() {
    let handle = Handle::default();
    let slot = Arc::clone(&handle);
    let first = MockTool::new("first", "", move |_| {
        lock(&slot).as_ref().unwrap().cancel();
        Ok::<_, loopwright_core::BoxError>("done")
    });
    let alone = ToolOptions { exclusive: true, ..ToolOptions::default() };
    let second = MockTool::returning("second", "", 2);
    let calls = [("first", json!({})), ("second", json!({}))];
    let run = agent([ScenarioStep::tool_calls(calls)])
        .with_tool(first.with_options(alone))
        .with_tool(second.clone())
        .start(asked(), options());
    with_handle(&run, &handle);
    let state = block_on(run.finish());
    assert_eq!(outcomes(&state, 0)[1], ToolOutcome::Cancelled { started: false });
    assert!(second.calls().is_empty());
}

#[test]
fn nothing_overrules_a_cancellation() {
    let hook = CallableHook::new("stubborn")
        .after_step(|state, _| {
            state.request_continuation();
            Ok(Flow::Continue)
        })
        .on_stop(|_, _, _| Ok(loopwright_core::StopDecision::Continue));
    let mut run = hooked(&agent([]), hook).start(asked(), options());
    assert!(block_on(run.next()).is_some());
    run.handle().steer(Message::user("go on")).unwrap();
    run.handle().cancel();
    let state = block_on(run.finish());
    assert_eq!(
        (state.step_count(), state.stop_signal().unwrap().reason),
        (1, StopReason::UserRequested)
    );
    assert_eq!(said(&state), ["go", "ok", "go on"]);
}

struct Hanging;

#[async_trait::async_trait]
impl loopwright_core::Hook for Hanging {
    async fn before_tool(
        &self,
        _: &loopwright_core::messages::ToolCall,
        _: &loopwright_core::AgentState,
        _: &loopwright_core::HookCx<'_>,
    ) -> Result<loopwright_core::ToolDecision, loopwright_core::BoxError> {
        std::future::pending().await
    }

    async fn on_stop(
        &self,
        _: Option<&StopSignal>,
        _: &mut loopwright_core::StateEdit<'_>,
        _: &loopwright_core::HookCx<'_>,
    ) -> Result<loopwright_core::StopDecision, loopwright_core::BoxError> {
        std::future::pending().await
    }
}

#[test]
fn hooks_that_hang_are_given_up_once_the_run_is_cancelled() {
    let mut run =
        hooked(&agent([ScenarioStep::tool("looking")]), Hanging).start(asked(), options());
    assert!(run_until_stuck(run.next()).is_none());
    run.handle().cancel();
    let state = block_on(run.finish());
    assert_eq!(outcomes(&state, 0), [ToolOutcome::Cancelled { started: false }]);
    assert_eq!(state.stop_signal().unwrap().reason, StopReason::UserRequested);
}

// ------------------------------------------------------------------------------------------------
// Dropping

#[test]
fn a_dropped_next_repeats_nothing() {
    let slow = || {
        let once = MockTool::with_cx("slow", "", |_, _| {
            Box::pin(yield_times(5).map(|()| Ok(ToolOutput::text("done"))))
        });
        once.with_options(ToolOptions {
            side_effects: SideEffects::AtMostOnce,
            ..ToolOptions::default()
        })
    };
    let (slow, pay) = (slow(), MockTool::returning("pay", "", "paid"));
    let steps =
        [ScenarioStep::tool_calls([("pay", json!({})), ("slow", json!({}))]), "done".into()];
    let model = FakeModel::script(steps).with_yields(3);
    let agent =
        test_loop(ModelDriver::new(model.clone())).with_tool(slow.clone()).with_tool(pay.clone());
    let mut run = agent.start(asked(), options());
    while run.has_next() {
        let _handed_out = poll_times(pin!(run.next()), 1).flatten();
    }
    assert_eq!((model.asked(), slow.keys().len(), pay.keys().len()), (2, 1, 1));
    assert_eq!(run.state().text(), "done");
}

#[test]
fn dropping_a_run_ends_its_tools() {
    struct Alive(Arc<Mutex<u32>>);
    impl Drop for Alive {
        fn drop(&mut self) {
            *lock(&self.0) -= 1;
        }
    }
    let alive = Arc::new(Mutex::new(0));
    let counter = Arc::clone(&alive);
    let tool = MockTool::with_cx("work", "", move |_, _| {
        *lock(&counter) += 1;
        let alive = Alive(Arc::clone(&counter));
        Box::pin(async move {
            let _alive = alive;
            std::future::pending().await
        })
    });
    let calls = [("work", json!({})), ("work", json!({}))];
    let mut run =
        agent([ScenarioStep::tool_calls(calls)]).with_tool(tool).start(asked(), options());
    assert!(run_until_stuck(run.next()).is_none());
    assert_eq!(*lock(&alive), 2);
    drop(run);
    assert_eq!(*lock(&alive), 0);
}

#[test]
fn cancelling_a_run_leaves_the_token_of_its_owner_alone() {
    let owner = options();
    let run = agent([]).start(asked(), owner.clone());
    run.handle().cancel();
    assert!(!owner.cancel.is_cancelled());
    let state = block_on(run.finish());
    assert_eq!(state.stop_signal().unwrap().reason, StopReason::UserRequested);
}

#[test]
fn a_cancellation_that_says_why_is_the_reason_and_the_first_one_counts() {
    let run = test_loop(ModelDriver::new(FakeModel::pending())).start(asked(), options());
    let handle = run.handle();
    let other = agent(["done".into()]).start(asked(), options()).handle();
    assert!(handle.same_run(&handle.clone()) && !handle.same_run(&other));
    assert!(!handle.is_finished() && other.is_finished());
    let mut finished = pin!(run.finish());
    assert!(poll_times(finished.as_mut(), 1_000).is_none());
    let reason = |text: &str| StopSignal::user_requested(text).with("who", "Ada");
    handle.cancel_with(reason("closed"));
    handle.cancel_with(reason("too late"));
    let state = block_on(finished);
    assert_eq!(*state.status(), ExecutionStatus::Stopped(reason("closed")));
    assert!(handle.is_finished());
}

/// Notes how executions end, and cancels the run that it belongs to.
struct Ending(Arc<Mutex<Vec<String>>>);

#[async_trait::async_trait]
impl loopwright_core::Hook for Ending {
    async fn after_step(
        &self,
        _state: &mut loopwright_core::StateEdit<'_>,
        cx: &loopwright_core::HookCx<'_>,
    ) -> Result<Flow, loopwright_core::BoxError> {
        assert_eq!(cx.final_status, None);
        cx.run().cancel_with(StopSignal::user_requested("enough"));
        Ok(Flow::Continue)
    }

    async fn after_execution(
        &self,
        _state: &mut loopwright_core::StateEdit<'_>,
        cx: &loopwright_core::HookCx<'_>,
    ) -> Result<(), loopwright_core::BoxError> {
        lock(&self.0).extend(cx.final_status.map(|ending| format!("{ending:?}")));
        Ok(())
    }
}

#[test]
fn a_hook_can_cancel_its_run_and_learns_how_it_ends() {
    let endings = Arc::default();
    let state =
        execute(&hooked(&agent([ScenarioStep::tool("a")]), Ending(Arc::clone(&endings))), asked());
    assert_eq!(state.step_count(), 1);
    assert_eq!(*state.status(), ExecutionStatus::Stopped(StopSignal::user_requested("enough")));
    assert_eq!(*lock(&endings), [format!("{:?}", state.status())]);
}

/// Has the last word on endings, and does not say it the first time.
struct Hesitating(AtomicU32);

#[async_trait]
impl Hook for Hesitating {
    async fn on_stop(
        &self,
        _: Option<&StopSignal>,
        _: &mut StateEdit<'_>,
        _: &HookCx<'_>,
    ) -> Result<StopDecision, BoxError> {
        if self.0.fetch_add(1, SeqCst) == 0 {
            std::future::pending::<()>().await;
        }
        Ok(StopDecision::Stop)
    }
}

#[test]
fn a_message_to_a_run_that_is_given_up_as_it_ends_is_answered_by_the_next_one() {
    let agent = test_loop(FakeDriver::responses(["one", "two"]));
    let agent = hooked(&agent, Hesitating(AtomicU32::new(0)));
    let mut run = agent.start(asked(), options());
    assert!(run_until_stuck(run.next()).is_none());
    run.handle().steer(Message::user("and then?")).unwrap();
    let state = block_on(agent.start(run.into_state(), options()).finish());
    assert_eq!(said(&state), ["go", "one", "and then?", "two"]);
}

#[test]
fn tools_of_a_step_after_a_stop_that_was_overruled_are_not_cancelled() {
    let stop = MockTool::with_cx("stop", "", |_, _| {
        let signal = StopSignal::requested("stop", "found it");
        Box::pin(async move { Err(ToolError::Stop(signal)) })
    });
    let look = MockTool::with_cx("look", "", |_, cx| {
        let is_cancelled = cx.cancel.is_cancelled();
        Box::pin(
            async move { Ok(ToolOutput::text(if is_cancelled { "cancelled" } else { "seen" })) },
        )
    });
    let calls = [("hang", json!({})), ("stop", json!({}))];
    let steps = [
        ScenarioStep::tool_calls(calls),
        ScenarioStep::tool_call("look", json!({})),
        "done".into(),
    ];
    let veto = CallableHook::new("veto").on_stop(|_, state, _| {
        Ok(if state.step_count() == 1 { StopDecision::Continue } else { StopDecision::Stop })
    });
    let agent = hooked(&agent(steps), veto).with_tool(MockTool::hanging("hang"));
    let state = execute(&agent.with_tool(stop).with_tool(look), asked());
    assert_eq!(outcomes(&state, 0)[0], ToolOutcome::Cancelled { started: true });
    assert_eq!(told(&state).last().map(String::as_str), Some("seen"));
    assert_eq!((state.status(), state.step_count()), (&ExecutionStatus::Completed, 3));
}

#[test]
fn an_answer_that_was_interrupted_names_the_reason_for_which_the_run_was_cancelled() {
    let said = |reason: Option<StopSignal>| {
        let cancel = CancellationToken::new();
        let options = RunOptions { cancel: cancel.clone(), ..RunOptions::default() };
        if let Some(reason) = reason {
            options.cancel_reason.set(reason);
        }
        let model = Interrupting(cancel);
        let run = test_loop(ModelDriver::new(model)).start(asked(), options);
        let state = block_on(run.finish());
        (state.transcript().last().unwrap().message().text(), state.stop_signal().cloned().unwrap())
    };
    let (text, signal) = said(None);
    assert_eq!(text, "as far as\n\n[interrupted by the user]");
    assert_eq!(signal.reason, StopReason::UserRequested);
    let reason =
        StopSignal::new(StopReason::TimeLimitReached, "budget", "the time is up").into_final();
    let (text, signal) = said(Some(reason.clone()));
    assert_eq!((text.as_str(), signal), ("as far as\n\n[the time is up]", reason));
}

/// Is cancelled in its answer.
struct Interrupting(CancellationToken);

#[async_trait]
impl ChatModel for Interrupting {
    async fn infer(
        &self,
        _request: &InferenceRequest,
        cx: InferCx<'_>,
    ) -> Result<InferenceResponse, ModelError> {
        cx.deltas.push(Delta::Text("as far as"));
        self.0.cancel();
        Err(ModelError::new(ModelErrorKind::Cancelled, "cancelled"))
    }
}
