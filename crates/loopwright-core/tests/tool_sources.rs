//! Tools that come and go while an agent works.

use std::{sync::Arc, time::Duration};

use loopwright_core::{
    AgentLoop, AgentState, ChangeRecord, ExecutionStatus, OnInterrupted, Run, RunOptions,
    SOURCE_TOOLS, ToolSet, ToolSource, ToolSources,
    events::{PromptCacheBroken, StepStarted, ToolSourceFailed, ToolSourceUpdated},
    messages::CacheBreak,
};
use loopwright_testing::{
    EventRecorder, FakeModel, FrozenClock, MemoryJournal, MockTool, ModelDriver, ScenarioStep,
    ScriptedToolSource, block_on, run_until_stuck, test_loop,
};
use serde_json::json;

use crate::support::{asked, is_valid, journaled, options, replay, told};

fn tool(name: &str) -> MockTool {
    MockTool::returning(name, "Does something.", format!("{name} answered"))
}

fn tools<const N: usize>(names: [&str; N]) -> ToolSet {
    names.into_iter().map(tool).collect()
}

/// An agent of a model that calls the scripted tool, and then answers.
struct World {
    model: FakeModel,
    events: EventRecorder,
    agent: AgentLoop,
}

fn world(steps: impl IntoIterator<Item = ScenarioStep>, sources: &[&ScriptedToolSource]) -> World {
    let mut attached = ToolSources::default();
    for source in sources {
        attached.add(Arc::new((*source).clone()));
    }
    world_of(steps, attached)
}

fn world_of(steps: impl IntoIterator<Item = ScenarioStep>, sources: ToolSources) -> World {
    let (model, events) = (FakeModel::script(steps), EventRecorder::new());
    let agent = test_loop(ModelDriver::new(model.clone()))
        .with(|parts| parts.sources = sources)
        .with_event_sink(events.sink());
    World { model, events, agent }
}

fn works(steps: usize) -> Vec<ScenarioStep> {
    let mut script = vec![ScenarioStep::tool("working"); steps];
    script.push("done".into());
    script
}

impl World {
    fn start(&self) -> Run {
        self.agent.start(asked(), options())
    }

    /// Starts by a clock that stands still, however long the run waits.
    fn start_in_no_time(&self) -> Run {
        let options = RunOptions { env: FrozenClock::manual().env(1), ..options() };
        self.agent.start(asked(), options)
    }

    /// The tools of each request.
    fn offered(&self) -> Vec<Vec<String>> {
        let requests = self.model.requests();
        let names =
            requests.iter().map(|it| it.tools.iter().map(|it| it.name.to_string()).collect());
        names.collect()
    }

    fn breaks(&self) -> Vec<(u32, CacheBreak)> {
        let breaks = self.events.events_of::<PromptCacheBroken>();
        breaks.into_iter().map(|it| (it.step, it.cause)).collect()
    }

    /// Source, added, changed, removed and refused tools of each update.
    fn updates(&self) -> Vec<(String, [Vec<String>; 4])> {
        let names = |names: &[Arc<str>]| names.iter().map(ToString::to_string).collect();
        let updates = self.events.events_of::<ToolSourceUpdated>().into_iter().map(|it| {
            let lists = [&it.added, &it.changed, &it.removed, &it.refused].map(|it| names(it));
            (it.source.to_string(), lists)
        });
        updates.collect()
    }
}

fn update(
    source: &str,
    added: &[&str],
    changed: &[&str],
    removed: &[&str],
    refused: &[&str],
) -> (String, [Vec<String>; 4]) {
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    (source.to_owned(), [added, changed, removed, refused].map(names))
}

#[test]
fn a_source_that_is_ready_is_part_of_the_first_request_and_can_be_called() {
    let source = ScriptedToolSource::new("server", tools(["search"]));
    let steps = [ScenarioStep::tool_call("search", json!({})), "done".into()];
    let world = world(steps, &[&source]);
    let state = block_on(world.start().finish());
    assert_eq!(world.offered(), vec![vec!["scripted", "search"]; 2]);
    assert_eq!(told(&state), ["search answered"]);
    let started = world.events.events_of::<StepStarted>();
    assert_eq!(started[0].tools.iter().map(|it| &**it).collect::<Vec<_>>(), ["scripted", "search"]);
    assert_eq!(world.updates(), [update("server", &["search"], &[], &[], &[])]);
    is_valid(&state);
}

