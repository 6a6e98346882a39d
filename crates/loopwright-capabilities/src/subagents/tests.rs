//! What the tools of sub-agents show and say.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use async_trait::async_trait;
use loopwright_agent::{
    AgentBuilder, AgentDefinition, AgentIsolation, BuildError, Capability, CapabilityRegistry,
    Configurator, DefinitionRegistry, NameList, UseLlmConfig, UseTools,
};
use loopwright_core::{
    AgentLoop, AgentState, BoxError, Budget, ChatModel, InferCx, IntoTool as _, LlmConfig,
    ModelError, ToolCx,
    events::{SubagentCompleted, SubagentSpawning},
    messages::{InferenceRequest, InferenceResponse, Usage},
};
use loopwright_testing::{
    EventRecorder, FakeModel, MockTool, ScenarioStep, block_on, tool_results, yield_times,
};
use serde_json::{Value, json};

use crate::{
    background::BackgroundTasks,
    bash::UseBash,
    child::{IsolateAgents, IsolatedPlace},
    skills::{Skill, SkillInfo, SkillLibrary},
    tasks::UseTaskPlanning,
};

use super::{SpawnSubagent, SubagentPolicy, UseSubagents};

fn agents(definitions: impl IntoIterator<Item = AgentDefinition>) -> DefinitionRegistry {
    let mut registry = DefinitionRegistry::new();
    definitions.into_iter().for_each(|it| registry.register(it));
    registry
}

fn helper() -> AgentDefinition {
    AgentDefinition::new("helper", "Helps.", "You help.")
}

fn ask(name: &str) -> (&'static str, Value) {
    ("spawn_subagent", json!({ "subagent": name, "prompt": "Do it." }))
}

fn agent(model: impl ChatModel + 'static, subagents: UseSubagents) -> AgentLoop {
    let tools = ["read_file", "write_file"].map(|it| MockTool::returning(it, "", "ok"));
    let tools = tools.into_iter().fold(UseTools::new(), UseTools::with_tool);
    AgentBuilder::base()
        .with_capability(UseLlmConfig::model(model))
        .with_capability(tools)
        .with_capability(subagents)
        .build()
        .unwrap()
}

fn run(agent: &AgentLoop) -> AgentState {
    block_on(agent.execute(AgentState::new().with_user_message("go")))
}

/// Asks a sub-agent once, which answers with these steps.
fn asked(
    name: &str,
    subagents: UseSubagents,
    steps: impl IntoIterator<Item = ScenarioStep>,
) -> (AgentState, FakeModel) {
    let begin = [ScenarioStep::tool_calls([ask(name)])];
    let model = FakeModel::script(begin.into_iter().chain(steps).chain(["done".into()]));
    (run(&agent(model.clone(), subagents)), model)
}

fn tools_of(request: &InferenceRequest) -> Vec<&str> {
    request.tools.iter().map(|it| &*it.name).collect()
}

#[test]
fn a_sub_agent_answers_in_a_conversation_of_its_own() {
    let (state, model) =
        asked("helper", UseSubagents::new(agents([helper()])), ["It is done.".into()]);
    assert_eq!(tool_results(&state), ["[Subagent: helper] It is done."]);
    let request = &model.requests()[1];
    assert_eq!(request.system.as_deref(), Some("You help."));
    assert_eq!(tools_of(request), ["read_file", "write_file", "spawn_subagent"]);
    let after = &model.requests()[2];
    assert_eq!(after.system, None);
    let texts: Vec<_> = after.prompt.stable().map(|it| it.message().text()).collect();
    assert_eq!(texts, ["go", ""]);
}

#[test]
fn the_answer_is_cut_and_its_value_says_who_gave_it() {
    let policy = SubagentPolicy { summary_max_chars: 3, ..SubagentPolicy::default() };
    let subagents = UseSubagents::new(agents([helper()])).with_policy(policy);
    let (state, _) = asked("helper", subagents, ["äöü and more".into()]);
    assert_eq!(tool_results(&state), ["[Subagent: helper] äöü\n[truncated: 9 more characters]"]);
    let value = state.step_at(0).unwrap().tool_executions().next().unwrap().1.output().unwrap();
    let value = value.value.as_deref().unwrap();
    assert_eq!(value["subagent"], "helper");
    assert_eq!(value["status"], "completed");
    assert_eq!(value["steps"], 1);
    let off = SubagentPolicy { summary_max_chars: 0, ..SubagentPolicy::default() };
    assert_eq!(off.show("a", &"x".repeat(9000)).len(), 9000 + "[Subagent: a] ".len());
}

