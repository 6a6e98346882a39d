//! Policies that take part in a run: their order, their edits, their failures.

use std::{
    borrow::Cow,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use loopwright_core::{
    AgentLoop, AgentState, BoxError, CallableHook, Edit, ErrorDecision, ExecutionStatus,
    FailureKind, Flow, Hook, HookCx, HookPoint, HookPoints, HookStack, InferenceDecision,
    Interceptor, Key, Priority, RegisteredHook, RunEnv, StateEdit, Step, StepKind, StopDecision,
    StopSignal, ToolDecision, ToolOptions, ToolOutcome,
    events::{HookExecuted, StepCompleted, StepStarted},
    messages::{
        CacheBreak, InferenceRequest, InferenceResponse, Message, Part, ProviderPayload, Role,
        SectionName, Transcript, Usage,
    },
};
use loopwright_testing::{
    EventRecorder, FakeModel, MemoryJournal, MockTool, ModelDriver, ScenarioStep, block_on,
    poll_times, test_loop, yield_times,
};
use serde_json::{Value, json};

use crate::support::{
    agent, asked, execute, execute_with, hooked, hooks, is_valid, lock, options, outcomes, replay,
    said,
};

// ------------------------------------------------------------------------------------------------
// Order

#[test]
fn higher_priorities_run_first_and_equal_ones_as_they_were_added() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut stack = HookStack::default();
    let mut add = |name: &'static str, priority: i16| {
        let order = Arc::clone(&order);
        let hook = CallableHook::new(name).before_step(move |_, _| {
            lock(&order).push(name);
            Ok(Flow::Continue)
        });
        stack.add_at(Priority(priority), hook);
    };
    add("last", -5);
    add("first of two", 0);
    add("second of two", 0);
    add("first", 200);
    let agent = agent([]).with_interceptor(stack.into_interceptor());
    drop(execute(&agent, asked()));
    let expect = ["first", "first of two", "second of two", "last"];
    assert_eq!(*lock(&order), expect);
    let names: Vec<_> = agent.interceptor().hooks().iter().map(RegisteredHook::name).collect();
    assert_eq!(names, expect);
}

#[test]
fn each_hook_sees_the_edits_of_the_one_before() {
    let count = |name: &'static str| {
        CallableHook::new(name).before_step(|state, _| {
            let count = state.context().metadata().get("count").and_then(Value::as_u64);
            state.set_metadata("count", json!(count.unwrap_or(0) + 1));
            Ok(Flow::Continue)
        })
    };
    let interceptor = hooks([Arc::new(count("one")) as Arc<dyn Hook>, Arc::new(count("two"))]);
    let state = execute(&agent([]).with_interceptor(interceptor), asked());
    assert_eq!(state.context().metadata().get("count"), Some(&json!(2)));
}

#[test]
fn hooks_of_other_points_are_not_called() {
    let events = EventRecorder::new();
    let hook = CallableHook::new("end").after_execution(|_, _| Ok(()));
    let agent = hooked(&agent([]), hook).with_event_sink(events.sink());
    drop(execute(&agent, asked()));
    let points: Vec<_> =
        events.events_of::<HookExecuted>().into_iter().map(|it| it.point).collect();
    assert_eq!(points, ["after_execution"]);
}

#[test]
fn all_points_include_on_stop_and_none_matches_nothing() {
    assert!(HookPoints::ALL.contains(HookPoint::OnStop));
    assert_eq!(HookPoints::ALL.iter().count(), HookPoint::ALL.len());
    assert!(HookPoint::ALL.iter().all(|it| !HookPoints::NONE.contains(*it)));
    let some = HookPoint::BeforeStep | HookPoint::OnStop;
    assert_eq!(HookPoints::from_points(some.iter()), some);
    assert!(!some.contains(HookPoint::AfterStep));
}