#[test]
fn a_source_without_changes_is_listed_once_for_all_steps() {
    let source = ScriptedToolSource::new("server", tools(["search"]));
    let world = world(works(50), &[&source]);
    block_on(world.start().finish());
    assert_eq!((source.listings(), world.model.asked()), (1, 51));
    let requests = world.model.requests();
    assert!(requests.iter().all(|it| it.tools.ptr_eq(&requests[0].tools)));
}

#[test]
fn late_tools_follow_the_known_ones_whatever_their_order_in_the_source() {
    let source = ScriptedToolSource::new("server", tools(["search"]));
    let world = world(works(2), &[&source]);
    let mut run = world.start();
    block_on(run.next());
    source.set_tools(tools(["fetch", "search"]));
    block_on(run.finish());
    let late = vec!["scripted", "search", "fetch"];
    assert_eq!(world.offered(), [vec!["scripted", "search"], late.clone(), late]);
    assert_eq!(world.breaks(), [(2, CacheBreak::ToolAdded)]);
}

#[test]
fn a_source_that_hangs_delays_no_step_and_is_used_once_it_answers() {
    let source = ScriptedToolSource::new("server", tools(["search"]));
    source.hang();
    let world = world(works(2), &[&source]);
    let mut run = world.start();
    block_on(run.next());
    source.answer();
    block_on(run.finish());
    let late = vec!["scripted", "search"];
    assert_eq!(world.offered(), [vec!["scripted"], late.clone(), late]);
    assert_eq!(source.listings(), 1);
}

#[test]
fn a_source_that_never_answers_costs_a_run_nothing() {
    let source = ScriptedToolSource::new("server", tools(["search"]));
    source.hang();
    let world = world(works(2), &[&source]);
    let state = block_on(world.start().finish());
    assert_eq!((state.status(), world.updates()), (&ExecutionStatus::Completed, Vec::new()));
    assert_eq!(world.offered(), vec![vec!["scripted"]; 3]);
}

#[test]
fn a_listing_proceeds_while_a_tool_runs() {
    let source = ScriptedToolSource::new("server", tools(["search"]));
    source.delay(3);
    let world = world(works(1), &[&source]);
    let slow = MockTool::with_cx("scripted", "Takes a while.", |_, _| {
        Box::pin(async {
            loopwright_testing::yield_times(8).await;
            Ok(loopwright_core::ToolOutput::text("done"))
        })
    });
    let agent = world.agent.with(|parts| parts.tools.add(slow));
    block_on(agent.start(asked(), options()).finish());
    assert_eq!(world.offered(), [vec!["scripted"], vec!["scripted", "search"]]);
}

#[test]
fn a_step_waits_for_a_source_only_as_long_as_the_program_says() {
    let source = ScriptedToolSource::new("server", tools(["search"]));
    source.hang();
    let mut sources = ToolSources::default();
    sources.add_with_wait(Arc::new(source.clone()), Duration::from_secs(2));
    let world = world_of(works(1), sources);
    let clock = FrozenClock::manual();
    let options = RunOptions { env: clock.env(1), ..options() };
    let mut run = world.agent.start(asked(), options);
    assert!(run_until_stuck(run.next()).is_none());
    clock.advance(Duration::from_secs(1));
    assert!(run_until_stuck(run.next()).is_none());
    assert_eq!(world.model.asked(), 0);
    clock.advance(Duration::from_secs(1));
    block_on(run.next());
    block_on(run.finish());
    assert_eq!(world.offered(), vec![vec!["scripted"]; 2]);
}

#[test]
fn a_step_that_may_wait_has_the_tools_of_a_source_that_answers_in_time() {
    let source = ScriptedToolSource::new("server", tools(["search"]));
    source.delay(5);
    let mut sources = ToolSources::default();
    sources.add_with_wait(Arc::new(source.clone()), Duration::from_secs(2));
    let world = world_of(works(0), sources);
    block_on(world.start_in_no_time().finish());
    assert_eq!(world.offered(), [vec!["scripted", "search"]]);
}

#[test]
fn a_source_that_answers_at_once_needs_no_timer_and_so_no_tokio() {
    let source = ScriptedToolSource::new("server", tools(["search"]));
    let mut sources = ToolSources::default();
    sources.add_with_wait(Arc::new(source), Duration::from_secs(2));
    let world = world_of(works(0), sources);
    // The system clock has timers only under Tokio.
    block_on(world.agent.start(asked(), RunOptions::default()).finish());
    assert_eq!(world.offered(), [["scripted", "search"]]);
}

