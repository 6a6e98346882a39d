//! How calls are decided about and run.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use loopwright_core::{
    AgentState, ApprovalDecision, ApprovalRequest, Arguments, BoxError, CallableHook, Driver,
    ExecutionStatus, FailureKind, Flow, Hook, Key, RunOptions, SideEffects, StepError,
    StepResponse, StopReason, StopSignal, ThinkCx, ToolDecision, ToolError, ToolOptions,
    ToolOutcome, ToolOutput, ToolRetry,
    events::ToolCallCompleted,
    messages::{Content, FinishReason, InferenceRequest, Message, Part, Role, ToolCall, Usage},
};
use loopwright_testing::{
    EventRecorder, FakeModel, FrozenClock, MockTool, ScenarioStep, Timeline, block_on,
    run_until_stuck, test_loop, yield_times,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::support::{
    agent, asked, execute, hooked, hooks, is_valid, lock, options, outcomes, said, told,
};

fn deciding(
    name: &'static str,
    decide: impl Fn(&str) -> ToolDecision + Send + Sync + 'static,
) -> Arc<dyn Hook> {
    Arc::new(CallableHook::new(name).before_tool(move |call, _, _| Ok(decide(&call.arguments))))
}

fn question() -> ApprovalRequest {
    ApprovalRequest::new("may it?", "policy")
}

fn block() -> ToolDecision {
    ToolDecision::Block { reason: "forbidden".into() }
}

/// Runs one call of a tool that echoes its arguments under some hooks.
fn run_under(decisions: impl IntoIterator<Item = Arc<dyn Hook>>) -> (AgentState, MockTool) {
    let echo = MockTool::new("echo", "", |it| Ok::<_, BoxError>(it.to_string()))
        .with_schema(json!({ "type": "object" }));
    let agent = agent([ScenarioStep::tool_call("echo", json!({ "a": 1 })), "done".into()])
        .with_tool(echo.clone())
        .with_interceptor(hooks(decisions));
    (execute(&agent, asked()), echo)
}

#[test]
fn the_strongest_decision_wins_in_whatever_order() {
    let ladder: [fn() -> ToolDecision; 5] = [
        || ToolDecision::Run,
        || ToolDecision::Answer(ToolOutput::text("known")),
        || ToolDecision::Ask(question()),
        block,
        || ToolDecision::Stop(StopSignal::requested("policy", "enough")),
    ];
    let name = |state: &AgentState| match state.status() {
        ExecutionStatus::Paused => "ask",
        ExecutionStatus::Stopped(_) => "stop",
        _ if told(state) == ["known"] => "answer",
        _ if told(state) == ["Blocked: forbidden"] => "block",
        _ => "run",
    };
    let names = ["run", "answer", "ask", "block", "stop"];
    for one in 0..5 {
        for other in 0..5 {
            let (first, second) = (ladder[one], ladder[other]);
            let (state, echo) = run_under([
                deciding("one", move |_| first()),
                deciding("other", move |_| second()),
            ]);
            let strongest = one.max(other);
            assert_eq!(name(&state), names[strongest], "{one} {other}");
            assert_eq!(echo.keys().len(), usize::from(strongest == 0));
        }
    }
}

#[test]
fn a_rewrite_asks_all_hooks_again_about_the_new_arguments() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&seen);
    let approve = deciding("approve", move |arguments| {
        lock(&notes).push(arguments.to_owned());
        ToolDecision::Run
    });
    let rewrite = deciding("rewrite", |_| ToolDecision::Rewrite(Arguments::new(r#"{"a":2}"#)));
    let (state, echo) = run_under([approve, rewrite]);
    assert_eq!(*lock(&seen), [r#"{"a":1}"#, r#"{"a":2}"#]);
    assert_eq!(echo.calls(), [json!({ "a": 2 })]);
    assert_eq!(told(&state), [r#"{"a":2}"#]);
    let turn = Arc::clone(state.transcript().get(1).unwrap());
    let written: Vec<_> = turn.message().tool_calls().map(|it| &*it.arguments).collect();
    assert_eq!(written, [r#"{"a":1}"#], "the conversation keeps what the model wrote");
}

#[test]
fn an_approval_does_not_cover_arguments_that_a_hook_rewrites_later() {
    let policy =
        deciding(
            "policy",
            |arguments| {
                if arguments.contains("shadow") { block() } else { ToolDecision::Run }
            },
        );
    let rewrite =
        deciding("rewrite", |_| ToolDecision::Rewrite(Arguments::new(r#"{"a":"shadow"}"#)));
    let (state, echo) = run_under([policy, rewrite]);
    assert_eq!(told(&state), ["Blocked: forbidden"]);
    assert_eq!(echo.keys().len(), 0);
}

#[track_caller]
fn check_rewrites(times: usize, expect: &str) {
    let count = Arc::new(AtomicUsize::new(0));
    let rewrite = deciding("rewrite", move |_| {
        let number = count.fetch_add(1, SeqCst).min(times.saturating_sub(1));
        ToolDecision::Rewrite(Arguments::new(format!(r#"{{"a":{}}}"#, number + 10)))
    });
    assert_eq!(told(&run_under([rewrite]).0), [expect]);
}

#[test]
fn the_ninth_rewrite_blocks_the_call() {
    check_rewrites(8, r#"{"a":17}"#);
    check_rewrites(9, "Blocked: hooks rewrote the arguments more than 8 times");
}

#[test]
fn rewritten_arguments_are_checked_against_the_schema() {
    let strict = MockTool::new("strict", "", |it| Ok::<_, BoxError>(it.to_string()))
        .with_schema(json!({ "type": "object", "properties": { "a": { "type": "integer" } } }));
    let agent = agent([ScenarioStep::tool_call("strict", json!({ "a": 1 })), "done".into()])
        .with_tool(strict.clone())
        .with_interceptor(hooks([deciding("rewrite", |_| {
            ToolDecision::Rewrite(Arguments::new(r#"{"a":"x"}"#))
        })]));
    let state = execute(&agent, asked());
    assert!(told(&state)[0].contains("at /a"), "{:?}", told(&state));
    assert_eq!(strict.keys().len(), 0);
}

#[test]
fn on_a_resolved_call_ask_counts_as_run_and_block_still_blocks() {
    let asking = || deciding("approval", |_| ToolDecision::Ask(question()));
    let echo = MockTool::returning("echo", "", "done");
    let base =
        agent([ScenarioStep::tool_call("echo", json!({})), "done".into()]).with_tool(echo.clone());
    let agent = base.with_interceptor(hooks([asking()]));
    let paused = execute(&agent, asked());
    let approved = paused.clone().decide(0, ApprovalDecision::Approve);
    assert_eq!(told(&execute(&agent, approved.clone())), ["done"]);
    let stricter = base.with_interceptor(hooks([asking(), deciding("policy", |_| block())]));
    assert_eq!(told(&execute(&stricter, approved)), ["Blocked: forbidden"]);
    let answered = paused.decide(0, ApprovalDecision::Answer(ToolOutput::text("done by hand")));
    assert_eq!(told(&execute(&agent, answered)), ["done by hand"]);
    assert_eq!(echo.keys().len(), 1);
}

#[test]
fn a_blocked_call_has_no_value_and_the_others_of_the_batch_run() {
    let (pay, look) = (MockTool::returning("pay", "", 1), MockTool::returning("look", "", 2));
    let hook = CallableHook::new("policy").before_tool(|call, _, _| {
        Ok(if &*call.name == "pay" { block() } else { ToolDecision::Run })
    });
    let calls = [("pay", json!({})), ("look", json!({})), ("pay", json!({}))];
    let agent = hooked(&agent([ScenarioStep::tool_calls(calls), "done".into()]), hook)
        .with_tool(pay.clone())
        .with_tool(look.clone());
    let state = execute(&agent, asked());
    let outcomes = outcomes(&state, 0);
    assert!(outcomes[0].was_blocked() && outcomes[2].was_blocked());
    assert_eq!((outcomes[0].output(), told(&state)[1].as_str()), (None, "2"));
    assert_eq!((pay.keys().len(), look.keys().len()), (0, 1));
    assert_eq!(state.status(), &ExecutionStatus::Completed);
}

#[test]
fn a_hook_that_stops_a_batch_skips_what_has_not_begun() {
    let look = MockTool::returning("look", "", 2);
    let hook = CallableHook::new("policy").before_tool(|call, _, _| {
        let stop = || ToolDecision::Stop(StopSignal::requested("policy", "enough"));
        Ok(if &*call.name == "pay" { stop() } else { ToolDecision::Run })
    });
    let calls = [("look", json!({})), ("pay", json!({})), ("look", json!({}))];
    let agent = hooked(&agent([ScenarioStep::tool_calls(calls), "done".into()]), hook)
        .with_tool(look.clone());
    let state = execute(&agent, asked());
    let not_run = |it: &String| it.starts_with("Not run: the run was stopped");
    assert_eq!(told(&state).iter().map(not_run).collect::<Vec<_>>(), [true; 3]);
    assert_eq!((look.keys().len(), state.step_count()), (0, 1));
    assert_eq!(state.stop_signal().unwrap().source.as_deref(), Some("policy"));
}

#[test]
fn a_tool_that_stops_keeps_finished_results_and_skips_the_rest() {
    let alone = ToolOptions { exclusive: true, ..ToolOptions::default() };
    let stop = MockTool::with_cx("stop", "", |_, _| {
        let signal = StopSignal::requested("stop", "found it");
        Box::pin(async move { Err(ToolError::Stop(signal)) })
    });
    let look = MockTool::returning("look", "", "seen");
    let calls = [("look", json!({})), ("stop", json!({})), ("look", json!({}))];
    let agent = agent([ScenarioStep::tool_calls(calls), "done".into()])
        .with_tool(stop.with_options(alone))
        .with_tool(look.clone());
    let state = execute(&agent, asked());
    assert_eq!(
        told(&state),
        [
            "seen",
            "The run is being stopped: found it",
            "Not run: the run was stopped before the tool started",
        ]
    );
    let signal = state.stop_signal().unwrap();
    assert_eq!((signal.reason, &*signal.message), (StopReason::StopRequested, "found it"));
    assert_eq!(look.keys().len(), 1);
    assert!(!outcomes(&state, 0).iter().any(|it| matches!(it, ToolOutcome::Failed(_))));
    is_valid(&state);
}

#[test]
fn when_a_tool_stops_the_run_those_that_run_get_their_grace() {
    let clock = FrozenClock::manual();
    let stop = MockTool::with_cx("stop", "", |_, _| {
        let signal = StopSignal::requested("stop", "found it");
        Box::pin(async move { Err(ToolError::Stop(signal)) })
    });
    let sleeping = |name: &'static str, seconds: u64| {
        MockTool::with_cx(name, "", move |_, cx| {
            let sleep = cx.env.clock.sleep(Duration::from_secs(seconds));
            Box::pin(sleep.map(move |()| Ok(ToolOutput::text(name))))
        })
    };
    let calls = [("quick", json!({})), ("slow", json!({})), ("stop", json!({}))];
    let agent = agent([ScenarioStep::tool_calls(calls)])
        .with_tool(stop)
        .with_tool(sleeping("quick", 2))
        .with_tool(sleeping("slow", 9));
    let options = RunOptions { env: clock.env(1), grace: Duration::from_secs(5), ..options() };
    let mut run = agent.start(asked(), options);
    for second in 0..5 {
        assert!(run_until_stuck(run.next()).is_none(), "second {second}");
        clock.advance(Duration::from_secs(1));
    }
    let state = block_on(run.finish());
    assert_eq!(told(&state)[0], "quick");
    assert_eq!(outcomes(&state, 0)[1], ToolOutcome::Cancelled { started: true });
    assert_eq!(state.stop_signal().map(|it| it.reason), Some(StopReason::StopRequested));
    is_valid(&state);
}

#[test]
fn calls_run_at_the_same_time_and_an_exclusive_one_is_a_barrier() {
    let timeline = Timeline::new();
    let tool = |name: &'static str, pauses: u32, exclusive: bool| {
        let timeline = timeline.clone();
        let tool = MockTool::with_cx(name, "", move |_, _| {
            let timeline = timeline.clone();
            timeline.note(format!("{name} begins"));
            Box::pin(yield_times(pauses).map(move |()| {
                timeline.note(format!("{name} ends"));
                Ok(ToolOutput::text(name))
            }))
        });
        tool.with_options(ToolOptions { exclusive, ..ToolOptions::default() })
    };
    let names = ["slow", "quick", "alone", "quick"];
    let agent = agent([ScenarioStep::tool_calls(names.map(|it| (it, json!({})))), "done".into()])
        .with_tool(tool("slow", 3, false))
        .with_tool(tool("quick", 1, false))
        .with_tool(tool("alone", 2, true));
    let state = execute(&agent, asked());
    assert_eq!(
        timeline.notes(),
        [
            "slow begins",
            "quick begins",
            "quick ends",
            "slow ends",
            "alone begins",
            "alone ends",
            "quick begins",
            "quick ends",
        ]
    );
    assert_eq!(told(&state), names, "results are in call order");
}

fn flaky(failures: usize, options: ToolOptions) -> MockTool {
    let count = AtomicUsize::new(0);
    MockTool::new("flaky", "", move |_| {
        if count.fetch_add(1, SeqCst) < failures {
            Err(BoxError::from("it broke"))
        } else {
            Ok("done")
        }
    })
    .with_options(options)
}

#[track_caller]
#[expect(clippy::unwrap_used, reason = "the lint spares tests, but not what they share")]
fn check_retry(effects: SideEffects, attempts: u32, ran: usize, expect: &str) {
    let retry = ToolRetry { attempts, delay: Duration::from_secs(1) };
    let tool = flaky(2, ToolOptions { side_effects: effects, retry, ..ToolOptions::default() });
    let clock = FrozenClock::new();
    let agent =
        agent([ScenarioStep::tool_call("flaky", json!({})), "done".into()]).with_tool(tool.clone());
    let options = RunOptions { env: clock.env(1), ..options() };
    let state = block_on(agent.start(asked(), options).finish());
    assert_eq!(told(&state), [expect]);
    assert_eq!(tool.keys().len(), ran);
    let waited: u64 = (1..ran).map(|it| 1 << (it - 1)).sum();
    assert_eq!(state.step_at(0).unwrap().duration(), Duration::from_secs(waited));
}

#[test]
fn only_calls_that_may_be_repeated_are_tried_again_and_waits_double() {
    check_retry(SideEffects::ReadOnly, 3, 3, "done");
    check_retry(SideEffects::Idempotent, 3, 3, "done");
    check_retry(SideEffects::Idempotent, 2, 2, "Error: it broke");
    check_retry(SideEffects::AtMostOnce, 3, 1, "Error: it broke");
    check_retry(SideEffects::Resumable, 3, 1, "Error: it broke");
}

#[test]
fn a_call_that_is_tried_for_ever_does_not_overflow() {
    let retry = ToolRetry { attempts: 200, delay: Duration::from_secs(1) };
    let options =
        ToolOptions { side_effects: SideEffects::ReadOnly, retry, ..ToolOptions::default() };
    let tool = flaky(usize::MAX, options);
    let agent =
        agent([ScenarioStep::tool_call("flaky", json!({})), "done".into()]).with_tool(tool.clone());
    assert_eq!(execute(&agent, asked()).status(), &ExecutionStatus::Completed);
    assert_eq!(tool.keys().len(), 200);
}

#[test]
fn a_call_that_takes_too_long_has_timed_out_and_may_have_taken_effect() {
    let own = ToolOptions { timeout: Some(Duration::from_secs(2)), ..ToolOptions::default() };
    let calls = [("own", json!({})), ("default", json!({}))];
    let agent = agent([ScenarioStep::tool_calls(calls), "done".into()])
        .with_tool(MockTool::hanging("own").with_options(own))
        .with_tool(MockTool::hanging("default"))
        .with(|parts| parts.executor.default_timeout = Some(Duration::from_secs(9)));
    let state = execute(&agent, asked());
    let text = |it| format!("Error: the tool did not finish within {it} and may have taken effect");
    assert_eq!(told(&state), [text("2s"), text("9s")]);
    let kinds: Vec<_> = outcomes(&state, 0).into_iter().map(kind_of).collect();
    assert_eq!(kinds, [Some(FailureKind::Timeout); 2]);
}

fn kind_of(outcome: ToolOutcome) -> Option<FailureKind> {
    match outcome {
        ToolOutcome::Failed(failure) => Some(failure.kind),
        _ => None,
    }
}

#[test]
fn the_calls_of_a_reply_that_was_cut_off_never_run() {
    for finish in [FinishReason::Length, FinishReason::ContentFilter] {
        let look = MockTool::returning("look", "", 1);
        let step = ScenarioStep::tool_call("look", json!({})).with_finish(finish);
        let agent = agent([step, "done".into()]).with_tool(look.clone());
        let state = execute(&agent, asked());
        assert_eq!(
            told(&state),
            ["Not run: the answer was cut off, so the call may be incomplete"]
        );
        assert_eq!((look.keys().len(), state.text().as_str()), (0, "done"));
    }
}

const NOTES: Key<Vec<u32>> = Key::session("test", "notes");

#[test]
fn effects_are_applied_in_call_order_when_the_step_is_recorded() {
    let tool = |name: &'static str, number: u32, pauses: u32| {
        MockTool::with_cx(name, "", move |_, cx| {
            let before = cx.state.get(&NOTES);
            Box::pin(async move {
                assert_eq!(before, None, "tools see the state as it was");
                yield_times(pauses).await;
                let output = ToolOutput::text(name).with_metadata("last", json!(number));
                let output = output.with_message(Message::user(format!("{name} was here")));
                Ok(output.with_value(&NOTES, &vec![number]).map_err(BoxError::from)?)
            })
        })
    };
    let calls = [("slow", json!({})), ("quick", json!({}))];
    let agent = agent([ScenarioStep::tool_calls(calls), "done".into()])
        .with_tool(tool("slow", 1, 3))
        .with_tool(tool("quick", 2, 0));
    let state = execute(&agent, asked());
    assert_eq!(said(&state), ["go", "", "slow was here", "quick was here", "done"]);
    assert_eq!(state.context().metadata().get("last"), Some(&json!(2)));
    assert_eq!(state.get(&NOTES), Some(vec![2]));
}

#[test]
fn a_hook_may_change_an_outcome_and_sees_calls_that_did_not_run() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&seen);
    let hook = CallableHook::new("watch").after_tool(move |call, outcome, _, _| {
        lock(&notes).push(call.name.to_string());
        if &*call.name == "scripted" {
            *outcome = ToolOutcome::Returned(ToolOutput::text("redacted"));
        }
        Ok(Flow::Continue)
    });
    let calls = [("scripted", json!({})), ("missing", json!({}))];
    let agent = hooked(&agent([ScenarioStep::tool_calls(calls), "done".into()]), hook);
    let state = execute(&agent, asked());
    assert_eq!(told(&state)[0], "redacted");
    let mut seen = lock(&seen).clone();
    seen.sort();
    assert_eq!(seen, ["missing", "scripted"]);
}

#[test]
fn a_failed_tool_is_told_to_the_model_and_does_not_fail_the_run() {
    let agent = agent([ScenarioStep::tool_call("break", json!({})), "done".into()])
        .with_tool(MockTool::failing("break", "it broke"));
    let state = execute(&agent, asked());
    assert_eq!(told(&state), ["Error: it broke"]);
    assert_eq!(state.status(), &ExecutionStatus::Completed);
    assert!(state.had_tool_errors() && state.has_errors());
    assert_eq!(state.errors().collect::<Vec<_>>(), ["it broke"]);
}

#[test]
fn a_tool_that_succeeded_has_no_failure_to_report() {
    let state = execute(&agent([ScenarioStep::tool("looking"), "done".into()]), asked());
    assert_eq!(outcomes(&state, 0)[0].error_message(), "");
    assert!(!state.had_tool_errors() && !state.has_errors());
    assert_eq!(state.errors().count(), 0);
}

#[test]
fn a_batch_of_500_calls_asks_and_runs_each_call_once() {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let hook = CallableHook::new("count").before_tool(move |_, _, _| {
        counter.fetch_add(1, SeqCst);
        Ok(ToolDecision::Run)
    });
    let add = MockTool::new("add", "", |it| Ok::<_, BoxError>(it["a"].clone()))
        .with_schema(json!({ "type": "object" }));
    let calls = (0..500).map(|it| ("add", json!({ "a": it })));
    let agent = hooked(&agent([ScenarioStep::tool_calls(calls), "done".into()]), hook)
        .with_tool(add.clone());
    let journal = loopwright_testing::MemoryJournal::new();
    let state = crate::support::execute_with(&agent, asked(), &journal);
    let expect: Vec<String> = (0..500).map(|it: i32| it.to_string()).collect();
    assert_eq!(told(&state), expect);
    assert_eq!((count.load(SeqCst), add.keys().len()), (500, 500));
    // Each outcome is kept when it arrives, and once: what is written grows with the calls.
    let written: usize = journal.sent().iter().map(|(_, bytes)| bytes.len()).sum();
    assert!(written < 500 * 500, "{written} bytes were written");
}

#[test]
fn a_step_may_have_65535_calls_and_no_more() {
    let run = |count: u32| {
        let name: Arc<str> = "scripted".into();
        let calls = (0..count).map(|_| (Arc::clone(&name), Arc::clone(&name)));
        let cut_off = ScenarioStep::raw_tool_calls(calls).with_finish(FinishReason::Length);
        execute(&agent([cut_off, "done".into()]), asked())
    };
    let state = run(65_535);
    let calls = state.step_at(0).unwrap().tool_executions().count();
    assert_eq!((state.text().as_str(), calls), ("done", 65_535));
    let ExecutionStatus::Failed(failure) = run(65_536).status().clone() else {
        panic!("it has not failed")
    };
    assert_eq!(failure.message(), "the model made too many tool calls in one response: 65536");
}

/// Says very much before it calls tools.
struct Talkative;

#[async_trait]
impl Driver for Talkative {
    async fn think(&self, state: &AgentState, _: &ThinkCx<'_>) -> Result<StepResponse, StepError> {
        let words = std::iter::repeat_n(Part::text("so"), 200_000);
        let call = |it| Part::new(Content::ToolCall(ToolCall::new(format!("{it}"), "add", "{}")));
        let message = match state.step_count() {
            0 => Message::new(Role::Assistant, words.chain((0..1000).map(call))),
            _ => Message::assistant("done"),
        };
        let spend = loopwright_core::Spend::default();
        Ok(StepResponse { message, finish_reason: FinishReason::Stop, spend, answered_by: None })
    }
}

/// Where each look at a call went through the answer, this would take minutes.
#[test]
fn the_cost_of_a_call_does_not_grow_with_the_number_of_calls_in_an_answer() {
    for exclusive in [false, true] {
        let options = ToolOptions {
            exclusive,
            side_effects: SideEffects::ReadOnly,
            ..ToolOptions::default()
        };
        let add = MockTool::returning("add", "", "1").with_options(options);
        let agent = test_loop(Talkative).with_tool(add.clone());
        let events = EventRecorder::new();
        let state = execute(&agent.with_event_sink(events.sink()), asked());
        assert_eq!((state.text().as_str(), add.keys().len()), ("done", 1000));
        let ended = events.events_of::<ToolCallCompleted>();
        let ended: Vec<_> = ended.iter().map(|it| (it.call, it.success)).collect();
        assert_eq!(ended, (0..1000).map(|call| (call, true)).collect::<Vec<_>>());
    }
}

#[test]
fn a_tools_model_call_is_charged_to_the_execution() {
    let model = FakeModel::script([ScenarioStep::from("four").with_usage(Usage::new(5, 2))]);
    let asking = model.clone();
    let tool = MockTool::with_cx("ask", "", move |_, cx| {
        let model = asking.clone();
        Box::pin(async move {
            let answer =
                cx.infer(&model, InferenceRequest::default()).await.map_err(BoxError::from)?;
            Ok(ToolOutput::text(answer.message.text()))
        })
    });
    let first = ScenarioStep::tool_call("ask", json!({})).with_usage(Usage::new(1, 1));
    let agent = agent([first, "done".into()]).with_tool(tool);
    let state = execute(&agent, asked());
    assert_eq!((told(&state), state.usage()), (vec!["four".to_owned()], Usage::new(6, 3)));
}

#[test]
fn output_that_is_too_long_is_cut_between_characters_and_the_model_is_told() {
    let agent = agent([ScenarioStep::tool_call("say", json!({})), "done".into()])
        .with_tool(MockTool::returning("say", "", "aéé"))
        .with(|parts| parts.executor.max_output_bytes = 4);
    let state = execute(&agent, asked());
    assert_eq!(told(&state), ["aé\n[truncated: the tool returned 5 bytes; the first 4 are shown]"]);
}

#[test]
fn a_tool_set_keeps_the_place_of_a_tool_that_is_replaced() {
    let base = agent([ScenarioStep::tool("looking"), "done".into()]);
    let other = base.with_tool(MockTool::returning("scripted", "Another.", "other"));
    let names = |it: &loopwright_core::AgentLoop| it.tools().names().to_vec();
    assert_eq!(names(&base), names(&other));
    assert_eq!(told(&execute(&other, asked())), ["other"]);
    assert_eq!(told(&execute(&base, asked())), ["done"]);
}

#[test]
fn background_work_of_a_call_ends_with_its_run() {
    let kept: Arc<Mutex<Vec<CancellationToken>>> = Arc::default();
    let notes = Arc::clone(&kept);
    let leave = MockTool::with_cx("leave", "", move |_, cx| {
        notes.lock().unwrap().push(cx.cancel.clone());
        Box::pin(async { Ok(ToolOutput::text("running")) })
    });
    let agent =
        agent([ScenarioStep::tool_call("leave", json!({})), "done".into()]).with_tool(leave);
    execute(&agent, asked());
    let mut run = agent.start(asked(), options());
    block_on(run.next());
    let is_told = |at: usize| kept.lock().unwrap()[at].is_cancelled();
    assert_eq!([is_told(0), is_told(1)], [true, false], "a step is not the end of a run");
    drop(run);
    assert!(is_told(1));
}