/// Notes every point it is called at.
struct Noting(Arc<Mutex<Vec<&'static str>>>);

impl Noting {
    fn note(&self, point: HookPoint) {
        lock(&self.0).push(point.as_str());
    }
}

#[async_trait]
impl Hook for Noting {
    fn name(&self) -> Cow<'static, str> {
        "noting".into()
    }

    async fn before_execution(
        &self,
        _: &mut StateEdit<'_>,
        _: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        self.note(HookPoint::BeforeExecution);
        Ok(Flow::Continue)
    }

    async fn before_step(&self, _: &mut StateEdit<'_>, _: &HookCx<'_>) -> Result<Flow, BoxError> {
        self.note(HookPoint::BeforeStep);
        Ok(Flow::Continue)
    }

    async fn on_stop(
        &self,
        _: Option<&StopSignal>,
        _: &mut StateEdit<'_>,
        _: &HookCx<'_>,
    ) -> Result<StopDecision, BoxError> {
        self.note(HookPoint::OnStop);
        Ok(StopDecision::Stop)
    }

    async fn after_execution(&self, _: &mut StateEdit<'_>, _: &HookCx<'_>) -> Result<(), BoxError> {
        self.note(HookPoint::AfterExecution);
        Ok(())
    }
}

#[test]
fn a_hook_can_be_registered_at_some_of_its_points_only() {
    let notes = Arc::new(Mutex::new(Vec::new()));
    let mut stack = HookStack::default();
    let points = HookPoint::BeforeStep | HookPoint::OnStop;
    stack.register(
        "some".into(),
        Priority::default(),
        points,
        Arc::new(Noting(Arc::clone(&notes))),
    );
    drop(execute(&agent([]).with_interceptor(stack.into_interceptor()), asked()));
    assert_eq!(*lock(&notes), ["before_step", "on_stop"]);
}

// ------------------------------------------------------------------------------------------------
// Failures

/// A hook that fails or panics at one point.
fn failing_at(point: HookPoint, fail: fn() -> BoxError) -> CallableHook {
    let hook = CallableHook::new("failing");
    match point {
        HookPoint::BeforeExecution => hook.before_execution(move |_, _| Err(fail())),
        HookPoint::BeforeStep => hook.before_step(move |_, _| Err(fail())),
        HookPoint::BeforeInference => hook.before_inference(move |_, _, _| Err(fail())),
        HookPoint::AfterInference => hook.after_inference(move |_, _, _| Err(fail())),
        HookPoint::BeforeTool => hook.before_tool(move |_, _, _| Err(fail())),
        HookPoint::AfterTool => hook.after_tool(move |_, _, _, _| Err(fail())),
        HookPoint::OnError => hook.on_error(move |_, _, _| Err(fail())),
        HookPoint::AfterStep => hook.after_step(move |_, _| Err(fail())),
        HookPoint::OnStop => hook.on_stop(move |_, _, _| Err(fail())),
        HookPoint::AfterExecution => hook.after_execution(move |_, _| Err(fail())),
    }
}

/// Runs an agent that comes to every point, with a hook that fails at one of them.
fn fail_at(point: HookPoint, fail: fn() -> BoxError) -> (AgentLoop, AgentState) {
    let steps = match point {
        HookPoint::OnError => vec![ScenarioStep::error("down"), "ok".into()],
        _ => vec![ScenarioStep::tool("looking"), "ok".into()],
    };
    let base = test_loop(ModelDriver::new(FakeModel::script(steps)));
    let state = execute(&hooked(&base, failing_at(point, fail)), asked());
    (base, state)
}

#[test]
fn a_hook_that_fails_at_any_point_fails_the_run_and_leaves_a_state_that_can_go_on() {
    for point in HookPoint::ALL {
        for (fail, kind) in [
            ((|| "no luck".into()) as fn() -> BoxError, FailureKind::Hook),
            (|| panic!("no luck"), FailureKind::Panic),
        ] {
            let (agent, state) = fail_at(*point, fail);
            let ExecutionStatus::Failed(failure) = state.status() else {
                panic!("{point:?}: {state:?}")
            };
            assert_eq!(failure.kind, kind, "{point:?}");
            let text = format!("hook `failing` failed at {}", point.as_str());
            assert!(failure.message().contains(&text), "{failure}");
            assert!(failure.to_string().contains("no luck"), "{failure}");
            is_valid(&state);
            let state = execute(&agent, state.with_user_message("again"));
            assert_eq!(
                (state.status(), state.text().as_str()),
                (&ExecutionStatus::Completed, "ok"),
                "{point:?}"
            );
        }
    }
}