#[test]
fn cancelling_a_run_ends_the_wait_for_a_source() {
    let source = ScriptedToolSource::new("server", tools(["search"]));
    source.hang();
    let mut sources = ToolSources::default();
    sources.add_with_wait(Arc::new(source), Duration::from_hours(1));
    let world = world_of(works(0), sources);
    let mut run = world.start_in_no_time();
    assert!(run_until_stuck(run.next()).is_none());
    run.handle().cancel();
    let state = block_on(run.finish());
    assert!(matches!(state.status(), ExecutionStatus::Stopped(_)));
}

#[test]
fn a_source_that_fails_is_reported_and_asked_again_at_the_next_step() {
    let source = ScriptedToolSource::new("server", tools(["search"]));
    source.fail("offline");
    let world = world(works(2), &[&source]);
    let mut run = world.start();
    block_on(run.next());
    source.panic();
    block_on(run.next());
    source.answer();
    block_on(run.finish());
    let failed: Vec<_> = world
        .events
        .events_of::<ToolSourceFailed>()
        .into_iter()
        .map(|it| (it.source.to_string(), it.error))
        .collect();
    let panicked = "the tool source panicked: the tool source lost its head".to_owned();
    let server = || "server".to_owned();
    assert_eq!(failed, [(server(), "offline".to_owned()), (server(), panicked)]);
    assert_eq!(world.offered(), [vec!["scripted"], vec!["scripted"], vec!["scripted", "search"]]);
}

#[test]
fn a_source_that_fails_later_keeps_the_tools_that_the_run_has() {
    let source = ScriptedToolSource::new("server", tools(["search"]));
    let steps = [
        ScenarioStep::tool("working"),
        ScenarioStep::tool_call("search", json!({})),
        "done".into(),
    ];
    let world = world(steps, &[&source]);
    let mut run = world.start();
    block_on(run.next());
    source.set_tools(ToolSet::new());
    source.fail("offline");
    let state = block_on(run.finish());
    assert_eq!(told(&state), ["done", "search answered"]);
}

#[test]
fn a_removed_tool_stays_in_requests_and_its_calls_fail_until_the_next_execution() {
    let source = ScriptedToolSource::new("server", tools(["search", "fetch"]));
    let steps = [
        ScenarioStep::tool("working"),
        ScenarioStep::tool_call("search", json!({})),
        "done".into(),
        "again".into(),
    ];
    let world = world(steps, &[&source]);
    let mut run = world.start();
    block_on(run.next());
    source.set_tools(tools(["fetch"]));
    let state = block_on(run.finish());
    assert_eq!(
        told(&state)[1],
        "Error: tool `search` is no longer available: `server` has removed it; use another tool"
    );
    block_on(world.agent.start(state.with_user_message("more"), options()).finish());
    let all = vec!["scripted", "search", "fetch"];
    assert_eq!(world.offered(), [all.clone(), all.clone(), all, vec!["scripted", "fetch"]]);
    assert_eq!(world.breaks(), []);
    assert_eq!(world.updates()[1], update("server", &[], &[], &["search"], &[]));
}

#[test]
fn a_removed_tool_that_is_back_can_be_called_in_its_old_place() {
    let source = ScriptedToolSource::new("server", tools(["search", "fetch"]));
    let steps = [
        ScenarioStep::tool("working"),
        ScenarioStep::tool("working"),
        ScenarioStep::tool_call("search", json!({})),
        "done".into(),
    ];
    let world = world(steps, &[&source]);
    let mut run = world.start();
    block_on(run.next());
    source.set_tools(tools(["fetch"]));
    block_on(run.next());
    source.set_tools(tools(["fetch", "search"]));
    let state = block_on(run.finish());
    assert_eq!(told(&state)[2], "search answered");
    assert_eq!(world.offered(), vec![vec!["scripted", "search", "fetch"]; 4]);
    assert_eq!(world.breaks(), []);
}

#[test]
fn a_changed_tool_replaces_the_previous_one_in_its_place() {
    let source = ScriptedToolSource::new("server", tools(["search", "fetch"]));
    let steps = [
        ScenarioStep::tool("working"),
        ScenarioStep::tool_call("search", json!({})),
        "done".into(),
    ];
    let world = world(steps, &[&source]);
    let mut run = world.start();
    block_on(run.next());
    let changed = MockTool::returning("search", "Searches better.", "found");
    source.set_tools(ToolSet::new().with(changed).with(tool("fetch")));
    let state = block_on(run.finish());
    assert_eq!(told(&state)[1], "found");
    assert_eq!(world.offered(), vec![vec!["scripted", "search", "fetch"]; 3]);
    assert_eq!(world.breaks(), [(2, CacheBreak::ToolsChanged)]);
    assert_eq!(world.updates()[1], update("server", &[], &["search"], &[], &[]));
}

