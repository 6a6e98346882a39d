//! What states, steps, calls, tools and events say about a run.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use futures_util::StreamExt as _;
use loopwright_core::{
    AgentEvent, AgentLoop, AgentState, BoxError, CallState, CallableHook, Driver, ErrorDecision,
    ExecutionStatus, Failure, FailureKind, Flow, InferenceDecision, RunOptions, Step, StepError,
    StepKind, StepResponse, StopDecision, ThinkCx, Tool, ToolCx, ToolDecision, ToolOptions,
    ToolOutcome, ToolOutput, ToolSet,
    events::{
        ContinuationEvaluated, ExecutionCompleted, ExecutionFailed, ExecutionStarted, HookExecuted,
        StateUpdated, StepCompleted, StepStarted, TokenUsageReported, ToolCallCompleted,
        ToolCallStarted, ValidationFailed,
    },
    messages::{FinishReason, InferenceResponse, Message, Role, SectionName, ToolSpec, Usage},
};
use loopwright_testing::{
    EventRecorder, FakeModel, FrozenClock, MockTool, ModelDriver, ScenarioStep, block_on, test_loop,
};
use serde_json::json;

use crate::support::{agent, asked, execute, hooked, lock, options, told};

const TWO_SECONDS: Duration = Duration::from_secs(2);

/// An agent whose tool `look` takes two seconds and fails if it is asked to, and what it emits.
fn looking(
    steps: impl IntoIterator<Item = ScenarioStep>,
) -> (AgentLoop, EventRecorder, FrozenClock) {
    let (clock, events) = (FrozenClock::new(), EventRecorder::new());
    let work = clock.clone();
    let tool = MockTool::new("look", "Looks.", move |arguments| {
        work.advance(TWO_SECONDS);
        if arguments["at"] == "nothing" {
            return Err::<String, _>(BoxError::from("it broke"));
        }
        Ok("seen".to_owned())
    });
    (agent(steps).with_tool(tool).with_event_sink(events.sink()), events, clock)
}

fn run(agent: &AgentLoop, clock: &FrozenClock) -> AgentState {
    let options = RunOptions { env: clock.env(1), ..options() };
    block_on(agent.start(asked(), options).finish())
}

fn look(at: &str) -> ScenarioStep {
    ScenarioStep::tool_call("look", json!({ "at": at })).with_usage(Usage::new(5, 2))
}

fn done() -> ScenarioStep {
    ScenarioStep::from("done").with_usage(Usage::new(7, 1))
}

// ------------------------------------------------------------------------------------------------
// Events