#[test]
fn a_failing_hook_keeps_the_finished_part_of_its_step() {
    for point in HookPoint::ALL {
        let (_, state) = fail_at(*point, || "no luck".into());
        let kinds: Vec<_> = state.execution().unwrap().steps().map(Step::kind).collect();
        let expect = match point {
            HookPoint::BeforeExecution => vec![],
            HookPoint::BeforeStep
            | HookPoint::BeforeInference
            | HookPoint::AfterInference
            | HookPoint::OnError => vec![StepKind::Error],
            HookPoint::BeforeTool | HookPoint::AfterTool | HookPoint::AfterStep => {
                vec![StepKind::ToolExecution]
            }
            HookPoint::OnStop | HookPoint::AfterExecution => {
                vec![StepKind::ToolExecution, StepKind::FinalResponse]
            }
        };
        assert_eq!(kinds, expect, "{point:?}");
    }
}

#[test]
fn a_before_step_hook_that_fails_leaves_one_error_step_with_its_events() {
    let events = EventRecorder::new();
    let agent = hooked(&agent([]), failing_at(HookPoint::BeforeStep, || "no".into()));
    let state = execute(&agent.with_event_sink(events.sink()), asked());
    assert_eq!(events.events_of::<StepStarted>().len(), 1);
    assert_eq!(events.events_of::<StepCompleted>().len(), 1);
    assert_eq!(state.step_count(), 1);
    assert_eq!(state.last_step().unwrap().kind(), StepKind::Error);
    assert!(matches!(state.status(), ExecutionStatus::Failed(it) if it.kind == FailureKind::Hook));
}

#[test]
fn a_tools_result_stays_if_the_hook_after_it_fails() {
    let (_, state) = fail_at(HookPoint::AfterTool, || "no luck".into());
    assert_eq!(outcomes(&state, 0)[0].output().unwrap().to_text(), "done");
}

#[test]
fn a_hook_that_fails_before_a_tool_keeps_the_other_calls_from_beginning() {
    for (first, second) in [("pay", "look"), ("look", "pay")] {
        let look = MockTool::returning("look", "", 1);
        let hook = CallableHook::new("policy").before_tool(|call, _, _| match &*call.name {
            "pay" => Err("no policy for that".into()),
            _ => Ok(loopwright_core::ToolDecision::Run),
        });
        let calls = [(first, json!({})), (second, json!({}))];
        let agent = hooked(&agent([ScenarioStep::tool_calls(calls)]), hook).with_tool(look.clone());
        let state = execute(&agent, asked());
        assert_eq!(look.keys().len(), 0);
        let skipped = outcomes(&state, 0).into_iter().any(|it| {
            it == ToolOutcome::Skipped { reason: "a hook failed before the tool started".into() }
        });
        assert!(skipped);
    }
}

#[test]
fn an_on_error_hook_may_have_the_step_tried_again() {
    let hook = CallableHook::new("retry").on_error(|failure, _, _| {
        assert_eq!(failure.kind, FailureKind::Model);
        Ok(ErrorDecision::Retry)
    });
    let model = FakeModel::script([ScenarioStep::error("down"), "ok".into()]);
    let state = execute(&hooked(&test_loop(ModelDriver::new(model)), hook), asked());
    assert_eq!((state.step_count(), state.text().as_str()), (2, "ok"));
    assert_eq!(state.status(), &ExecutionStatus::Completed);
    assert!(state.has_errors());
}

// ------------------------------------------------------------------------------------------------
// Edits

struct Slow(Key<u32>);

#[async_trait]
impl Hook for Slow {
    async fn before_step(
        &self,
        state: &mut StateEdit<'_>,
        _: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        state.set(&self.0, &(state.get(&self.0).unwrap_or(0) + 1))?;
        yield_times(5).await;
        state.push_message(Message::system("be good"));
        Ok(Flow::Continue)
    }
}

#[test]
fn the_edits_of_a_point_count_when_its_round_is_over() {
    const ROUNDS: Key<u32> = Key::session("test", "rounds");
    let agent = hooked(&agent([]), Slow(ROUNDS));
    let mut run = agent.start(asked(), options());
    assert!(poll_times(std::pin::pin!(run.next()), 3).is_none());
    assert_eq!(run.state().get(&ROUNDS), None);
    // The round goes on where it was.
    let state = block_on(run.finish());
    assert_eq!((state.get(&ROUNDS), said(&state).len()), (Some(1), 3));
}