#[test]
fn a_call_that_runs_ends_with_its_own_tool_when_the_source_changes_meanwhile() {
    let source = ScriptedToolSource::new("server", ToolSet::new());
    let changing = source.clone();
    let removes = MockTool::new("search", "Removes itself.", move |_| {
        changing.set_tools(ToolSet::new());
        Ok::<_, loopwright_core::BoxError>("removed")
    });
    source.set_tools(ToolSet::new().with(removes));
    let twice = || ScenarioStep::tool_call("search", json!({}));
    let world = world([twice(), twice(), "done".into()], &[&source]);
    let state = block_on(world.start().finish());
    assert_eq!(told(&state)[0], "removed");
    assert!(told(&state)[1].contains("`server` has removed it"), "{:?}", told(&state));
}

#[test]
fn a_name_of_the_agent_or_of_an_earlier_source_is_refused() {
    let first = ScriptedToolSource::new("first", tools(["scripted", "search"]));
    let second = ScriptedToolSource::new("second", tools(["search", "fetch"]));
    let steps =
        [ScenarioStep::tool_calls([("scripted", json!({})), ("search", json!({}))]), "done".into()];
    for _ in 0..3 {
        let world = world(steps.clone(), &[&first, &second]);
        let state = block_on(world.start().finish());
        assert_eq!(told(&state), ["done", "search answered"]);
        assert_eq!(world.offered()[0], ["scripted", "search", "fetch"]);
        let first = update("first", &["search"], &[], &[], &["scripted"]);
        let second = update("second", &["fetch"], &[], &[], &["search"]);
        assert_eq!(world.updates(), [first, second]);
    }
}

#[test]
fn a_source_keeps_a_name_that_an_earlier_source_lists_later() {
    let first = ScriptedToolSource::new("first", ToolSet::new());
    let second = ScriptedToolSource::new("second", tools(["search"]));
    let world = world(works(1), &[&first, &second]);
    let mut run = world.start();
    block_on(run.next());
    first.set_tools(tools(["search"]));
    block_on(run.finish());
    assert_eq!(world.updates()[1], update("first", &[], &[], &[], &["search"]));
    assert_eq!(world.breaks(), []);
}

#[test]
fn the_next_execution_shows_late_tools_in_the_order_of_the_one_before() {
    let source = ScriptedToolSource::new("server", tools(["search"]));
    let world = world(works(1), &[&source]);
    let mut run = world.start();
    block_on(run.next());
    source.set_tools(tools(["fetch", "search"]));
    let state = block_on(run.finish());
    assert_eq!(state.get(&SOURCE_TOOLS), Some(vec!["search".into(), "fetch".into()]));
    block_on(world.agent.start(state.with_user_message("more"), options()).finish());
    let all = vec!["scripted", "search", "fetch"];
    assert_eq!(world.offered(), [vec!["scripted", "search"], all.clone(), all]);
}

#[test]
fn another_process_shows_late_tools_in_the_order_that_is_on_record() {
    let source = ScriptedToolSource::new("server", tools(["search"]));
    let journal = MemoryJournal::new();
    let first = world(works(1), &[&source]);
    let mut run = first.agent.start(asked(), journaled(&journal));
    block_on(run.next());
    source.set_tools(tools(["fetch", "search"]));
    block_on(run.finish());

    let source = ScriptedToolSource::new("server", tools(["fetch", "search", "new"]));
    let second = world(works(0), &[&source]);
    let state = replay(&journal).with_user_message("more");
    block_on(second.agent.start(state, options()).finish());
    assert_eq!(second.offered(), [vec!["scripted", "search", "fetch", "new"]]);
}

#[test]
fn a_run_that_resumes_in_the_middle_of_a_step_has_the_tools_of_its_calls() {
    let hanging = MockTool::hanging("search").with_options(loopwright_core::ToolOptions {
        side_effects: loopwright_core::SideEffects::ReadOnly,
        ..loopwright_core::ToolOptions::default()
    });
    let source = ScriptedToolSource::new("server", ToolSet::new().with(hanging));
    let steps = [ScenarioStep::tool_call("search", json!({})), "done".into()];
    let world = world(steps, &[&source]);
    let journal = MemoryJournal::new();
    let mut run = world.agent.start(asked(), journaled(&journal));
    assert!(run_until_stuck(run.next()).is_none());
    drop(run);

    source.set_tools(tools(["search"]));
    let options = RunOptions { on_interrupted: OnInterrupted::ReportUnknown, ..options() };
    let state = block_on(world.agent.start(replay(&journal), options).finish());
    assert_eq!(told(&state), ["search answered"]);
    is_valid(&state);
}

