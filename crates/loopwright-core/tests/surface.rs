//! What can be read of a loop, a run and what became of it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use async_trait::async_trait;
use loopwright_core::{
    AgentMeta, AgentState, AnyTool, BoxError, Budget, CallableHook, Edit, ExecutionStatus, Flow,
    ModelCache, NoArgs, SideEffects, Spend, StepKind, StopReason, StopSignal, Timestamp, ToolCx,
    ToolError, ToolExecutor, ToolOptions, ToolOutput, ToolRunner, ToolSet,
    events::{StepCompleted, TokenUsageReported, ToolCallCompleted},
    messages::{CacheBreak, Cost, Message, SectionName, Transcript, Usage},
    tool_fn,
};
use loopwright_testing::{EventRecorder, MockTool, ScenarioStep, Timeline, run_until_stuck};
use serde_json::{Value, json};

use crate::support::{agent, asked, execute, hooked, said, told};

#[test]
fn a_tap_hears_every_event_of_the_loop_it_is_on() {
    let heard = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&heard);
    let plain = agent(["done".into()]);
    let tapped = plain.wiretap(move |_| {
        counter.fetch_add(1, Relaxed);
    });
    execute(&plain, asked());
    assert_eq!(heard.load(Relaxed), 0);
    execute(&tapped, asked());
    assert!(heard.load(Relaxed) > 4);
}

#[test]
fn an_executor_bounds_what_tools_answer() {
    let executor = ToolExecutor { max_output_bytes: 4, ..ToolExecutor::default() };
    let agent = agent([ScenarioStep::tool_call("say", json!({})), "done".into()])
        .with_tool(MockTool::returning("say", "", "abcdefgh"));
    assert_eq!(agent.executor().max_output_bytes, 1 << 20);
    let state = execute(&agent.with_executor(executor), asked());
    assert!(told(&state)[0].starts_with("abcd\n[truncated"), "{:?}", told(&state));
}

/// Runs one tool itself, and leaves the others to themselves.
struct Elsewhere(Timeline);

#[async_trait]
impl ToolRunner for Elsewhere {
    async fn run(
        &self,
        tool: &AnyTool,
        arguments: Value,
        cx: &ToolCx<'_>,
    ) -> Result<ToolOutput, ToolError> {
        self.0.note(format!("{} {arguments} {:?}", tool.name(), cx.key.call));
        match &**tool.name() {
            "remote" => Ok(ToolOutput::text("from elsewhere")),
            "broken" => Err(ToolError::Failed("no line".into())),
            "mad" => panic!("no line"),
            _ => tool.call(arguments, cx).await,
        }
    }
}

#[test]
fn an_executor_of_ones_own_runs_the_calls_within_the_bounds_of_the_loop() {
    let local = |name| MockTool::returning(name, "", format!("{name} itself"));
    let names = ["remote", "broken", "mad", "local"];
    let calls = names.into_iter().zip(1..).map(|(name, it)| (name, json!({ "n": it })));
    let agent = names
        .into_iter()
        .fold(agent([ScenarioStep::tool_calls(calls), "done".into()]), |agent, name| {
            agent.with_tool(local(name).with_schema(json!({ "type": "object" })))
        });
    let timeline = Timeline::new();
    let runner = Some(Arc::new(Elsewhere(timeline.clone())) as Arc<dyn ToolRunner>);
    let executor = ToolExecutor { runner, max_output_bytes: 8, ..ToolExecutor::default() };
    let state = execute(&agent.with_executor(executor), asked());
    let told = told(&state);
    assert!(told[0].starts_with("from els\n[truncated"), "{told:?}");
    assert_eq!(told[1..3], ["Error: no line", "Error: the tool panicked: no line"]);
    assert!(told[3].starts_with("local it\n[truncated"), "{told:?}");
    let expect = names
        .into_iter()
        .zip(1..)
        .map(|(name, it)| format!("{name} {} {:?}", json!({ "n": it }), Some(it - 1)));
    assert_eq!(timeline.notes(), expect.collect::<Vec<_>>());
    assert_eq!(state.text(), "done");
}

#[test]
fn tools_can_be_replaced_all_at_once() {
    let set: ToolSet = [MockTool::returning("one", "", 1)].into_iter().collect();
    let mut other = ToolSet::new().with(MockTool::returning("two", "", 2));
    other.merge(&set);
    let agent = agent([]).with_tool(MockTool::returning("zero", "", 0)).with_tools(other);
    let names: Vec<&str> = agent.tools().iter().map(|tool| &**tool.name()).collect();
    assert_eq!(names, ["two", "one"]);
}