#[test]
fn an_interrupted_round_does_not_count_and_is_asked_again() {
    const ROUNDS: Key<u32> = Key::session("test", "rounds");
    let (agent, journal) = (hooked(&agent([]), Slow(ROUNDS)), MemoryJournal::new());
    let mut run = agent.start(asked(), crate::support::journaled(&journal));
    assert!(poll_times(std::pin::pin!(run.next()), 3).is_none());
    drop(run);
    let kept = replay(&journal);
    let state = execute_with(&agent, kept, &journal);
    assert_eq!(
        (state.get(&ROUNDS), said(&state)),
        (Some(1), vec!["go".into(), "be good".into(), "ok".into()])
    );
}

#[test]
fn the_edits_of_a_round_in_which_a_hook_fails_do_not_count() {
    let one = CallableHook::new("one").before_step(|state, _| {
        state.push_message(Message::system("from one"));
        Ok(Flow::Continue)
    });
    let two = CallableHook::new("two").before_step(|state, _| {
        state.push_message(Message::system("from two"));
        Err("no luck".into())
    });
    let interceptor = hooks([Arc::new(one) as Arc<dyn Hook>, Arc::new(two)]);
    let journal = MemoryJournal::new();
    let state = execute_with(&agent([]).with_interceptor(interceptor), asked(), &journal);
    assert_eq!(said(&state), ["go"]);
    assert_eq!(replay(&journal), state);
}

#[test]
fn a_hook_cannot_erase_an_execution() {
    // It can replace everything that an edit can replace, and the execution is still there.
    let hook = CallableHook::new("wipe").before_step(|state, _| {
        state.replace(SectionName::MESSAGES, Transcript::new(), CacheBreak::Compaction);
        state.edit(Edit::SystemPrompt(None));
        Ok(Flow::Continue)
    });
    let budget = loopwright_core::Budget { steps: Some(1), ..Default::default() };
    let agent = hooked(&agent([ScenarioStep::tool("more")]), hook);
    let state = execute(&agent, asked().with_budget(budget));
    assert_eq!((state.step_count(), state.execution_count()), (1, 1));
    assert_eq!(said(&state), ["more"]);
}

#[test]
fn an_edit_cannot_put_calls_without_results_into_the_conversation() {
    let call = loopwright_core::messages::Content::ToolCall(
        loopwright_core::messages::ToolCall::new("1", "look", "{}"),
    );
    let calling = Message::new(Role::Assistant, [Part::new(call)]);
    let hook = CallableHook::new("forge").before_step(move |state, _| {
        state.push_message(calling.clone());
        Ok(Flow::Continue)
    });
    let state = execute(&hooked(&agent([]), hook), asked());
    is_valid(&state);
    assert_eq!(said(&state), ["go", "ok"]);
}

#[test]
fn execution_values_end_with_the_execution_and_session_values_stay() {
    const SHORT: Key<u32> = Key::execution("test", "short");
    const LONG: Key<u32> = Key::session("test", "long");
    assert_ne!(SHORT.slot(), LONG.slot());
    let hook = CallableHook::new("keep").before_execution(|state, _| {
        if state.get(&LONG).is_none() {
            state.set(&SHORT, &1)?;
            state.set(&LONG, &2)?;
        }
        Ok(Flow::Continue)
    });
    let agent = hooked(&agent([]), hook);
    let first = execute(&agent, asked());
    assert_eq!((first.get(&SHORT), first.get(&LONG)), (Some(1), Some(2)));
    let second = execute(&agent, first.with_user_message("again"));
    assert_eq!((second.get(&SHORT), second.get(&LONG)), (None, Some(2)));
    assert_eq!(second.context().metadata().len(), 0, "users and models do not see them");
}