#[test]
fn the_events_of_a_run_carry_what_happened() {
    let (agent, events, clock) = looking([look("rye"), done()]);
    run(&agent, &clock);

    let begun = &events.events_of::<ExecutionStarted>()[0];
    assert_eq!((begun.messages, begun.tools, begun.resumed), (1, 2, false));
    assert_eq!(begun.name, agent.profile().name);
    let [first, second] = &events.events_of::<StepStarted>()[..] else { panic!("two steps") };
    assert_eq!((first.step, first.messages), (1, 1));
    assert_eq!((second.step, second.messages), (2, 2));
    let offered: Vec<&str> = first.tools.iter().map(|it| &**it).collect();
    assert_eq!(offered, agent.tools().names().iter().map(|it| &**it).collect::<Vec<_>>());
    assert!(offered.contains(&"look"));

    let call = &events.events_of::<ToolCallStarted>()[0];
    assert_eq!((call.step, call.call, call.attempt), (1, 0, 1));
    assert_eq!((&*call.tool, &*call.arguments), ("look", r#"{"at":"rye"}"#));
    let call = &events.events_of::<ToolCallCompleted>()[0];
    assert_eq!((call.step, call.call, &*call.tool, call.success), (1, 0, "look", true));
    assert_eq!(&*call.arguments, r#"{"at":"rye"}"#);
    assert_eq!(call.outcome.output().unwrap().to_text(), "seen");
    assert_eq!(call.duration, TWO_SECONDS);

    let [first, second] = &events.events_of::<StepCompleted>()[..] else { panic!("two steps") };
    assert_eq!((first.step, first.kind), (1, StepKind::ToolExecution));
    assert_eq!((first.has_tool_calls, first.duration), (true, TWO_SECONDS));
    assert_eq!((first.usage, first.errors.len()), (Usage::new(5, 2), 0));
    assert_eq!(first.finish, Some(FinishReason::ToolCalls));
    assert_eq!((second.step, second.kind), (2, StepKind::FinalResponse));
    assert_eq!((second.has_tool_calls, second.duration), (false, Duration::ZERO));
    assert_eq!((second.usage, &second.finish), (Usage::new(7, 1), &Some(FinishReason::Stop)));

    let reported: Vec<_> = events.events_of::<TokenUsageReported>();
    let reported: Vec<_> = reported.iter().map(|it| (&*it.operation, it.step, it.usage)).collect();
    assert_eq!(reported, [("step", 1, Usage::new(5, 2)), ("step", 2, Usage::new(7, 1))]);
    let updated = events.events_of::<StateUpdated>();
    let updated: Vec<_> = updated.iter().map(|it| (&*it.status, it.step_count)).collect();
    assert_eq!(updated, [("in_progress", 1), ("in_progress", 2)]);
    let evaluated = events.events_of::<ContinuationEvaluated>();
    let evaluated: Vec<_> =
        evaluated.iter().map(|it| (it.step, it.outcome.should_continue)).collect();
    assert_eq!(evaluated, [(1, true), (2, false)]);
    let over = &events.events_of::<ExecutionCompleted>()[0];
    assert_eq!((&*over.status, over.steps, over.errors), ("completed", 2, 0));
    assert_eq!(over.usage, Usage::new(12, 3));
}

#[test]
fn the_events_of_a_run_that_fails_say_why_and_how_far_it_came() {
    let (agent, events, clock) = looking([look("nothing"), ScenarioStep::error("down")]);
    let state = run(&agent, &clock);

    let ExecutionStatus::Failed(failure) = state.status() else { panic!("{state:?}") };
    assert_eq!(failure.kind, FailureKind::Driver);
    let call = &events.events_of::<ToolCallCompleted>()[0];
    assert_eq!((call.success, call.outcome.error_message()), (false, "it broke".to_owned()));
    let errors: Vec<_> =
        events.events_of::<StepCompleted>().into_iter().map(|it| it.errors).collect();
    assert_eq!(errors, [vec!["it broke".to_owned()], vec!["the driver failed: down".to_owned()]]);
    let failed = &events.events_of::<ExecutionFailed>()[0];
    assert_eq!((&failed.failure, failed.steps, failed.usage), (failure, 2, Usage::new(5, 2)));
    let over = &events.events_of::<ExecutionCompleted>()[0];
    assert_eq!((&*over.status, over.steps, over.errors), ("failed", 2, 2));
}

#[test]
fn every_event_names_its_agent_its_execution_and_its_moment() {
    let (agent, events, clock) = looking([look("rye"), done()]);
    let began = clock.env(1).clock.now();
    let state = run(&agent, &clock);

    let envelopes = events.envelopes();
    let (id, execution) = (state.id().unwrap(), state.execution().unwrap().id());
    assert!(envelopes.iter().all(|it| it.agent == *id && it.execution == *execution));
    let numbers: Vec<u64> = envelopes.iter().map(|it| it.seq).collect();
    assert_eq!(numbers, (0_u64..).take(envelopes.len()).collect::<Vec<_>>());
    let moment = |name| {
        let envelope = envelopes.iter().find(|it| it.event.name() == name).unwrap();
        envelope.at.since(began)
    };
    assert_eq!(moment("ToolCallStarted"), Duration::ZERO);
    assert_eq!(moment("ToolCallCompleted"), TWO_SECONDS);
    assert!(matches!(envelopes[0].event, AgentEvent::ExecutionStarted(_)));
}

/// A hook that notes every point at which it is called.
fn noting(notes: &Arc<Mutex<Vec<&'static str>>>) -> CallableHook {
    let note = |point: &'static str| {
        let notes = Arc::clone(notes);
        move || lock(&notes).push(point)
    };
    let (begin, end) = (note("before_execution"), note("after_execution"));
    let (step, stepped) = (note("before_step"), note("after_step"));
    let (asks, answered) = (note("before_inference"), note("after_inference"));
    let (calls, called) = (note("before_tool"), note("after_tool"));
    let (failed, stops) = (note("on_error"), note("on_stop"));
    CallableHook::new("noting")
        .before_execution(move |_, _| {
            begin();
            Ok(Flow::Continue)
        })
        .before_step(move |_, _| {
            step();
            Ok(Flow::Continue)
        })
        .before_inference(move |_, _, _| {
            asks();
            Ok(InferenceDecision::Send)
        })
        .after_inference(move |_, _, _| {
            answered();
            Ok(Flow::Continue)
        })
        .before_tool(move |_, _, _| {
            calls();
            Ok(ToolDecision::Run)
        })
        .after_tool(move |_, _, _, _| {
            called();
            Ok(Flow::Continue)
        })
        .on_error(move |_, _, _| {
            failed();
            Ok(ErrorDecision::Retry)
        })
        .after_step(move |_, _| {
            stepped();
            Ok(Flow::Continue)
        })
        .on_stop(move |_, _, _| {
            stops();
            Ok(StopDecision::Stop)
        })
        .after_execution(move |_, _| {
            end();
            Ok(())
        })
}

#[test]
fn hooks_are_called_at_every_point_of_a_run_in_order() {
    let (notes, events) = (Arc::default(), EventRecorder::new());
    let model = FakeModel::script([ScenarioStep::error("down"), look("rye"), "done".into()]);
    let agent = test_loop(ModelDriver::new(model))
        .with_tool(MockTool::returning("look", "Looks.", "seen"))
        .with_event_sink(events.sink());
    execute(&hooked(&agent, noting(&notes)), asked());

    let step = ["before_step", "before_inference"];
    let expect = [
        &["before_execution"][..],
        &step,
        &["on_error", "after_step"],
        &step,
        &["after_inference", "before_tool", "after_tool", "after_step"],
        &step,
        &["after_inference", "after_step", "on_stop", "after_execution"],
    ]
    .concat();
    assert_eq!(*lock(&notes), expect);
    let told: Vec<_> = events.events_of::<HookExecuted>().into_iter().map(|it| it.point).collect();
    assert_eq!(told, expect);
}

// ------------------------------------------------------------------------------------------------
// States and steps

#[test]
fn a_new_state_has_neither_conversation_nor_execution() {
    let state = AgentState::new();
    assert_eq!((state.status(), state.text()), (&ExecutionStatus::Pending, String::new()));
    assert_eq!((state.transcript().len(), state.step_count()), (0, 0));
    assert_eq!((state.usage(), state.execution_count()), (Usage::default(), 0));
    assert!(state.execution().is_none() && state.last_step().is_none());
    assert!(state.metadata().iter().next().is_none() && state.llm().is_none());
}

#[test]
fn executing_a_loop_gives_the_last_of_the_states_that_iterating_it_yields() {
    let agent = agent([ScenarioStep::tool("looking"), "done".into()]);
    let states: Vec<AgentState> = block_on(agent.iterate(asked()).collect());
    let steps: Vec<_> = states.iter().map(AgentState::step_count).collect();
    assert_eq!((steps, states[1].text()), (vec![1, 2], "done".to_owned()));
    let state = block_on(agent.execute(asked()));
    assert_eq!((state.step_count(), state.text()), (2, "done".to_owned()));
    assert_eq!(state.status(), &ExecutionStatus::Completed);
}

#[test]
fn messages_are_part_of_the_conversation_under_their_role() {
    let state = AgentState::new().with_user_message("go");
    let shown: Vec<_> = state.transcript().iter().map(|it| it.message().clone()).collect();
    assert_eq!(shown, [Message::user("go")]);
    assert_eq!((shown[0].role(), shown[0].text()), (Role::User, "go".to_owned()));
    assert_eq!(state.section(SectionName::MESSAGES).count(), 1);
}

#[test]
fn a_step_keeps_what_was_said_and_called_and_what_it_used() {
    let calls = [("look", json!({ "at": "rye" })), ("look", json!({ "at": "nothing" }))];
    let step = ScenarioStep::tool_calls(calls).with_text("Let me see.");
    let (agent, _, clock) = looking([step.with_usage(Usage::new(5, 2)), done()]);
    let state = run(&agent, &clock);

    let execution = state.execution().unwrap();
    let took = execution.ended_at().unwrap().since(execution.started_at());
    assert_eq!((took, execution.duration(execution.started_at())), (2 * TWO_SECONDS, took));
    let [first, second] = &execution.steps().collect::<Vec<_>>()[..] else { panic!("two steps") };
    assert_eq!((first.number(), first.kind()), (1, StepKind::ToolExecution));
    assert_eq!(first.message().unwrap().text(), "Let me see.");
    assert_eq!(
        (first.usage(), first.finish_reason()),
        (Usage::new(5, 2), Some(&FinishReason::ToolCalls))
    );
    assert_eq!(first.errors().collect::<Vec<_>>(), ["it broke"]);
    assert!(first.has_errors() && first.has_tool_calls() && first.failure().is_none());
    let called: Vec<_> = first
        .tool_executions()
        .map(|(call, outcome)| (&*call.name, &*call.arguments, outcome.is_error()))
        .collect();
    assert_eq!(called, [("look", r#"{"at":"rye"}"#, false), ("look", r#"{"at":"nothing"}"#, true)]);
    assert_eq!((second.number(), second.kind()), (2, StepKind::FinalResponse));
    assert_eq!(second.message(), state.final_response());
    assert!(!second.has_errors() && !second.has_tool_calls());

    assert_eq!(
        (execution.step_count(), execution.step_at(1), execution.last_step()),
        (2, Some(*second), Some(*second))
    );
    assert_eq!((state.step_at(0), state.last_step()), (Some(*first), Some(*second)));
    assert_eq!(state.steps().map(Step::number).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(state.errors().collect::<Vec<_>>(), ["it broke"]);
    assert!(state.had_tool_errors());
}

#[test]
fn the_open_step_says_where_each_of_its_calls_stands() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&seen);
    let look = MockTool::with_cx("look", "", move |_, cx| {
        let step = cx.state.execution().and_then(|it| it.open_step()).cloned();
        lock(&notes).extend(step);
        Box::pin(async { Ok(ToolOutput::text("seen")) })
    });
    let look = look.with_options(ToolOptions { exclusive: true, ..ToolOptions::default() });
    let calls = ["look", "look"].map(|it| (it, json!({})));
    let agent = agent([ScenarioStep::tool_calls(calls), "done".into()]).with_tool(look);
    let state = execute(&agent, asked());

    let seen = lock(&seen);
    let [first, second] = &seen[..] else { panic!("two calls: {seen:?}") };
    assert_eq!((first.number(), first.attempt()), (1, 1));
    assert_eq!(&*first.call(1).unwrap().name, "look");
    assert_eq!(first.thought().unwrap().finish_reason, FinishReason::ToolCalls);
    assert!(matches!(first.calls(), [CallState::Started { .. }, CallState::Queued]), "{first:?}");
    let [CallState::Completed(outcome), CallState::Started { .. }] = second.calls() else {
        panic!("{second:?}")
    };
    assert_eq!(outcome.output().unwrap().to_text(), "seen");
    assert!(state.execution().unwrap().open_step().is_none());
}

#[test]
fn an_outcome_says_what_became_of_a_call() {
    let returned = ToolOutcome::Returned(ToolOutput::json(json!({ "found": 2 })));
    assert_eq!(returned.output().unwrap().value.as_deref(), Some(&json!({ "found": 2 })));
    assert_eq!((returned.is_error(), returned.was_blocked()), (false, false));
    assert_eq!((returned.error_message(), returned.to_result().is_error), (String::new(), false));
    let failed = ToolOutcome::Failed(Failure::new(FailureKind::Tool, "it broke"));
    assert!(failed.output().is_none() && failed.is_error() && !failed.was_blocked());
    assert_eq!(failed.error_message(), "it broke");
    let blocked = ToolOutcome::Blocked { reason: "not today".to_owned() };
    assert!(blocked.output().is_none() && blocked.was_blocked());
    assert!(blocked.to_result().to_text().contains("not today"), "{:?}", blocked.to_result());
    assert!(failed.to_result().is_error && failed.to_result().to_text().contains("it broke"));
}

// ------------------------------------------------------------------------------------------------
// What drivers and tools are given

/// A driver that answers with what it was given.
struct Reporting;

#[async_trait]
impl Driver for Reporting {
    async fn think(&self, state: &AgentState, cx: &ThinkCx<'_>) -> Result<StepResponse, StepError> {
        let prompt = cx.prompt().await?;
        let shown: Vec<String> = prompt.stable().map(|turn| turn.message().text()).collect();
        let answer = format!(
            "step {} of {:?}: {} of {} tools, {} listeners, shown {shown:?}",
            cx.step(),
            state.metadata().get("topic"),
            cx.tools().names().contains(&"look".into()),
            cx.tools().len(),
            if cx.events().has_listeners() { "some" } else { "no" },
        );
        let answer = InferenceResponse::new(Message::assistant(answer), Usage::new(1, 1));
        Ok(StepResponse::from_response(answer))
    }
}

#[test]
fn a_driver_is_given_the_state_the_tools_and_what_the_compiler_chose() {
    let tools = ToolSet::new().with(MockTool::returning("look", "", 1));
    let agent = test_loop(Reporting).with_tools(tools);
    let state = execute(&agent, asked().with_metadata("topic", "rye"));
    assert_eq!(
        state.text(),
        r#"step 1 of Some(String("rye")): true of 1 tools, no listeners, shown ["go"]"#
    );
    let heard = EventRecorder::new();
    let state = execute(&agent.with_event_sink(heard.sink()), asked());
    assert!(state.text().contains("some listeners"), "{}", state.text());
}

#[test]
fn a_tool_is_given_the_state_its_call_and_the_key_of_its_effect() {
    let tool = MockTool::with_cx("look", "", |arguments, cx| {
        let seen = json!({
            "said": cx.state.transcript().len(),
            "call": [&*cx.call.name, &*cx.call.arguments],
            "arguments": arguments,
            "step": cx.key.step,
            "place": cx.key.call,
        });
        let is_its_own = cx.state.execution().is_some_and(|it| *it.id() == cx.key.execution);
        Box::pin(async move {
            assert!(is_its_own);
            Ok(ToolOutput::text(seen.to_string()))
        })
    });
    let agent = agent([look("rye"), "done".into()]).with_tool(tool);
    let expect = json!({
        "said": 1,
        "call": ["look", r#"{"at":"rye"}"#],
        "arguments": { "at": "rye" },
        "step": 1,
        "place": 0,
    });
    let told = told(&execute(&agent, asked()));
    assert_eq!(
        told.iter().map(|it| it.parse().unwrap()).collect::<Vec<serde_json::Value>>(),
        [expect]
    );
}

/// What [`Search`] is asked for.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Query {
    text: String,
    #[serde(default = "ten")]
    limit: u32,
}

fn ten() -> u32 {
    10
}

/// A tool that is a type, with typed arguments, an answer and an error of its own.
struct Search;

impl Tool for Search {
    type Args = Query;
    type Output = String;
    type Error = BoxError;

    fn name(&self) -> &'static str {
        "search"
    }

    fn description(&self) -> &'static str {
        "Searches."
    }

    async fn call(&self, query: Query, cx: &ToolCx<'_>) -> Result<String, BoxError> {
        if query.text.is_empty() {
            return Err("nothing to search for".into());
        }
        Ok(format!("{} of {} for {}", query.limit, query.text, cx.call.name))
    }
}

#[test]
fn a_type_with_arguments_of_its_own_is_a_tool() {
    let calls =
        [json!({ "text": "rye" }), json!({ "text": "rye", "limit": 2 }), json!({ "text": "" })];
    let calls = calls.map(|arguments| ("search", arguments));
    let agent = agent([ScenarioStep::tool_calls(calls), "done".into()]).with_tool(Search);
    let spec = agent.tools().get("search").unwrap().spec();
    assert_eq!((&*spec.name, &*spec.description), ("search", "Searches."));
    assert_eq!(spec.parameters["required"], json!(["text"]));
    assert_eq!(spec.parameters["properties"]["limit"]["default"], json!(10));
    let told = told(&execute(&agent, asked()));
    assert_eq!(told[..2], ["10 of rye for search", "2 of rye for search"]);
    assert!(told[2].contains("nothing to search for"), "{told:?}");
}

#[test]
fn hooks_and_tools_emit_events_of_their_own() {
    let hook = CallableHook::new("checking").before_step(|_, cx| {
        cx.events.emit(|| ValidationFailed::new(1, "of a hook", vec!["odd".to_owned()]));
        Ok(Flow::Continue)
    });
    let tool = MockTool::with_cx("look", "", |_, cx| {
        cx.events.emit(|| ValidationFailed::new(1, "of a tool", Vec::new()));
        Box::pin(async { Ok(ToolOutput::text("seen")) })
    });
    let events = EventRecorder::new();
    let agent = agent([look("rye"), "done".into()]).with_tool(tool).with_event_sink(events.sink());
    execute(&hooked(&agent, hook), asked());
    let told: Vec<_> =
        events.events_of::<ValidationFailed>().into_iter().map(|it| it.subject).collect();
    assert_eq!(told, ["of a hook", "of a tool", "of a hook"]);
}

#[test]
fn a_set_describes_its_tools_by_name_description_and_schema() {
    let schema = json!({ "type": "object", "properties": { "at": { "type": "string" } } });
    let description = "Looks.\n\nLooks closely, and says what is there.";
    let look = MockTool::returning("look", description, 1).with_schema(schema.clone());
    let mut set = ToolSet::new();
    set.add(look);
    set.add(MockTool::returning("say", "Says.", 2));

    assert_eq!(set.names().iter().map(|it| &**it).collect::<Vec<_>>(), ["look", "say"]);
    let specs: Vec<&ToolSpec> = set.specs().iter().collect();
    assert_eq!((specs.len(), &*specs[0].name, &*specs[0].description), (2, "look", description));
    assert_eq!(*specs[0].parameters, schema);
    let tool = set.get("look").unwrap();
    assert_eq!((&**tool.name(), tool.spec()), ("look", specs[0]));
    let described = tool.descriptor();
    assert_eq!((described.name(), described.description()), ("look", description));
    assert_eq!((described.summary().as_str(), described.parameters()), ("Looks.", &schema));
    assert_eq!((described.instructions(), described.namespace()), (description, None));
    let options = ToolOptions {
        instructions: Some("Look twice.".into()),
        namespace: Some("eyes".into()),
        ..ToolOptions::default()
    };
    let told = tool.with_options(options);
    let described = told.descriptor();
    assert_eq!((described.instructions(), described.namespace()), ("Look twice.", Some("eyes")));
    assert!(set.get("gone").is_none());
}

#[test]
fn a_loop_is_made_of_parts_and_each_can_be_changed() {
    let first = agent(["first".into()]);
    let changed = first.with(|parts| {
        parts.driver = Arc::new(Reporting);
        parts.tools = ToolSet::new();
        parts.executor.max_output_bytes = 7;
        parts.preamble = AgentState::new().with_user_message("before").transcript().clone();
    });
    assert_eq!((first.driver().name(), first.tools().len()), ("fake", 1));
    assert_eq!((changed.tools().len(), changed.executor().max_output_bytes), (0, 7));
    assert_eq!(changed.preamble().len(), 1);
    assert!(changed.interceptor().hooks().is_empty() && changed.sinks().is_empty());
    let heard = changed.with_event_sink(EventRecorder::new().sink());
    assert!(!heard.sinks().is_empty() && changed.sinks().is_empty());
    assert_eq!(execute(&first, asked()).text(), "first");
    assert!(execute(&changed, asked()).text().starts_with("step 1"));
}