#[test]
fn a_budget_with_nothing_left_is_exhausted() {
    let now = Timestamp::from_millis(1_000);
    let spent = Budget { tokens: Some(0), ..Budget::default() };
    let late = Budget { deadline: Some(now), ..Budget::default() };
    let left = Budget { steps: Some(1), ..Budget::default() };
    let exhausted = [spent, late, left, Budget::unlimited()].map(|it| it.is_exhausted(now));
    assert_eq!(exhausted, [true, true, false, false]);
}

#[test]
fn a_section_can_be_replaced() {
    let turns: Transcript =
        [loopwright_core::messages::Turn::from_message(Message::user("anew")).unwrap()]
            .into_iter()
            .collect();
    let state = asked().edit(Edit::Replace {
        section: SectionName::MESSAGES.into(),
        turns: turns.clone(),
        cause: CacheBreak::Compaction,
    });
    assert_eq!(state.transcript(), &turns);
}

#[test]
fn the_oldest_turns_move_to_another_section_and_the_model_reads_the_same() {
    let said = |texts: &[&str]| {
        let state = AgentState::new();
        texts.iter().fold(state, |state, text| state.with_user_message(*text))
    };
    let shown = |state: &AgentState| -> Transcript {
        let sections = state.context().sections().in_order();
        sections.flat_map(|(_, turns)| turns.iter().cloned()).collect()
    };
    let sizes =
        |state: &AgentState| (state.section(SectionName::BUFFER).count(), state.transcript().len());
    let moved = |turns| Edit::Move {
        from: SectionName::MESSAGES.into(),
        to: SectionName::BUFFER.into(),
        turns,
    };
    let before = said(&["a", "b", "c"]);
    let after = before.clone().edit(moved(1)).edit(moved(1));
    assert_eq!(sizes(&after), (2, 1));
    assert!(shown(&after).starts_with(&shown(&before)));
    assert_eq!(sizes(&after.edit(moved(9))), (3, 0));
}

#[test]
fn a_step_tells_what_it_was_and_how_long_it_took() {
    let events = EventRecorder::new();
    let step = ScenarioStep::tool_call("look", json!({})).with_usage(Usage::new(5, 2));
    let agent = agent([step, "done".into()])
        .with_tool(MockTool::returning("look", "", "seen"))
        .with_event_sink(events.sink());
    let state = execute(&agent, asked());
    let execution = state.execution().unwrap();
    let step = execution.step_at(0).unwrap();
    assert_eq!((step.kind(), step.has_tool_calls()), (StepKind::ToolExecution, true));
    assert_eq!(step.ended_at(), step.started_at().plus(step.duration()));
    assert!(execution.started_at() <= step.started_at());
    assert!(execution.ended_at().unwrap() >= step.ended_at());
    let told = &events.events_of::<StepCompleted>()[0];
    assert_eq!((told.has_tool_calls, told.duration), (true, step.duration()));
    let called = &events.events_of::<ToolCallCompleted>()[0];
    assert!(called.success && called.duration <= step.duration());
    assert_eq!(events.events_of::<TokenUsageReported>()[0].operation, "step");
}

#[test]
fn a_state_says_whether_the_loop_would_end_here() {
    let agent = agent([ScenarioStep::tool("looking"), "done".into()]);
    assert!(AgentState::new().should_stop());
    let mut run = agent.start(asked(), crate::support::options());
    let first = loopwright_testing::block_on(run.next()).unwrap().clone();
    assert_eq!((first.should_stop(), first.status()), (false, &ExecutionStatus::InProgress));
    let last = loopwright_testing::block_on(run.finish());
    assert_eq!((last.should_stop(), last.status()), (true, &ExecutionStatus::Completed));
}

#[test]
fn signals_can_be_read_and_the_strongest_of_them() {
    let hook = CallableHook::new("two").before_step(|state, _| {
        state.signal(StopSignal::new(StopReason::StepsLimitReached, "two", "enough"));
        Ok(Flow::Stop(StopSignal::requested("two", "please")))
    });
    let state = execute(&hooked(&agent([]), hook), asked());
    let execution = state.execution().unwrap();
    let reasons: Vec<StopReason> = execution.signals().iter().map(|it| it.reason).collect();
    assert_eq!(reasons, [StopReason::StepsLimitReached, StopReason::StopRequested]);
    assert_eq!(execution.strongest_signal().unwrap().reason, StopReason::StopRequested);
}

#[test]
fn metadata_and_prompt_are_part_of_the_context() {
    let state = asked().with_metadata("topic", "rye").with_system_prompt("Be brief.");
    assert_eq!(state.context().metadata().get("topic"), Some(&json!("rye")));
    assert_eq!(state.context().system_prompt().map(|it| &**it), Some("Be brief."));
    assert_eq!(state.metadata().iter().collect::<Vec<_>>(), [("topic", &json!("rye"))]);
}