#[test]
fn the_names_of_sub_agents_are_in_schema_and_description() {
    let reader = AgentDefinition {
        tools: Some(["read_file"].into_iter().collect()),
        ..AgentDefinition::new("reader", "Reads.", "")
    };
    let careful = AgentDefinition {
        tools_deny: ["write_file"].into_iter().collect(),
        ..AgentDefinition::new("careful", "Takes care.", "")
    };
    let tool = SpawnSubagent::new(agents([reader, careful])).into_tool();
    let spec = tool.spec();
    assert_eq!(spec.parameters["properties"]["subagent"]["enum"], json!(["careful", "reader"]));
    let listed = spec.description.split_once("Available sub-agents:").unwrap().1;
    assert_eq!(
        listed,
        "\n- careful: Takes care. (tools: all your tools; not write_file)\n- reader: Reads. \
         (tools: read_file)"
    );
}

#[test]
fn without_definitions_there_is_no_empty_choice() {
    let tool = SpawnSubagent::default().into_tool();
    assert_eq!(tool.spec().parameters["properties"]["subagent"].get("enum"), None);
    assert!(tool.spec().description.ends_with("No sub-agents are registered."));
    let (state, _) = asked("helper", UseSubagents::default(), []);
    assert_eq!(tool_results(&state), ["Error: no sub-agents are available; do the task yourself"]);
}

#[test]
fn a_name_that_there_is_not_is_an_error_that_names_those_that_there_are() {
    let (state, _) = asked("nobody", UseSubagents::new(agents([helper()])), []);
    let [told] = &tool_results(&state)[..] else { panic!("{state:?}") };
    assert!(told.contains("nobody") && told.contains("helper"), "{told}");
    let (state, model) = {
        let nothing = ("spawn_subagent", json!({ "subagent": "helper", "prompt": " " }));
        let model = FakeModel::script([ScenarioStep::tool_calls([nothing]), "done".into()]);
        (run(&agent(model.clone(), UseSubagents::new(agents([helper()])))), model)
    };
    assert!(told_one(&state).contains("`prompt` is empty"), "{state:?}");
    assert_eq!(model.asked(), 2);
}

fn told_one(state: &AgentState) -> String {
    tool_results(state).remove(0)
}

#[test]
fn sub_agents_have_sub_agents_as_deep_as_they_may_be() {
    let model = FakeModel::from_fn(|request| {
        let has_answers = request.prompt.turns.len() > 1;
        let step = if has_answers {
            ScenarioStep::final_answer("up")
        } else {
            ScenarioStep::tool_calls([ask("helper")])
        };
        step.to_response()
    });
    let events = EventRecorder::new();
    let agent = agent(model.clone(), UseSubagents::for_depth(2, agents([helper()])));
    run(&agent.with_event_sink(events.sink()));
    let spawned: Vec<_> =
        events.events_of::<SubagentSpawning>().iter().map(|it| (it.depth, it.max_depth)).collect();
    assert_eq!(spawned, [(1, 2), (2, 2)]);
    // The deepest one was told that it goes no deeper.
    let requests = model.requests();
    let deepest = requests.iter().filter(|it| it.system.is_some() && it.prompt.turns.len() > 1);
    let told: Vec<String> = deepest
        .map(|it| format!("{:?}", it.prompt.turns.last().unwrap().body()))
        .filter(|it| it.contains("sub-agents are nested 2 deep, and the limit is 2"))
        .collect();
    assert_eq!(told.len(), 1);
}

#[test]
fn events_tell_who_works_for_whom() {
    let events = EventRecorder::new();
    let usage = Usage::new(7, 0);
    let steps = [
        ScenarioStep::tool_calls([ask("helper"), ask("helper")]),
        ScenarioStep::final_answer("one").with_usage(usage),
        ScenarioStep::final_answer("two").with_usage(usage),
        "done".into(),
    ];
    let agent = agent(FakeModel::script(steps), UseSubagents::new(agents([helper()])));
    let state = run(&agent.with_event_sink(events.sink()));
    let completed = events.events_of::<SubagentCompleted>();
    let facts = completed.iter().map(|it| (&*it.subagent, &*it.status, it.steps, it.usage));
    assert_eq!(facts.collect::<Vec<_>>(), [("helper", "completed", 1, usage); 2]);
    assert_ne!(completed[0].subagent_id, completed[1].subagent_id);
    let envelopes = events.envelopes();
    let child = completed[0].subagent_id.as_ref().unwrap();
    let of_child: Vec<_> = envelopes.iter().filter(|it| it.agent == *child).collect();
    assert_eq!(of_child[0].event.name(), "ExecutionStarted");
    assert!(of_child.iter().all(|it| it.parent.as_ref() == state.id()));
    let executions: Vec<_> = of_child.iter().map(|it| &it.execution).collect();
    assert!(executions.iter().all(|it| *it != state.execution().unwrap().id()));
    assert_eq!(events.events_of::<SubagentSpawning>()[0].prompt, "Do it.");
    // What they used counts for the one who asked.
    assert_eq!(state.usage(), Usage::new(14, 0));
}

