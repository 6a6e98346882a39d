//! Agents that hand work to agents: one budget, one will, no more rights, and nothing paid twice.

mod commands;
mod spreading;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    future::pending,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use loopwright_agent::{
    AgentBuilder, AgentDefinition, BuildError, DefinitionRegistry, LoopFactory, NameList, UseHook,
    UseLlmConfig, UseTools,
};
use loopwright_capabilities::{
    bash::{Background, UseBash},
    critique::UseSelfCritique,
    planning::UsePlanningSubagent,
    subagents::{SubagentPolicy, UseSubagents},
};
use loopwright_core::{
    AgentLoop, AgentState, Budget, CallableHook, ExecutionStatus, RunEnv, RunOptions, SideEffects,
    Step, ToolDecision, ToolOptions, ToolOutput,
    events::SubagentCompleted,
    messages::{Cost, InferenceRequest, Usage},
};
use loopwright_sandbox::Backend;
use loopwright_sessions::{
    AgentSession, ContinueRun, MemoryStore, SendMessage, SessionFactory, SessionId, SessionRuntime,
};
use loopwright_testing::{
    EventRecorder, FakeModel, Fault, FrozenClock, MemoryJournal, MockTool, ScenarioStep, block_on,
    run_until_stuck, test_env,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::told;

fn ask(name: &str, prompt: impl Into<Value>) -> (&'static str, Value) {
    ("spawn_subagent", json!({ "subagent": name, "prompt": prompt.into() }))
}

fn agents(definitions: impl IntoIterator<Item = AgentDefinition>) -> DefinitionRegistry {
    let mut registry = DefinitionRegistry::new();
    definitions.into_iter().for_each(|it| registry.register(it));
    registry
}

fn helper() -> AgentDefinition {
    AgentDefinition::new("helper", "Helps.", "You help.")
}

fn go(budget: Budget) -> AgentState {
    AgentState::new().with_user_message("go").with_budget(budget)
}

fn options(env: RunEnv) -> RunOptions {
    RunOptions { env, ..RunOptions::default() }
}

fn tools_of(request: &InferenceRequest) -> BTreeSet<String> {
    request.tools.iter().map(|it| it.name.to_string()).collect()
}

/// The first thing that an agent was told.
fn first_said(request: &InferenceRequest) -> String {
    request.prompt.stable().next().map(|it| it.message().text()).unwrap_or_default()
}

const NAMES: [&str; 5] = ["read", "write", "bash", "grep", "spawn_subagent"];

fn names() -> impl Strategy<Value = NameList> {
    proptest::sample::subsequence(NAMES.to_vec(), 0..=NAMES.len())
        .prop_map(|names| names.into_iter().collect())
}

fn definition(name: &'static str) -> impl Strategy<Value = AgentDefinition> {
    let tools = proptest::option::weighted(0.7, names());
    // Whoever never hands anything on makes for small trees.
    let may_spawn = proptest::bool::weighted(0.8);
    (tools, names(), may_spawn).prop_map(move |(tools, deny, may_spawn)| {
        let spawn = may_spawn.then_some("spawn_subagent");
        let tools = tools.map(|it| it.iter().chain(spawn).collect());
        let deny = deny.iter().filter(|it| spawn != Some(*it)).take(2).collect();
        AgentDefinition { tools, tools_deny: deny, ..AgentDefinition::new(name, "", name) }
    })
}

/// Lets every agent call every agent, and returns what each was shown, by the path to it.
fn shown_to_each(definitions: &[AgentDefinition]) -> BTreeMap<String, BTreeSet<String>> {
    let who: Vec<String> = definitions.iter().map(|it| it.name.clone()).collect();
    let model = FakeModel::from_fn(move |request| {
        let (path, tools) = (first_said(request), tools_of(request));
        if request.prompt.turns.len() > 1 || !tools.contains("spawn_subagent") {
            return ScenarioStep::final_answer("done").to_response();
        }
        let asks = who.iter().map(|name| ask(name, format!("{path}/{name}")));
        ScenarioStep::tool_calls(asks).to_response()
    });
    let tools = NAMES[..4].iter().map(|name| MockTool::returning(name, "", "ok"));
    let policy = SubagentPolicy::for_depth(3);
    let agent = AgentBuilder::base()
        .with_capability(UseLlmConfig::model(model.clone()))
        .with_capability(tools.fold(UseTools::new(), UseTools::with_tool))
        .with_capability(UseSubagents::new(agents(definitions.to_vec())).with_policy(policy))
        .build()
        .unwrap();
    block_on(agent.start(go(Budget::unlimited()), options(test_env(1))).finish());
    model.requests().iter().map(|it| (first_said(it), tools_of(it))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_sub_agent_is_not_shown_tools_that_its_parent_lacks(
        definitions in [definition("a"), definition("b"), definition("c")]
    ) {
        let shown = shown_to_each(&definitions);
        for (path, tools) in &shown {
            let Some((above, name)) = path.rsplit_once('/') else { continue };
            let definition = definitions.iter().find(|it| it.name == name).unwrap();
            let expect: BTreeSet<String> =
                shown[above].iter().filter(|it| definition.allows_tool(it)).cloned().collect();
            prop_assert_eq!(tools, &expect, "{}", path);
        }
        // The tree is as deep as it may be wherever every agent may delegate.
        let deepest = shown.keys().map(|it| it.matches('/').count()).max();
        let all_spawn = definitions.iter().all(|it| it.allows_tool("spawn_subagent"));
        prop_assert!(!all_spawn || deepest == Some(3));
    }
}

#[test]
fn a_sub_agent_has_no_tool_that_its_parent_may_not_call() {
    let model = FakeModel::from_fn(|request| {
        let step = match (first_said(request).as_str(), request.prompt.turns.len()) {
            ("go", 1) => ScenarioStep::tool_calls([ask("helper", "one")]),
            ("one", 1) => ScenarioStep::tool_calls([ask("helper", "two")]),
            ("two", 1) => ScenarioStep::tool_call("wipe", json!({})),
            _ => ScenarioStep::final_answer("done"),
        };
        step.to_response()
    });
    let wipe = MockTool::returning("wipe", "", "gone");
    let never = CallableHook::new("never").before_tool(|call, _, _| {
        let is_wipe = &*call.name == "wipe";
        let reason = "that is not done here".to_owned();
        Ok(if is_wipe { ToolDecision::Block { reason } } else { ToolDecision::Run })
    });
    let agent = AgentBuilder::base()
        .with_capability(UseLlmConfig::model(model.clone()))
        .with_capability(UseTools::new().with_tool(wipe.clone()))
        .with_capability(UseHook::new(never))
        .with_capability(UseSubagents::new(agents([helper()])))
        .build()
        .unwrap();
    block_on(agent.execute(go(Budget::unlimited())));
    assert_eq!((wipe.calls().len(), model.asked()), (0, 6));
}

/// The helper that commands are started by. It is built unless a build of the whole workspace has made it of the sources
/// as they are.
pub(crate) fn sandbox_helper() -> PathBuf {
    let profile = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().to_owned();
    let helper = profile.join("loopwright-sandbox-helper");
    if !is_current(&helper) {
        let is_release = profile.file_name().is_some_and(|it| it == "release");
        let made = std::process::Command::new(env!("CARGO"))
            .args(["build", "--offline", "-p", "loopwright-sandbox", "--bins"])
            .args(is_release.then_some("--release"))
            .arg("--target-dir")
            .arg(profile.parent().unwrap())
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status();
        assert!(made.unwrap().success());
    }
    helper
}

/// Returns `true` if a program is newer than every source that it was built of, which cargo lists beside it.
fn is_current(program: &Path) -> bool {
    let Ok(sources) = fs::read_to_string(program.with_extension("d")) else { return false };
    let changed = |path: &Path| fs::metadata(path).and_then(|it| it.modified());
    let Ok(built) = changed(program) else { return false };
    // Spaces in paths have a backslash before them.
    let sources = sources.split_once(": ").unwrap_or_default().1.replace("\\ ", "\0");
    let mut sources = sources.split_whitespace().map(|it| it.replace('\0', " ")).peekable();
    sources.peek().is_some()
        && sources.all(|it| changed(Path::new(&it)).is_ok_and(|changed| changed <= built))
}

#[test]
fn a_program_that_is_older_than_its_sources_is_not_current() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let write = |name: &str, text: &str, age: u64| {
        fs::write(at(name), text).unwrap();
        let time = std::time::SystemTime::now() - Duration::from_secs(age);
        fs::File::options().write(true).open(at(name)).unwrap().set_modified(time).unwrap();
    };
    let (program, source) = (at("program"), at("a source.rs"));
    assert!(!is_current(&program));
    write("a source.rs", "", 20);
    write("program", "", 10);
    assert!(!is_current(&program), "what it was built of is not known");
    let listed = source.to_str().unwrap().replace(' ', "\\ ");
    write("program.d", &format!("{}: {listed}\n", program.display()), 10);
    assert!(is_current(&program));
    write("a source.rs", "", 0);
    assert!(!is_current(&program));
    fs::remove_file(source).unwrap();
    assert!(!is_current(&program));
}

/// Counts the processes whose command line has these words.
pub(crate) fn processes(words: &str) -> usize {
    let lines = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let line = fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&line).replace('\0', " "))
    });
    lines.filter(|line| line.trim() == words).count()
}

