//! What is told, and in which order.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use loopwright_core::{
    AgentEvent, AgentLoop, AgentState, ApprovalDecision, ApprovalRequest, Arguments, BoxError,
    Budget, CallableHook, CustomEvent, EventEnvelope, EventSink, EventSinks, EventType as _, Hook,
    InferenceDecision, RunOptions, StopSignal, ToolDecision, ToolOutcome,
    events::{
        ContinuationEvaluated, HookExecuted, InferenceResponseReceived, StateUpdated,
        StepCompleted, StepStarted, StopSignalReceived, TokenUsageReported, ToolCallBlocked,
        ToolCallCompleted, ToolCallStarted,
    },
    messages::{InferenceResponse, Message, Usage},
};
use loopwright_testing::{
    EventRecorder, FakeModel, MockTool, ModelDriver, ScenarioStep, block_on, run_until_stuck,
    test_loop,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::support::{agent, asked, execute, hooked, hooks, options, outcomes};

#[track_caller]
fn check(agent: &AgentLoop, state: AgentState, expect: &[&str]) -> (AgentState, EventRecorder) {
    let events = EventRecorder::new();
    let state = execute(&agent.with_event_sink(events.sink()), state);
    assert_eq!(events.names(), expect);
    (state, events)
}

#[test]
fn an_answer_in_one_step() {
    let model = FakeModel::script(["hello"]);
    let (_, events) = check(
        &test_loop(ModelDriver::new(model)),
        asked(),
        &[
            "ExecutionStarted",
            "StepStarted",
            "InferenceRequestStarted",
            "InferenceResponseReceived",
            "StepCompleted",
            "StateUpdated",
            "ContinuationEvaluated",
            "ExecutionCompleted",
        ],
    );
    let (names, ids): (Vec<_>, Vec<_>) =
        events.envelopes().into_iter().map(|it| (it.agent, it.execution)).unzip();
    assert!(names.windows(2).all(|pair| pair[0] == pair[1]));
    assert!(ids.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(events.events_of::<StateUpdated>()[0].step_count, 1);
}

#[test]
fn a_tool_then_an_answer() {
    let steps = [ScenarioStep::tool("looking").with_usage(Usage::new(3, 4)), "done".into()];
    let (_, events) = check(
        &agent(steps),
        asked(),
        &[
            "ExecutionStarted",
            "StepStarted",
            "ToolCallStarted",
            "ToolCallCompleted",
            "StepCompleted",
            "TokenUsageReported",
            "StateUpdated",
            "ContinuationEvaluated",
            "StepStarted",
            "StepCompleted",
            "StateUpdated",
            "ContinuationEvaluated",
            "ExecutionCompleted",
        ],
    );
    let begun: Vec<_> =
        events.events_of::<StepStarted>().iter().map(|it| (it.step, it.messages)).collect();
    assert_eq!(begun, [(1, 1), (2, 2)]);
    assert_eq!(events.events_of::<TokenUsageReported>()[0].usage, Usage::new(3, 4));
    let call = &events.events_of::<ToolCallCompleted>()[0];
    assert_eq!((call.step, call.call, call.success), (1, 0, true));
}

#[test]
fn a_driver_that_fails() {
    let (state, events) = check(
        &agent([ScenarioStep::error("down")]),
        asked(),
        &[
            "ExecutionStarted",
            "StepStarted",
            "StepCompleted",
            "StateUpdated",
            "ExecutionFailed",
            "ExecutionCompleted",
        ],
    );
    assert_eq!(state.step_count(), 1);
    assert_eq!(events.events_of::<StepCompleted>()[0].errors, ["the driver failed: down"]);
}

#[test]
fn a_stop_before_the_first_step() {
    let budget = Budget { steps: Some(0), ..Budget::default() };
    let (state, events) = check(
        &agent([]),
        asked().with_budget(budget),
        &[
            "ExecutionStarted",
            "StopSignalReceived",
            "ContinuationEvaluated",
            "ExecutionStopped",
            "ExecutionCompleted",
        ],
    );
    assert_eq!(state.step_count(), 0);
    assert_eq!(events.events_of::<ContinuationEvaluated>()[0].step, 0);
}

#[test]
fn a_call_that_a_hook_blocks() {
    let hook = CallableHook::new("policy")
        .before_tool(|_, _, _| Ok(ToolDecision::Block { reason: "not today".into() }));
    let (state, events) = check(
        &hooked(&agent([ScenarioStep::tool("looking"), "done".into()]), hook),
        asked(),
        &[
            "ExecutionStarted",
            "StepStarted",
            "HookExecuted",
            "ToolCallBlocked",
            "ToolCallCompleted",
            "StepCompleted",
            "StateUpdated",
            "ContinuationEvaluated",
            "StepStarted",
            "StepCompleted",
            "StateUpdated",
            "ContinuationEvaluated",
            "ExecutionCompleted",
        ],
    );
    let blocked = &events.events_of::<ToolCallBlocked>()[0];
    assert_eq!((&*blocked.hook, &*blocked.reason), ("policy", "not today"));
    assert_eq!(events.events_of::<ToolCallStarted>(), []);
    assert_eq!(state.status().as_str(), "completed");
    assert_eq!(events.events_of::<HookExecuted>()[0].point, "before_tool");
}

#[test]
fn a_pause_and_what_comes_after_it() {
    let hook = CallableHook::new("approval")
        .before_tool(|_, _, _| Ok(ToolDecision::Ask(ApprovalRequest::new("may it?", "approval"))));
    let agent = hooked(&agent([ScenarioStep::tool("looking"), "done".into()]), hook);
    let (state, _) = check(
        &agent,
        asked(),
        &[
            "ExecutionStarted",
            "StepStarted",
            "HookExecuted",
            "ToolApprovalRequested",
            "ExecutionPaused",
        ],
    );
    assert_eq!(state.pending()[0].question.text, "may it?");
    let (state, _) = check(
        &agent,
        state.decide(0, ApprovalDecision::Approve),
        &[
            "ExecutionStarted",
            "HookExecuted",
            "ToolCallStarted",
            "ToolCallCompleted",
            "StepCompleted",
            "StateUpdated",
            "ContinuationEvaluated",
            "StepStarted",
            "StepCompleted",
            "StateUpdated",
            "ContinuationEvaluated",
            "ExecutionCompleted",
        ],
    );
    assert_eq!(state.text(), "done");
}

#[test]
fn resuming_a_paused_run_without_a_decision_emits_nothing() {
    let hook = CallableHook::new("approval")
        .before_tool(|_, _, _| Ok(ToolDecision::Ask(ApprovalRequest::new("may it?", "approval"))));
    let agent = hooked(&agent([ScenarioStep::tool("looking")]), hook);
    let paused = execute(&agent, asked());
    let (state, _) = check(&agent, paused.clone(), &[]);
    assert_eq!(state, paused);
}

#[test]
fn an_answer_of_a_hook_names_the_hook_and_costs_nothing() {
    let answer = InferenceResponse::new(Message::assistant("known"), Usage::new(9, 9));
    let hook = CallableHook::new("cache")
        .before_inference(move |_, _, _| Ok(InferenceDecision::Respond(answer.clone())));
    let model = FakeModel::echo();
    let events = EventRecorder::new();
    let agent =
        hooked(&test_loop(ModelDriver::new(model.clone())), hook).with_event_sink(events.sink());
    let state = execute(&agent, asked());
    assert_eq!(
        (state.text().as_str(), model.asked(), state.usage()),
        ("known", 0, Usage::default())
    );
    let answered = &events.events_of::<InferenceResponseReceived>()[0];
    assert_eq!(answered.answered_by.as_deref(), Some("cache"));
}

#[test]
fn a_listener_that_panics_is_contained_and_hears_of_the_next_event() {
    let events = EventRecorder::new();
    let panicking: Arc<dyn EventSink> =
        Arc::new(|_: &EventEnvelope| panic!("the sink lost its head"));
    let agent = agent([]).with_event_sink(panicking).with_event_sink(events.sink());
    let state = execute(&agent, asked());
    assert_eq!(state.text(), "ok");
    assert_eq!(events.names().last().map(String::as_str), Some("ExecutionCompleted"));
}

#[test]
fn a_listener_to_one_kind_hears_that_kind_of_loop_and_run() {
    let heard = EventRecorder::new();
    let sink = heard.sink();
    let agent = agent([]).on_event(move |_: &StepCompleted, envelope| sink.emit(envelope));
    let mut options = options();
    let of_run = EventRecorder::new();
    options.sinks.add(of_run.sink());
    drop(block_on(agent.start(asked(), options).finish()));
    assert_eq!(heard.names(), ["StepCompleted"]);
    assert_eq!(of_run.names().len(), 6);
}

#[test]
fn a_retried_call_begins_anew_each_time_and_ends_once() {
    let options = loopwright_core::ToolOptions {
        side_effects: loopwright_core::SideEffects::Idempotent,
        retry: loopwright_core::ToolRetry { attempts: 3, ..Default::default() },
        ..Default::default()
    };
    let tool = MockTool::failing("flaky", "it broke").with_options(options);
    let events = EventRecorder::new();
    let agent = agent([ScenarioStep::tool_call("flaky", json!({})), "done".into()])
        .with_tool(tool)
        .with_event_sink(events.sink());
    drop(execute(&agent, asked()));
    let attempts: Vec<u32> =
        events.events_of::<ToolCallStarted>().iter().map(|it| it.attempt).collect();
    assert_eq!(attempts, [1, 2, 3]);
    assert_eq!(events.events_of::<ToolCallCompleted>().len(), 1);
}

#[test]
fn every_signal_is_told_with_its_source() {
    let hook = CallableHook::new("guard").before_step(|state, _| {
        state.signal(StopSignal::requested("one", "first"));
        Ok::<_, BoxError>(loopwright_core::Flow::Stop(StopSignal::requested("two", "second")))
    });
    let events = EventRecorder::new();
    let agent = hooked(&agent([]), hook).with_event_sink(events.sink());
    let state = block_on(agent.start(asked(), RunOptions { ..options() }).finish());
    let told = events.events_of::<StopSignalReceived>();
    let sources: Vec<_> = told.iter().map(|it| it.signal.source.as_deref().unwrap()).collect();
    assert_eq!(sources, ["one", "two"]);
    assert_eq!(state.stop_signal().unwrap().source.as_deref(), Some("one"));
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct TicketCreated {
    number: u32,
    labels: Vec<String>,
}

impl CustomEvent for TicketCreated {
    const NAME: &'static str = "ticket_created";
}

/// An event of the same name in another form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct OtherTicket {
    title: String,
}

impl CustomEvent for OtherTicket {
    const NAME: &'static str = "ticket_created";
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Progress(f64);

impl CustomEvent for Progress {
    const NAME: &'static str = "progress";
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Idle;

impl CustomEvent for Idle {
    const NAME: &'static str = "idle";
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Typed {
    r#type: String,
}

impl CustomEvent for Typed {
    const NAME: &'static str = "typed";
}

fn ticket() -> TicketCreated {
    TicketCreated { number: 7, labels: vec!["bug".to_owned()] }
}

#[test]
fn a_custom_event_of_a_tool_reaches_listeners_of_its_type_and_of_everything() {
    let events = EventRecorder::new();
    let create = MockTool::with_cx("create", "Creates a ticket.", |_, cx| {
        cx.events.emit(ticket);
        Box::pin(async { Ok(loopwright_core::ToolOutput::text("created")) })
    });
    let agent = agent([ScenarioStep::tool_call("create", json!({})), "done".into()])
        .with_tool(create)
        .with_event_sink(events.sink());
    execute(&agent, asked());
    assert_eq!(events.events_of::<TicketCreated>(), [ticket()]);
    assert_eq!((events.events_of::<OtherTicket>(), events.events_of::<Idle>()), (vec![], vec![]));
    let names = events.names();
    let at = |name: &str| names.iter().position(|it| it == name).unwrap();
    assert!(at("ToolCallStarted") < at("ticket_created"), "{names:?}");
    assert!(at("ticket_created") < at("ToolCallCompleted"), "{names:?}");
}

#[test]
fn a_custom_event_is_json_under_its_name_and_read_without_loss() {
    fn check<T: CustomEvent + Clone + PartialEq>(event: &T, expect: &serde_json::Value) {
        let written = serde_json::to_value(AgentEvent::from(event.clone())).unwrap();
        assert_eq!(&written, expect);
        let read: AgentEvent = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(T::of(&read), Some(event));
        assert_eq!(serde_json::to_value(&read).unwrap(), written);
    }
    check(&ticket(), &json!({ "type": "ticket_created", "number": 7, "labels": ["bug"] }));
    check(&Progress(0.5), &json!({ "type": "progress", "value": 0.5 }));
    check(&Idle, &json!({ "type": "idle" }));
    let typed = Typed { r#type: "odd".to_owned() };
    check(&typed, &json!({ "type": "typed", "value": { "type": "odd" } }));
}

#[test]
fn an_event_of_another_program_keeps_its_name_and_fields() {
    let written = json!({ "type": "ticket_created", "title": "Broken" });
    let event: AgentEvent = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(event.name(), "ticket_created");
    assert_eq!((TicketCreated::of(&event), Idle::of(&event)), (None, None));
    assert_eq!(OtherTicket::of(&event), Some(&OtherTicket { title: "Broken".to_owned() }));
    assert_eq!(serde_json::to_value(&event).unwrap(), written);
}

#[test]
fn an_event_of_the_core_that_is_malformed_is_no_custom_event() {
    let read = |value| serde_json::from_value::<AgentEvent>(value).map_err(|it| it.to_string());
    let error = read(json!({ "type": "message_steered" })).unwrap_err();
    assert_eq!(error, "missing field `text`");
    assert_eq!(read(json!({ "text": "hi" })).unwrap_err(), "missing field `type`");
}

#[test]
fn a_custom_event_that_cannot_be_encoded_says_so_and_ends_no_run() {
    #[derive(Debug, Serialize, Deserialize)]
    struct Unwritable(HashMap<(u8, u8), u8>);

    impl CustomEvent for Unwritable {
        const NAME: &'static str = "unwritable";
    }

    let event = AgentEvent::from(Unwritable(HashMap::from([((1, 2), 3)])));
    let written = serde_json::to_value(event).unwrap();
    assert_eq!(written["encoding_error"], "key must be a string");
}

/// An agent whose hook rewrites the arguments of its one call, and the arguments in the events of calls that ended.
fn rewriting(tool: MockTool) -> (AgentLoop, impl Fn() -> Vec<String>) {
    let call = ScenarioStep::tool_call("work", json!({ "a": 1 }));
    let rewrite = CallableHook::new("rewrite")
        .before_tool(|_, _, _| Ok(ToolDecision::Rewrite(Arguments::new(r#"{"a":2}"#))));
    let events = EventRecorder::new();
    let agent = agent([call, "done".into()])
        .with_tool(tool)
        .with_interceptor(hooks([Arc::new(rewrite) as Arc<dyn Hook>]))
        .with_event_sink(events.sink());
    let arguments = move || {
        let ended = events.events_of::<ToolCallCompleted>();
        ended.iter().map(|it| it.arguments.to_string()).collect()
    };
    (agent, arguments)
}

#[test]
fn the_event_of_a_call_that_ended_has_the_arguments_that_the_tool_received() {
    let echo = MockTool::new("work", "", |it| Ok::<_, BoxError>(it.to_string()));
    let (agent, arguments) = rewriting(echo.with_schema(json!({ "type": "object" })));
    execute(&agent, asked());
    assert_eq!(arguments(), [r#"{"a":2}"#]);
}

#[test]
fn the_event_of_a_call_that_is_cancelled_has_the_arguments_that_the_tool_received() {
    let (agent, arguments) = rewriting(MockTool::hanging("work"));
    let mut run = agent.start(asked(), RunOptions { grace: Duration::ZERO, ..options() });
    assert!(run_until_stuck(run.next()).is_none());
    run.handle().cancel();
    let state = block_on(run.finish());
    assert_eq!(outcomes(&state, 0), [ToolOutcome::Cancelled { started: true }]);
    assert_eq!(arguments(), [r#"{"a":2}"#]);
}

#[test]
fn every_event_names_a_permission_mode_if_all_labels_return_one() {
    let events = EventRecorder::new();
    let look = MockTool::returning("look", "", "seen");
    let agent = agent([ScenarioStep::tool_call("look", json!({})), "done".into()]).with_tool(look);
    let labelled = |labels: &[Option<&'static str>]| {
        let agent = agent.with(|parts| {
            for label in labels.iter().copied() {
                parts.event_sinks.add_mode_label(move || label);
            }
        });
        agent.with_event_sink(events.sink())
    };
    let run = |labels: &[Option<&'static str>]| {
        let heard = events.envelopes().len();
        drop(execute(&labelled(labels), asked()));
        let envelopes = events.envelopes().split_off(heard);
        let modes = envelopes.into_iter().map(|it| it.permission_mode.map(Cow::into_owned));
        modes.collect::<HashSet<_>>()
    };
    let named = HashSet::from([Some("unconfined".to_owned())]);
    assert_eq!(run(&[]), HashSet::from([None]));
    assert_eq!(run(&[Some("unconfined")]), named);
    assert_eq!(run(&[Some("unconfined"), Some("unconfined")]), named);
    assert_eq!(run(&[Some("unconfined"), None]), HashSet::from([None]));
    assert_eq!(run(&[None, Some("unconfined")]), HashSet::from([None]));
}

#[test]
fn a_sub_agent_names_no_permission_mode_that_its_parent_does_not_name() {
    let named = |own: &[Option<&'static str>], of_parent: &[Option<&'static str>]| {
        let events = EventRecorder::new();
        let mut sinks = EventSinks::default();
        sinks.add(events.sink());
        for label in of_parent.iter().copied() {
            sinks.add_mode_label(move || label);
        }
        let agent = agent([]).with(|parts| {
            for label in own.iter().copied() {
                parts.event_sinks.add_mode_label(move || label);
            }
        });
        // The run of a sub-agent gets the listeners of its parent with the options.
        let options = RunOptions { sinks, ..options() };
        drop(block_on(agent.start(asked(), options).finish()));
        events.envelopes()[0].permission_mode.is_some()
    };
    let unconfined = [Some("unconfined")];
    assert!(named(&[], &unconfined));
    assert!(named(&unconfined, &unconfined));
    assert!(named(&unconfined, &[]));
    assert!(!named(&unconfined, &[None]));
    assert!(!named(&[None], &unconfined));
}