#[test]
fn a_definition_narrows_tools_budget_and_model() {
    let definition = AgentDefinition {
        tools: Some(["read_file", "bash"].into_iter().collect()),
        budget: Some(Budget { steps: Some(1), ..Budget::unlimited() }),
        llm: Some(LlmConfig::named("small")),
        ..helper()
    };
    let again = ScenarioStep::tool_call("read_file", json!({}));
    let (state, model) = asked("helper", UseSubagents::new(agents([definition])), [again]);
    assert_eq!(tools_of(&model.requests()[1]), ["read_file"]);
    assert_eq!(model.requests()[1].model.as_deref(), Some("small"));
    let told = told_one(&state);
    assert!(told.contains("steps_limit"), "{told}");
}

/// Brings a tool, another one under a known name, and words.
struct Extra;

impl Capability for Extra {
    fn name(&self) -> std::borrow::Cow<'static, str> {
        "extra".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        agent.tools.add(MockTool::returning("shell", "", "anything"));
        agent.tools.add(MockTool::returning("read_file", "", "of the capability"));
        agent.prompt.add(10, "extra", "Be brief.");
        Ok(())
    }
}

#[test]
fn capabilities_of_a_definition_bring_no_tools_that_reach_further_than_the_parents() {
    let definition =
        AgentDefinition { capabilities: ["extra"].into_iter().collect::<NameList>(), ..helper() };
    let mut registry = CapabilityRegistry::new();
    registry.register("extra", Extra);
    let subagents =
        UseSubagents::new(agents([definition.clone()])).with_capabilities(Arc::new(registry));
    let read = ScenarioStep::tool_call("read_file", json!({}));
    let (_, model) = asked("helper", subagents, [read, "ok".into()]);
    let request = &model.requests()[2];
    assert_eq!(tools_of(request), ["read_file", "write_file", "spawn_subagent"]);
    assert_eq!(request.system.as_deref(), Some("You help.\n\nBe brief."));
    assert!(!format!("{:?}", request.prompt).contains("of the capability"));
    let (state, _) = asked("helper", UseSubagents::new(agents([definition])), []);
    let told = told_one(&state);
    assert!(told.contains("unknown capability `extra`"), "{told}");
}

/// Runs a sub-agent whose definition names capabilities, and returns the request that it sent last.
fn request_of_child(
    capabilities: &[&str],
    tools: Option<&[&str]>,
    steps: impl IntoIterator<Item = ScenarioStep>,
) -> InferenceRequest {
    let tools = tools.map(|it| it.iter().copied().collect::<NameList>());
    let capabilities = capabilities.iter().copied().collect();
    let definition = AgentDefinition { capabilities, tools, ..helper() };
    let mut registry = CapabilityRegistry::new();
    registry.register("use_task_planning", UseTaskPlanning::default());
    registry.register("use_bash", UseBash::in_dir("/"));
    let subagents = UseSubagents::new(agents([definition])).with_capabilities(Arc::new(registry));
    let (_, model) = asked("helper", subagents, steps);
    let requests = model.requests();
    requests[requests.len() - 2].clone()
}

#[test]
fn a_capability_of_a_definition_brings_tools_that_reach_only_the_sub_agent() {
    let todo = json!({ "content": "Look", "status": "pending", "activeForm": "Looking" });
    let write = ScenarioStep::tool_call("todo_write", json!({ "todos": [todo] }));
    let request = request_of_child(&["use_task_planning"], None, [write, "ok".into()]);
    let tools = tools_of(&request);
    assert_eq!(tools, ["read_file", "write_file", "spawn_subagent", "todo_write"]);
    let written = format!("{:?}", request.prompt.turns.last().unwrap().body());
    assert!(written.contains("1. ○ Look"), "{written}");
}

#[test]
fn a_sub_agent_is_not_told_to_call_tools_that_it_lacks() {
    let request = request_of_child(&["use_bash"], None, ["ok".into()]);
    assert_eq!(tools_of(&request), ["read_file", "write_file", "spawn_subagent"]);
    assert_eq!(request.system.as_deref(), Some("You help."));
    let request = request_of_child(&["use_task_planning"], Some(&["read_file"]), ["ok".into()]);
    assert_eq!(tools_of(&request), ["read_file"]);
    assert!(request.prompt.tail.is_empty(), "{:?}", request.prompt.tail);
}