pub(crate) async fn until(what: impl Fn() -> bool) {
    let patience = async {
        while !what() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), patience).await.expect("it never came about");
}

#[tokio::test]
async fn cancelling_an_agent_ends_all_that_work_for_it_and_their_processes() {
    loopwright_sandbox::set_helper_path(sandbox_helper());
    // A length that no other process sleeps.
    let sleep = format!("sleep {}.125", 100_000 + std::process::id());
    let command = sleep.clone();
    let model = FakeModel::from_fn(move |request| {
        let step = match (first_said(request).as_str(), request.prompt.turns.len()) {
            ("go", 1) => ScenarioStep::tool_calls((0..2).map(|_| ask("helper", "one"))),
            ("one", 1) => ScenarioStep::tool_calls([
                ask("helper", "two"),
                ("bash_start", json!({ "command": command })),
            ]),
            ("two", 1) => ScenarioStep::tool_calls([
                ("bash_start", json!({ "command": command })),
                ("bash", json!({ "command": command })),
            ]),
            _ => ScenarioStep::final_answer("done"),
        };
        step.to_response()
    });
    let home = tempfile::tempdir().unwrap();
    let bash = UseBash::in_dir(home.path())
        .with_backend(Backend::Host)
        .with_background(Background::Allowed);
    let events = EventRecorder::new();
    let agent = AgentBuilder::base()
        .with_capability(UseLlmConfig::model(model))
        .with_capability(bash)
        .with_capability(UseSubagents::new(agents([helper()])))
        .with_event_sink(events.sink())
        .build()
        .unwrap();
    let run = agent.start(go(Budget::unlimited()), RunOptions::default());
    let handle = run.handle();
    let finished = tokio::spawn(run.finish());
    // Two children with one command each, and two below them with two each.
    until(|| processes(&sleep) == 6).await;
    handle.cancel();
    let state = finished.await.unwrap();
    assert_eq!(state.status().as_str(), "stopped");
    let ended = events.events_of::<SubagentCompleted>();
    assert_eq!(ended.iter().map(|it| &*it.status).collect::<Vec<_>>(), ["stopped"; 4]);
    until(|| processes(&sleep) == 0).await;
}