#[test]
fn dropping_next_loses_no_listing() {
    let source = ScriptedToolSource::new("server", tools(["search"]));
    let mut sources = ToolSources::default();
    source.hang();
    sources.add_with_wait(Arc::new(source.clone()), Duration::from_secs(9));
    let world = world_of(works(0), sources);
    let mut run = world.start_in_no_time();
    assert!(run_until_stuck(run.next()).is_none());
    source.answer();
    block_on(run.next());
    assert_eq!(
        (source.listings(), world.offered()),
        (1, vec![vec!["scripted".to_owned(), "search".to_owned()]])
    );
}

#[test]
fn an_agent_that_is_closed_closes_each_source_once_and_calls_it_no_more() {
    let source = ScriptedToolSource::new("server", tools(["search"]));
    let world = world(works(0), &[&source]);
    let copy = world.agent.clone();
    block_on(world.agent.close()).unwrap();
    block_on(copy.close()).unwrap();
    block_on(copy.start(asked(), options()).finish());
    assert_eq!((source.closings(), source.listings()), (1, 0));
}

#[test]
fn dropping_an_agent_closes_no_source() {
    let source = ScriptedToolSource::new("server", tools(["search"]));
    let world = world(works(0), &[&source]);
    block_on(world.start().finish());
    drop(world);
    assert_eq!(source.closings(), 0);
}

/// A source that cannot be closed.
struct Stuck;

#[async_trait::async_trait]
impl ToolSource for Stuck {
    fn name(&self) -> &'static str {
        "stuck"
    }

    fn version(&self) -> u64 {
        0
    }

    async fn tools(&self) -> Result<loopwright_core::ToolListing, loopwright_core::BoxError> {
        Ok(loopwright_core::ToolListing::default())
    }

    async fn close(&self) -> Result<(), loopwright_core::BoxError> {
        Err("still in use".into())
    }
}

#[test]
fn a_source_that_cannot_be_closed_keeps_no_other_open() {
    let source = ScriptedToolSource::new("server", ToolSet::new());
    let mut sources = ToolSources::default();
    sources.add(Arc::new(Stuck));
    sources.add(Arc::new(source.clone()));
    let error = block_on(sources.close()).unwrap_err();
    let cause = error.source.to_string();
    assert_eq!(
        (error.to_string().as_str(), cause.as_str()),
        ("tool source `stuck` cannot be closed", "still in use")
    );
    assert_eq!(source.closings(), 1);
}

#[test]
fn a_copy_with_other_tools_has_no_source() {
    let source = ScriptedToolSource::new("server", tools(["search"]));
    let world = world(works(0), &[&source]);
    let narrowed = world.agent.with_tools(tools(["own"]));
    block_on(narrowed.start(asked(), options()).finish());
    assert_eq!((world.offered(), source.listings()), (vec![vec!["own".to_owned()]], 0));
}

#[test]
fn tools_that_a_filter_rejects_are_never_offered() {
    let source = ScriptedToolSource::new("server", tools(["search", "delete"]));
    let world = world(works(0), &[&source]);
    let careful = world
        .agent
        .with(|parts| parts.sources = parts.sources.filter(|tool| &**tool.name() != "delete"));
    block_on(careful.start(asked(), options()).finish());
    assert_eq!(world.offered(), [vec!["scripted", "search"]]);
}

#[test]
fn runs_of_one_agent_have_their_own_tools() {
    let source = ScriptedToolSource::new("server", tools(["search", "fetch"]));
    let world = world(works(1), &[&source]);
    let mut first = world.start();
    block_on(first.next());
    source.set_tools(tools(["fetch"]));
    block_on(world.start().finish());
    block_on(first.finish());
    let (all, fewer) = (vec!["scripted", "search", "fetch"], vec!["scripted", "fetch"]);
    assert_eq!(world.offered(), [all.clone(), fewer, all]);
}

#[test]
fn a_session_without_sources_records_nothing_about_them() {
    let world = world(works(1), &[]);
    let journal = MemoryJournal::new();
    let state = block_on(world.agent.start(asked(), journaled(&journal)).finish());
    assert_eq!(state.get(&SOURCE_TOOLS), None);
    let edits = |it: &ChangeRecord| format!("{:?}", it.change).contains("tool_sources");
    assert!(!journal.changes().iter().any(edits));
    assert_ne!(state, AgentState::new());
}