#[test]
fn shared_instructions_reach_sub_agents_at_every_depth_and_no_others_do() {
    struct Told;

    impl Capability for Told {
        fn name(&self) -> std::borrow::Cow<'static, str> {
            "told".into()
        }

        fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
            agent.prompt.share(-20, "project", "Run `just check`.");
            agent.prompt.add(10, "own", "Be brief.");
            Ok(())
        }
    }

    let deeper = ScenarioStep::tool_calls([ask("helper")]);
    let steps = [deeper.clone(), deeper, "ok".into(), "ok".into(), "done".into()];
    let model = FakeModel::script(steps);
    let agent = AgentBuilder::base()
        .with_capability(UseLlmConfig::model(model.clone()))
        .with_capability(UseSubagents::new(agents([helper()])))
        .with_capability(Told)
        .build()
        .unwrap();
    run(&agent);
    let requests = model.requests();
    let systems: Vec<_> = requests.iter().take(3).map(|it| it.system.as_deref().unwrap()).collect();
    let of_helper = "You help.\n\nRun `just check`.";
    assert_eq!(systems, ["Run `just check`.\n\nBe brief.", of_helper, of_helper]);
}

#[test]
fn a_sub_agent_knows_the_skills_of_its_definition() {
    let skill = |name: &str| Skill::new(SkillInfo::new(name, "d"), format!("{name}: $ARGUMENTS"));
    let library = SkillLibrary::default().with(skill("inspect"));
    let skilled = |skills: &[&str]| {
        let skills = skills.iter().copied().collect();
        UseSubagents::new(agents([AgentDefinition { skills, ..helper() }]))
            .with_skills(library.clone())
    };
    let (_, model) = asked("helper", skilled(&["inspect"]), ["ok".into()]);
    let expect = "You help.\n\n<skill_content name=\"inspect\">\ninspect:\n</skill_content>";
    assert_eq!(model.requests()[1].system.as_deref(), Some(expect));
    // An agent without what it is to know does other work than what was asked for.
    let (state, model) = asked("helper", skilled(&["inspect", "gone"]), []);
    let told = told_one(&state);
    assert_eq!(told, "Error: `helper` cannot start: unknown skills `gone`; do the task yourself");
    assert_eq!(model.asked(), 2);
}

#[test]
fn a_sub_agent_that_fails_is_an_error_that_says_what_it_took() {
    let down = ScenarioStep::error("down").with_usage(Usage::new(3, 0));
    let (state, _) = asked("helper", UseSubagents::new(agents([helper()])), [down]);
    let told = told_one(&state);
    assert!(told.starts_with("Error: `helper` failed after 1 steps and 3 tokens: "), "{told}");
    assert_eq!(state.usage(), Usage::new(3, 0));
}

/// Counts how many calls of it are under way.
#[derive(Clone, Default)]
struct Counting(Arc<(AtomicUsize, AtomicUsize)>, Option<FakeModel>);

#[async_trait]
impl ChatModel for Counting {
    async fn infer(
        &self,
        request: &InferenceRequest,
        cx: InferCx<'_>,
    ) -> Result<InferenceResponse, ModelError> {
        let now = self.0.0.fetch_add(1, SeqCst) + 1;
        self.0.1.fetch_max(now, SeqCst);
        yield_times(5).await;
        let answer = self.1.as_ref().unwrap().infer(request, cx).await;
        self.0.0.fetch_sub(1, SeqCst);
        answer
    }
}

#[test]
fn sub_agents_work_at_the_same_time_and_no_more_of_them_than_may() {
    for (most, expect) in [(2, 2), (8, 6), (0, 1)] {
        let calls = ScenarioStep::tool_calls((0..6).map(|_| ask("helper")));
        let model = FakeModel::script([calls, "done".into()]);
        let counting = Counting(Arc::default(), Some(model));
        let policy = SubagentPolicy { max_concurrent: most, ..SubagentPolicy::default() };
        let subagents = UseSubagents::new(agents([helper()])).with_policy(policy);
        let state = run(&agent(counting.clone(), subagents));
        assert_eq!(tool_results(&state).len(), 6);
        assert_eq!(counting.0.1.load(SeqCst), expect, "{most}");
    }
}