#[test]
fn editing_an_answer_drops_the_providers_own_form_of_that_part_only() {
    let signed = |text: &str| Part::text(text).with_provider_payload(ProviderPayload::new("{}"));
    let model = FakeModel::from_fn(move |_| {
        let message = Message::new(Role::Assistant, [signed("secret"), signed("public")]);
        Ok(InferenceResponse::new(message, Usage::default()))
    });
    let hook = CallableHook::new("redact").after_inference(|response, _, _| {
        let mut parts = response.message.parts().to_vec();
        parts[0].set_content(loopwright_core::messages::Content::Text("***".into()));
        response.message = response.message.clone().with_parts(parts);
        Ok(Flow::Continue)
    });
    let state = execute(&hooked(&test_loop(ModelDriver::new(model)), hook), asked());
    let message = state.final_response().unwrap();
    assert_eq!(message.text(), "***public");
    assert_eq!(
        message.parts().iter().map(|it| it.opaque().is_some()).collect::<Vec<_>>(),
        [false, true]
    );
}

#[test]
fn a_hook_that_stops_before_a_model_is_asked_costs_nothing() {
    let hook = CallableHook::new("quota").before_inference(|_, _, _| {
        Ok(InferenceDecision::Stop(StopSignal::requested("quota", "enough for today")))
    });
    let model = FakeModel::echo();
    let state = execute(&hooked(&test_loop(ModelDriver::new(model.clone())), hook), asked());
    assert_eq!((model.asked(), state.step_count()), (0, 0));
    assert_eq!(state.stop_signal().unwrap().source.as_deref(), Some("quota"));
}

#[test]
fn an_answer_from_a_hook_passes_the_hooks_after_it() {
    let answer = InferenceResponse::new(Message::assistant("known"), Usage::default());
    let cache = CallableHook::new("cache")
        .before_inference(move |_, _, _| Ok(InferenceDecision::Respond(answer.clone())));
    let sign = CallableHook::new("sign").after_inference(|response, _, _| {
        response.message = Message::assistant(response.message.text() + "!");
        Ok(Flow::Continue)
    });
    let interceptor = hooks([Arc::new(cache) as Arc<dyn Hook>, Arc::new(sign)]);
    let agent = test_loop(ModelDriver::new(FakeModel::echo())).with_interceptor(interceptor);
    assert_eq!(execute(&agent, asked()).text(), "known!");
}

#[test]
fn an_interceptor_without_hooks_lets_everything_pass() {
    assert!(HookPoint::ALL.iter().all(|point| !Interceptor::default().contains(*point)));
}

// ------------------------------------------------------------------------------------------------
// Idle hooks

/// Says that it has nothing to say until so many steps are over, and counts how often it is called.
struct Late {
    from: u32,
    called: Arc<Mutex<u32>>,
}

#[async_trait]
impl Hook for Late {
    fn points(&self) -> HookPoints {
        HookPoint::BeforeStep.into()
    }

    fn can_skip(&self, _point: HookPoint, state: &AgentState, _env: &RunEnv) -> bool {
        assert!(self.from < 9, "nine is too many");
        state.step_count() < self.from
    }

    async fn before_step(
        &self,
        _state: &mut StateEdit<'_>,
        _cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        *lock(&self.called) += 1;
        Ok(Flow::Continue)
    }
}

/// Runs three steps with such hooks, and returns how often each was called.
fn calls_of(from: [u32; 2], is_heard: bool) -> [u32; 2] {
    let called = [Arc::<Mutex<u32>>::default(), Arc::default()];
    let hook = |at: usize| {
        Arc::new(Late { from: from[at], called: Arc::clone(&called[at]) }) as Arc<dyn Hook>
    };
    let call = || ScenarioStep::tool_call("missing", json!({}));
    let agent = agent([call(), call(), "done".into()]).with_interceptor(hooks([hook(0), hook(1)]));
    let agent = if is_heard { agent.wiretap(|_| {}) } else { agent };
    let state = execute(&agent, asked());
    assert_eq!((state.status(), state.step_count()), (&ExecutionStatus::Completed, 3));
    called.map(|it| *lock(&it))
}

#[test]
fn hooks_that_have_nothing_to_say_are_not_called() {
    assert_eq!(calls_of([3, 4], false), [0, 0]);
}

#[test]
fn all_hooks_of_a_point_are_called_if_one_has_something_to_say() {
    assert_eq!(calls_of([2, 4], false), [1, 1]);
}