/// An agent whose helper looks at something with a tool that never comes back the first time.
fn interrupted(model: &FakeModel, levels: &[&'static str]) -> (AgentLoop, MockTool) {
    let looked = AtomicUsize::new(0);
    let look = MockTool::with_cx("look", "", move |_, _| {
        let times = looked.fetch_add(1, SeqCst);
        Box::pin(async move {
            if times == 0 {
                return pending().await;
            }
            Ok(ToolOutput::text("it is there"))
        })
    });
    let options = ToolOptions { side_effects: SideEffects::Idempotent, ..ToolOptions::default() };
    let definitions = levels.iter().map(|name| AgentDefinition::new(*name, "", *name));
    let agent = AgentBuilder::base()
        .with_capability(UseLlmConfig::model(model.clone()))
        .with_capability(UseTools::new().with_tool(look.clone().with_options(options)))
        .with_capability(UseSubagents::new(agents(definitions)))
        .build()
        .unwrap();
    (agent, look)
}

/// A model by which the one who began asks `one`, who asks `two`, who looks. Each answer costs ten.
fn chain() -> FakeModel {
    FakeModel::from_fn(|request| {
        let step = match (first_said(request).as_str(), request.prompt.turns.len()) {
            ("go", 1) => ScenarioStep::tool_calls([ask("one", "do one")]),
            ("do one", 1) => ScenarioStep::tool_calls([ask("two", "do two")]),
            ("do two", 1) => ScenarioStep::tool_call("look", json!({})),
            ("do two", _) => ScenarioStep::final_answer("found"),
            ("do one", _) => ScenarioStep::final_answer("two has found it"),
            _ => ScenarioStep::final_answer("done"),
        };
        step.with_usage(Usage::new(10, 0)).to_response()
    })
}

#[test]
fn a_crash_in_the_middle_of_a_sub_agent_resumes_it_and_nothing_is_paid_twice() {
    let (model, journal) = (chain(), MemoryJournal::new());
    let (agent, look) = interrupted(&model, &["one", "two"]);
    let journaled =
        |seed| RunOptions { journal: Some(Arc::new(journal.clone())), ..options(test_env(seed)) };
    let budget = Budget { tokens: Some(60), ..Budget::unlimited() };
    assert!(run_until_stuck(agent.start(go(budget), journaled(1)).finish()).is_none());
    assert_eq!((model.asked(), look.calls().len()), (3, 1));
    let found = AgentState::new().replay(journal.changes()).unwrap();
    // What the sub-agents have used is not known here yet.
    assert_eq!(found.usage(), Usage::new(10, 0));
    let events = EventRecorder::new();
    let agent = agent.with_event_sink(events.sink());
    let state = block_on(agent.start(found, journaled(2)).finish());
    assert_eq!(
        (state.text().as_str(), told(&state)),
        ("done", vec!["[Subagent: one] two has found it".to_owned()])
    );
    let keys = look.keys();
    assert_eq!((model.asked(), keys.len(), &keys[0]), (6, 2, &keys[1]));
    assert_eq!(state.usage(), Usage::new(60, 0));
    let resumed = events.events_of::<loopwright_core::events::ExecutionStarted>();
    assert!(resumed.iter().all(|it| it.resumed));
    assert_eq!(resumed.len(), 3);
    let used: Vec<_> = events.events_of::<SubagentCompleted>().iter().map(|it| it.usage).collect();
    assert_eq!(used, [Usage::new(20, 0), Usage::new(40, 0)]);
}

#[test]
fn usage_of_a_sub_agent_before_a_crash_counts_against_the_budget() {
    let (model, journal) = (chain(), MemoryJournal::new());
    let (agent, _) = interrupted(&model, &["one", "two"]);
    let journaled =
        |seed| RunOptions { journal: Some(Arc::new(journal.clone())), ..options(test_env(seed)) };
    // Three answers of six are paid for, and no more than three are allowed.
    let budget = Budget { tokens: Some(30), ..Budget::unlimited() };
    assert!(run_until_stuck(agent.start(go(budget), journaled(1)).finish()).is_none());
    let found = AgentState::new().replay(journal.changes()).unwrap();
    let state = block_on(agent.start(found, journaled(2)).finish());
    assert_eq!((model.asked(), state.usage()), (3, Usage::new(30, 0)));
    assert!(matches!(state.status(), ExecutionStatus::Stopped(_)), "{:?}", state.status());
}

#[test]
fn usage_of_a_sub_agent_before_a_crash_is_not_available_to_others() {
    let left: Arc<Mutex<Vec<bool>>> = Arc::default();
    let found = Arc::clone(&left);
    let probe = MockTool::with_cx("probe", "", move |_, cx| {
        let covers = |tokens| cx.meter.reserve(tokens, Cost::ZERO).is_ok();
        found.lock().unwrap().extend([covers(30), covers(31)]);
        Box::pin(async { Ok(ToolOutput::text("ok")) })
    });
    let probe = probe.with_options(ToolOptions { exclusive: true, ..ToolOptions::default() });
    let model = FakeModel::from_fn(|request| {
        let step = match (first_said(request).as_str(), request.prompt.turns.len()) {
            ("go", 1) => ScenarioStep::tool_calls([ask("one", "do one"), ("probe", json!({}))]),
            ("do one", 1) => ScenarioStep::tool_call("look", json!({})),
            _ => ScenarioStep::final_answer("done"),
        };
        step.with_usage(Usage::new(10, 0)).to_response()
    });
    let journal = MemoryJournal::new();
    let (agent, _) = interrupted(&model, &["one"]);
    let agent = agent.with_tool(probe);
    let journaled =
        || RunOptions { journal: Some(Arc::new(journal.clone())), ..options(test_env(1)) };
    let budget = Budget { tokens: Some(60), ..Budget::unlimited() };
    assert!(run_until_stuck(agent.start(go(budget), journaled()).finish()).is_none());
    let state = AgentState::new().replay(journal.changes()).unwrap();
    block_on(agent.start(state, journaled()).finish());
    // Of 60, the first answer took 10 and the sub-agent 20, half of them before the crash.
    assert_eq!(*left.lock().unwrap(), [true, false]);
}

#[test]
fn wherever_the_one_who_asked_crashes_its_sub_agents_answer_once() {
    let whole = |journal: &MemoryJournal, model: &FakeModel, state: AgentState| {
        let agent = AgentBuilder::base()
            .with_capability(UseLlmConfig::model(model.clone()))
            .with_capability(UseTools::new().with_tool(MockTool::returning("look", "", "there")))
            .with_capability(UseSubagents::new(agents([
                AgentDefinition::new("one", "", "one"),
                AgentDefinition::new("two", "", "two"),
            ])))
            .build()
            .unwrap();
        let journal = Some(Arc::new(journal.clone()) as _);
        agent.start(state, RunOptions { journal, ..options(test_env(1)) }).finish()
    };
    let undisturbed = MemoryJournal::new();
    block_on(whole(&undisturbed, &chain(), go(Budget::unlimited())));
    let appends = undisturbed.appends();
    assert_eq!(appends, 4);
    for append in 0..appends {
        for fault in [Fault::CrashBefore, Fault::CrashAfter] {
            let (journal, model) = (MemoryJournal::new(), chain());
            journal.fail_at(append, fault);
            assert!(run_until_stuck(whole(&journal, &model, go(Budget::unlimited()))).is_none());
            journal.recover();
            let found = match journal.changes() {
                changes if changes.is_empty() => go(Budget::unlimited()),
                changes => AgentState::new().replay(changes).unwrap(),
            };
            let state = if found.status().is_terminal() {
                found
            } else {
                block_on(whole(&journal, &model, found))
            };
            assert_eq!((state.text().as_str(), state.usage()), ("done", Usage::new(60, 0)));
            let by_children = |it: &&InferenceRequest| first_said(it) != "go";
            assert_eq!(
                model.requests().iter().filter(by_children).count(),
                4,
                "{append} {fault:?}"
            );
        }
    }
}

/// Makes the same loop of every definition.
struct Same(AgentLoop);

impl LoopFactory for Same {
    fn instantiate(&self, _definition: &AgentDefinition) -> Result<AgentLoop, BuildError> {
        Ok(self.0.clone())
    }
}

#[test]
fn a_sub_agent_of_a_session_goes_on_in_its_own_session() {
    let (model, store, clock) = (chain(), MemoryStore::new(), FrozenClock::manual());
    let (agent, look) = interrupted(&model, &["one", "two"]);
    let runtime = |seed| {
        SessionRuntime::new(Arc::new(store.clone()), Same(agent.clone())).with_env(clock.env(seed))
    };
    let id = SessionId::new("a").unwrap();
    let now = loopwright_core::Timestamp::from_millis(0);
    let session: AgentSession =
        SessionFactory::new().create_from(helper(), AgentState::new(), id.clone(), now);
    let first = runtime(0);
    block_on(first.create(session)).unwrap();
    assert!(run_until_stuck(first.execute(&id, &SendMessage::text("go"))).is_none());
    // Its lease ends.
    clock.advance(Duration::from_mins(1));
    let done = block_on(runtime(1).execute(&id, &ContinueRun)).unwrap();
    assert_eq!(done.state().text(), "done");
    assert_eq!((model.asked(), look.calls().len()), (6, 2));
    assert_eq!(done.state().usage(), Usage::new(60, 0));
}

#[test]
fn planning_handing_on_and_critique_go_together_over_two_turns() {
    let plan = json!({ "specification": "Goal: it." });
    let script = || {
        FakeModel::from_fn(move |request| {
            let is_root = ["one", "two"].contains(&last_user(request).as_str());
            let step = match (is_root, request.prompt.turns.last().unwrap().message().text()) {
                (true, text) if text == "one" || text == "two" => ScenarioStep::tool_calls([
                    ("plan_with_subagent", plan.clone()),
                    ask("helper", "help"),
                ]),
                _ => ScenarioStep::final_answer(format!("answer to {}", last_user(request))),
            };
            step.to_response()
        })
    };
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let judged = Arc::clone(&seen);
    let critic = FakeModel::from_fn(move |request| {
        judged.lock().unwrap().push(last_user(request));
        ScenarioStep::from(r#"{ "approved": true }"#).to_response()
    });
    let agent = AgentBuilder::base()
        .with_capability(UseSelfCritique::with_model(critic))
        .with_capability(UsePlanningSubagent::default())
        .with_capability(UseSubagents::new(agents([helper()])))
        .with_capability(UseLlmConfig::model(script()))
        .build()
        .unwrap();
    let first = block_on(agent.execute(AgentState::new().with_user_message("one")));
    let second = block_on(agent.execute(first.with_user_message("two")));
    assert_eq!(second.text(), "answer to two");
    let expect = ["answer to Goal: it.".to_owned(), "[Subagent: helper] answer to help".to_owned()];
    assert_eq!(told(&second), expect);
    // Sub-agents are not judged: their answers are what the one who asked makes its own of.
    let seen = seen.lock().unwrap();
    let tasks: Vec<&str> = seen.iter().map(|it| it.lines().nth(1).unwrap()).collect();
    assert_eq!(tasks, ["one", "two"]);
    assert_eq!(second.steps().map(Step::number).collect::<Vec<_>>(), [1, 2]);
}

fn last_user(request: &InferenceRequest) -> String {
    use loopwright_core::messages::Role;
    let users = request.prompt.stable().filter(|it| it.message().role() == Role::User);
    users.last().map(|it| it.message().text()).unwrap_or_default()
}