#[test]
fn the_research_agent_has_read_only_tools() {
    let task = json!({ "task": "Where is it?", "files": ["a.rs", "b.rs"] });
    let steps =
        [ScenarioStep::tool_call("research_subagent", task), "In b.rs.".into(), "ok".into()];
    let model = FakeModel::script(steps);
    let state = run(&agent(model.clone(), UseSubagents::default().with_research()));
    assert_eq!(tool_results(&state), ["[Subagent: research] In b.rs."]);
    let request = &model.requests()[1];
    assert_eq!(tools_of(request), ["read_file"]);
    let asked = request.prompt.turns.last().unwrap().message().text();
    assert!(asked.contains("The task: Where is it?\n\nStart with these files:\n- a.rs\n- b.rs"));
}

#[test]
fn research_needs_a_task_and_something_to_read_with() {
    let steps = |task: &str| {
        [ScenarioStep::tool_call("research_subagent", json!({ "task": task })), "ok".into()]
    };
    let policy = SubagentPolicy {
        research_tools: ["browse"].into_iter().collect(),
        ..SubagentPolicy::default()
    };
    let subagents = UseSubagents::default().with_research();
    let state = run(&agent(FakeModel::script(steps(" ")), subagents.clone()));
    assert_eq!(tool_results(&state), ["Error: `task` is empty; describe what to find out"]);
    let state = run(&agent(FakeModel::script(steps("x")), subagents.with_policy(policy)));
    assert_eq!(tool_results(&state), ["Error: files cannot be read here: missing tool browse"]);
}

/// Places without tools: how many were entered, and how many left.
#[derive(Clone, Default)]
struct Places(Arc<[AtomicUsize; 2]>);

impl Places {
    fn counts(&self) -> [usize; 2] {
        [0, 1].map(|it| self.0[it].load(SeqCst))
    }
}

#[async_trait]
impl IsolateAgents for Places {
    async fn enter(
        &self,
        _: &AgentDefinition,
        _: &ToolCx<'_>,
    ) -> Result<Box<dyn IsolatedPlace>, BoxError> {
        self.0[0].fetch_add(1, SeqCst);
        yield_times(20).await;
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl IsolatedPlace for Places {
    fn capabilities(&self) -> Vec<Arc<dyn Capability>> {
        Vec::new()
    }

    fn describe(&self) -> String {
        "[You work elsewhere.]".to_owned()
    }

    async fn leave(self: Box<Self>) -> Option<String> {
        self.0[1].fetch_add(1, SeqCst);
        None
    }
}

#[tokio::test]
async fn a_sub_agent_that_cannot_start_leaves_its_place() {
    for background in [false, true] {
        let places = Places::default();
        let isolation = Some(AgentIsolation::Worktree);
        let isolated = AgentDefinition { background, isolation, ..helper() };
        let subagents = UseSubagents::for_depth(0, agents([isolated]));
        let subagents = subagents.with_isolation(Arc::new(places.clone()));
        let model = FakeModel::script([ScenarioStep::tool_calls([ask("helper")]), "done".into()]);
        agent(model, subagents).execute(AgentState::new().with_user_message("go")).await;
        assert_eq!(places.counts(), [1, 1], "background: {background}");
    }
}

/// A model that never answers a sub-agent.
struct Unanswered(FakeModel);

#[async_trait]
impl ChatModel for Unanswered {
    async fn infer(
        &self,
        request: &InferenceRequest,
        cx: InferCx<'_>,
    ) -> Result<InferenceResponse, ModelError> {
        if request.system.as_deref() == Some("You help.") {
            return FakeModel::pending().infer(request, cx).await;
        }
        self.0.infer(request, cx).await
    }
}

#[tokio::test]
async fn a_sub_agent_in_the_background_that_is_one_too_many_leaves_its_place() {
    let (places, tasks) = (Places::default(), BackgroundTasks::default());
    let isolation = Some(AgentIsolation::Worktree);
    let isolated = AgentDefinition { background: true, isolation, ..helper() };
    let subagents = UseSubagents::new(agents([isolated])).with_background_tasks(tasks.clone());
    let subagents = subagents.with_isolation(Arc::new(places.clone()));
    let model = FakeModel::from_fn(|request| {
        let step = if request.prompt.turns.len() == 1 {
            ScenarioStep::tool_calls([(); 9].map(|()| ask("helper")))
        } else {
            ScenarioStep::final_answer("done")
        };
        step.to_response()
    });
    let agent = agent(Unanswered(model), subagents);
    // There is room for each of them until the first one has entered its place.
    let state = agent.execute(AgentState::new().with_user_message("go")).await;
    while !tasks.list().is_empty() {
        tokio::task::yield_now().await;
    }
    let results = tool_results(&state);
    let begun = results.iter().filter(|it| it.starts_with("Sub-agent ")).count();
    assert_eq!((begun, places.counts()), (8, [9, 9]), "{results:?}");
}