#[test]
fn a_closure_is_a_tool() {
    let dice = tool_fn("roll", "Rolls a die.", |_: NoArgs| async { Ok::<_, BoxError>(4) });
    let agent = agent([ScenarioStep::tool_call("roll", json!({})), "done".into()]).with_tool(dice);
    assert_eq!(told(&execute(&agent, asked())), ["4"]);
    let shown = agent.tools().get("roll").unwrap().descriptor();
    assert_eq!((shown.name(), shown.summary().as_str()), ("roll", "Rolls a die."));
}

#[test]
fn a_closure_that_is_a_tool_is_treated_as_its_options_say() {
    let dice = tool_fn("roll", "Rolls a die.", |_: NoArgs| async { Ok::<_, BoxError>(4) });
    let options = ToolOptions { side_effects: SideEffects::ReadOnly, ..ToolOptions::default() };
    let agent = agent([]).with_tool(dice.with_options(options));
    assert_eq!(agent.tools().get("roll").unwrap().options().side_effects, SideEffects::ReadOnly);
}

#[test]
fn a_note_of_a_profile_replaces_the_one_of_its_name() {
    let mut profile = AgentMeta::default();
    profile.annotate("tools", |agent| Some(json!(agent.tools().len())));
    profile.annotate("mood", |_| Some(json!("dull")));
    profile.annotate("mood", |_| Some(json!("bright")));
    profile.annotate("secret", |_| None);
    let agent = agent([]);
    let notes: Vec<_> = profile.annotations(&agent).collect();
    assert_eq!(notes, [("tools", json!(agent.tools().len())), ("mood", json!("bright"))]);
}

#[test]
fn the_token_of_a_handle_is_the_one_that_ends_the_run() {
    let run = agent([]).start(asked(), crate::support::options());
    let handle = run.handle();
    handle.cancellation().cancel();
    assert_eq!(loopwright_testing::block_on(run.finish()).status().as_str(), "stopped");
}

#[test]
fn a_step_knows_its_tokens_and_its_money() {
    let cost = Cost::from_picodollars(8);
    let step = ScenarioStep::from("done").with_usage(Usage::new(3, 4)).with_cost(cost);
    let state = execute(&agent([step]), asked());
    assert_eq!(state.last_step().unwrap().spend(), Spend { usage: Usage::new(3, 4), cost });
}

#[test]
fn a_renewed_budget_counts_from_where_the_execution_stands() {
    let agent = agent([ScenarioStep::tool("a"), ScenarioStep::tool("b"), "done".into()]);
    let budget = Budget { steps: Some(2), ..Budget::unlimited() };
    let stopped = execute(&agent, asked().with_budget(budget));
    assert_eq!((stopped.status().as_str(), stopped.step_count()), ("stopped", 2));
    let stored = |state: &AgentState| serde_json::to_value(state).unwrap();
    let plain = stored(&stopped);
    assert_eq!(plain["execution"].get("renewed"), None);
    let renewed = stopped.renew_budget();
    let kept = stored(&renewed);
    assert!(kept["execution"].get("renewed").is_some(), "{kept}");
    let restored: AgentState = serde_json::from_value(kept).unwrap();
    assert_eq!(restored.execution(), renewed.execution());
    let state = execute(&agent, renewed);
    assert_eq!((state.status().as_str(), state.step_count()), ("completed", 3));
    assert_eq!(said(&state), ["go", "a", "b", "done"]);
}

#[test]
fn a_model_finds_what_it_kept_once_and_nothing_of_another_type() {
    let mut memory = ModelCache::default();
    memory.put("bytes".to_owned());
    assert_eq!((memory.take::<String>(), memory.take::<String>()), (Some("bytes".into()), None));
    memory.put(1_u8);
    assert_eq!((memory.take::<String>(), memory.take::<u8>()), (None, None));
}

#[test]
fn outcomes_of_calls_are_kept_when_their_execution_is_abandoned() {
    let exclusive = ToolOptions { exclusive: true, ..ToolOptions::default() };
    let calls = [("quick", json!({})), ("endless", json!({}))];
    let agent = agent([ScenarioStep::tool_calls(calls)])
        .with_tool(MockTool::returning("quick", "", "seen").with_options(exclusive))
        .with_tool(MockTool::hanging("endless"));
    let mut run = agent.start(asked(), crate::support::options());
    assert!(run_until_stuck(run.next()).is_none());
    let state = run.into_state().for_next_execution();
    let told = told(&state);
    assert_eq!((told.len(), told[0].as_str()), (2, "seen"));
    assert!(told[1].starts_with("Unknown"), "{told:?}");
}