#[test]
fn listeners_receive_events_of_hooks_without_a_decision() {
    assert_eq!(calls_of([3, 4], true), [3, 3]);
}

#[test]
fn a_hook_that_panics_as_it_is_asked_whether_it_is_idle_is_called() {
    assert_eq!(calls_of([3, 9], false), [3, 3]);
}

/// Asks a model before each step, and notes which answers are beside the conversation.
#[derive(Default)]
struct Curious(Mutex<Vec<(bool, String)>>);

#[async_trait]
impl Hook for Curious {
    async fn before_step(
        &self,
        state: &mut StateEdit<'_>,
        cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        let model = FakeModel::script([ScenarioStep::final_answer("a summary")]);
        cx.infer(state, &model, InferenceRequest::default()).await?;
        Ok(Flow::Continue)
    }

    async fn after_inference(
        &self,
        response: &mut InferenceResponse,
        _: &AgentState,
        cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        lock(&self.0).push((cx.aside, response.message.text()));
        Ok(Flow::Continue)
    }
}

#[test]
fn hooks_know_which_answers_are_beside_the_conversation() {
    let curious = Arc::new(Curious::default());
    let model = ModelDriver::new(FakeModel::script([ScenarioStep::final_answer("an answer")]));
    let agent = test_loop(model).with_interceptor(hooks([Arc::clone(&curious) as Arc<dyn Hook>]));
    execute(&agent, asked());
    let expect = [(true, "a summary".to_owned()), (false, "an answer".to_owned())];
    assert_eq!(*lock(&curious.0), expect);
}

#[test]
fn no_call_begins_after_a_hook_that_failed_about_another_one() {
    let exclusive = ToolOptions { exclusive: true, ..ToolOptions::default() };
    let one = MockTool::returning("one", "", "1").with_options(exclusive);
    let two = MockTool::returning("two", "", "2");
    let hook = CallableHook::new("fails").after_tool(|_, _, _, _| Err("no paper".into()));
    let calls = [("one", json!({})), ("two", json!({}))];
    let agent = agent([ScenarioStep::tool_calls(calls)]).with_tool(one).with_tool(two.clone());
    let state = execute(&hooked(&agent, hook), asked());
    assert!(matches!(state.status(), ExecutionStatus::Failed(it) if it.kind == FailureKind::Hook));
    assert_eq!(two.keys().len(), 0);
    assert_eq!(outcomes(&state, 0).len(), 2);
}

#[test]
fn the_first_of_equal_decisions_about_a_call_counts() {
    let block = |reason: &'static str| -> Arc<dyn Hook> {
        let block = move || Ok(ToolDecision::Block { reason: reason.to_owned() });
        Arc::new(CallableHook::new(reason).before_tool(move |_, _, _| block()))
    };
    let agent = agent([ScenarioStep::tool("looking"), "done".into()]);
    let state = execute(&agent.with_interceptor(hooks([block("first"), block("second")])), asked());
    assert_eq!(outcomes(&state, 0), [ToolOutcome::Blocked { reason: "first".to_owned() }]);
}

#[test]
fn a_hook_may_remove_what_it_kept() {
    const KEPT: Key<u32> = Key::execution("test", "kept");
    let hook = CallableHook::new("forgets")
        .before_step(|state, _| {
            state.set(&KEPT, &1)?;
            Ok(Flow::Continue)
        })
        .after_step(|state, _| {
            assert_eq!(state.get(&KEPT), Some(1));
            state.remove(&KEPT);
            Ok(Flow::Continue)
        });
    let state = execute(&hooked(&agent([]), hook), asked());
    assert_eq!((state.status(), state.get(&KEPT)), (&ExecutionStatus::Completed, None));
}

#[test]
fn a_hook_is_added_with_its_own_name_and_in_the_middle() {
    let mut stack = HookStack::default();
    stack.add_at(Priority(-1), CallableHook::new("last"));
    stack.add(CallableHook::new("middle").before_step(|_, _| Ok(Flow::Continue)));
    stack.add(Noting(Arc::default()));
    let interceptor = stack.into_interceptor();
    let names: Vec<_> = interceptor.hooks().iter().map(RegisteredHook::name).collect();
    assert_eq!(names, ["middle", "noting", "last"]);
}
