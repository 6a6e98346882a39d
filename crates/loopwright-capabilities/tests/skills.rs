//! Skills in an agent.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use loopwright_agent::{
    AgentBuilder, AgentDefinition, AllSections, CapabilityRegistry,
    ConversationWithCurrentToolTrace, DefinitionRegistry, StateFactory as _, UseContextCompiler,
    UseLlmConfig, UseTools,
};
use loopwright_capabilities::permissions::{Permissions, UsePermissions};
use loopwright_capabilities::skills::{
    ACTIVE, Skill, SkillContext, SkillGrants, SkillInfo, SkillLibrary, SkillPolicy,
    SkillStateFactory, ToolRule, UseSkills,
};
use loopwright_capabilities::tasks::UseTaskPlanning;
use loopwright_core::{
    AgentLoop, AgentState, ApprovalDecision, ChatModel, ContextCompiler, LlmConfig, ModelError,
    ModelErrorKind, ModelProvider, OnAsk, ToolOutput, ToolPause,
    events::PromptCacheBroken,
    messages::{CacheBreak, InferenceRequest, ToolResult, TurnBody},
};
use loopwright_permissions::{Mode, Policy, Source, SourceKind};
use loopwright_testing::{EventRecorder, FakeModel, MockTool, ScenarioStep};
use serde_json::json;

use crate::support::told;

fn skill(name: &str, change: impl FnOnce(&mut SkillInfo)) -> Skill {
    let mut info = SkillInfo::new(name, format!("Skill {name}"));
    change(&mut info);
    Skill::new(info, format!("Do {name}: $ARGUMENTS"))
}

fn reading(info: &mut SkillInfo) {
    info.allowed_tools = vec![ToolRule::new("Read"), ToolRule::new("Bash(git:*)")];
}

fn library() -> SkillLibrary {
    SkillLibrary::default()
        .with(skill("review", reading))
        .with(skill("plain", |_| ()))
        .with(skill("cheap", |info| info.model = Some("small".into())))
        .with(skill("hidden", |info| info.model_invocable = false))
        .with(skill("apart", |info| info.context = SkillContext::Fork))
        .with(skill("checked", |info| {
            reading(info);
            info.context = SkillContext::Fork;
            info.agent = Some("reader".into());
            info.model = Some("small".into());
        }))
}

fn load(name: &str) -> (&'static str, serde_json::Value) {
    ("load_skill", json!({ "skill_name": name, "arguments": "it" }))
}

fn call(tool: &'static str) -> (&'static str, serde_json::Value) {
    (tool, json!({}))
}

fn run(command: &str) -> (&'static str, serde_json::Value) {
    ("bash", json!({ "command": command }))
}

const DONE: &str = "{\"done\": true}";

fn done() -> (&'static str, serde_json::Value) {
    ("load_skill", serde_json::from_str(DONE).unwrap())
}

fn script(calls: &[(&str, serde_json::Value)]) -> FakeModel {
    let steps = calls.iter().map(|(tool, args)| ScenarioStep::tool_call(*tool, args.clone()));
    let steps: Vec<ScenarioStep> = steps.chain(["done".into()]).collect();
    FakeModel::script(steps)
}

fn agent_with(model: &FakeModel, skills: UseSkills) -> AgentLoop {
    let tools = ["read_file", "write_file", "bash"];
    let tools = tools.map(|name| MockTool::returning(name, "", format!("{name} did")));
    AgentBuilder::base()
        .with_capability(UseLlmConfig::model(model.clone()))
        .with_capability(tools.into_iter().fold(UseTools::new(), UseTools::with_tool))
        .with_capability(skills)
        .build()
        .unwrap()
}

fn agent(model: &FakeModel) -> AgentLoop {
    agent_with(model, UseSkills::new(library()))
}

fn start() -> AgentState {
    AgentState::new().with_user_message("go")
}

fn models(requests: &[InferenceRequest]) -> Vec<Option<&str>> {
    requests.iter().map(|it| it.model.as_deref()).collect()
}

fn tools(request: &InferenceRequest) -> Vec<&str> {
    request.tools.iter().map(|it| &*it.name).collect()
}

#[tokio::test]
async fn the_list_of_skills_is_in_the_instructions_and_not_in_the_history() {
    let model = FakeModel::script(["ok"]);
    let state = agent(&model).execute(start()).await;
    let system = model.requests()[0].system.clone().unwrap();
    assert!(system.contains("- [plain]: Skill plain"), "{system}");
    assert!(system.contains("- [review]: Skill review\n"), "{system}");
    assert!(!system.contains("hidden"), "{system}");
    assert_eq!(state.transcript().len(), 2);
    let none = FakeModel::script(["ok"]);
    agent_with(&none, UseSkills::new(SkillLibrary::default())).execute(start()).await;
    assert_eq!(none.requests()[0].system, None);
}

#[tokio::test]
async fn a_skill_is_listed_loaded_and_filled_in() {
    let list = ("load_skill", json!({ "list_skills": true, "skill_name": "plain" }));
    let model = script(&[list, load("hidden"), load("nothing")]);
    let state = agent(&model).execute(start()).await;
    let told = told(&state);
    assert!(told[0].starts_with("Available skills:\n- [review]: Skill review\n"), "{}", told[0]);
    assert!(!told[0].contains("hidden"));
    assert_eq!(told[1], "<skill_content name=\"hidden\">\nDo hidden: it\n</skill_content>");
    assert_eq!(
        told[2],
        "Error: unknown skill `nothing`; available: review, plain, cheap, apart, checked"
    );
}

#[tokio::test]
async fn a_skills_allowed_tools_forbid_no_others() {
    let model = script(&[
        load("review"),
        call("write_file"),
        load("nothing"),
        run("git log; rm x"),
        done(),
        call("write_file"),
    ]);
    let state = agent(&model).execute(start()).await;
    let told = told(&state);
    assert_eq!((told[1].as_str(), told[3].as_str()), ("write_file did", "bash did"));
    assert_eq!(told[4], "The skill `review` is no longer active.");
    assert_eq!(told[5], "write_file did");
    assert_eq!(state.get(&ACTIVE), None);
}

#[tokio::test]
async fn another_skill_and_the_next_execution_end_a_skill() {
    let model = script(&[load("review"), load("plain")]);
    let state = agent(&model).execute(start()).await;
    assert_eq!(state.get(&ACTIVE).map(|it| it.name), Some("plain".to_owned()));
    let model = script(&[]);
    let agent = agent_with(&model, UseSkills::new(library()));
    let next = agent.execute(state.with_user_message("more")).await;
    assert_eq!(next.get(&ACTIVE), None);
}

/// Runs calls under rules that ask about all calls and deny some, with what the skills of the library allow.
async fn decided(calls: &[(&str, serde_json::Value)]) -> Vec<String> {
    let deny = Source::new(SourceKind::User, "rules", "/").deny("Bash(git push *)", 1);
    let policy = Policy::builder("/work").mode(Mode::Ask).source(deny).build();
    let grants = SkillGrants::of(&library(), "/work");
    let rules = UsePermissions::new(Permissions::new(policy))
        .with_on_ask(OnAsk::Deny)
        .with_grants(move |state| grants.active(state));
    let tools = ["write_file", "bash"];
    let tools = tools.map(|name| MockTool::returning(name, "", format!("{name} did")));
    let agent = AgentBuilder::base()
        .with_capability(UseLlmConfig::model(script(calls)))
        .with_capability(tools.into_iter().fold(UseTools::new(), UseTools::with_tool))
        .with_capability(UseSkills::new(library()))
        .with_capability(rules)
        .build()
        .unwrap();
    told(&agent.execute(start()).await)
}

#[tokio::test]
async fn calls_that_an_active_skill_lists_run_without_approval_unless_a_rule_denies_them() {
    let told = decided(&[
        run("git log"),
        load("review"),
        run("git log"),
        run("git push origin"),
        run("make"),
        done(),
        run("git log"),
    ])
    .await;
    let asked = "Blocked: not permitted without approval (";
    assert!(told[0].starts_with(asked), "{told:#?}");
    assert_eq!(told[2], "bash did");
    assert!(told[3].starts_with("Blocked: not permitted (rule `Bash(git push *)`"), "{told:#?}");
    assert!(told[4].starts_with(asked) && told[6].starts_with(asked), "{told:#?}");
}

/// What the last request said at its end.
fn tail(model: &FakeModel) -> Vec<String> {
    let request = model.requests().pop().unwrap();
    request.prompt.tail.iter().map(loopwright_core::messages::Message::text).collect()
}

/// Runs turns under a compiler that may hide what earlier ones did.
async fn after_loading(
    compiler: impl ContextCompiler + Clone + 'static,
    turns: &[FakeModel],
) -> AgentState {
    turns_with(compiler, &library(), turns).await
}

async fn turns_with(
    compiler: impl ContextCompiler + Clone + 'static,
    library: &SkillLibrary,
    turns: &[FakeModel],
) -> AgentState {
    let mut state = AgentState::new();
    for model in turns {
        let agent = AgentBuilder::base()
            .with_capability(UseLlmConfig::model(model.clone()))
            .with_capability(UseContextCompiler::new(compiler.clone()))
            .with_capability(UseSkills::new(library.clone()))
            .build()
            .unwrap();
        state = agent.execute(state.with_user_message("go")).await;
    }
    state
}

#[tokio::test]
async fn instructions_of_a_skill_are_in_the_requests_of_later_turns() {
    let turns = || [script(&[load("review")]), script(&[load("plain")]), script(&[])];
    let hiding = turns();
    after_loading(ConversationWithCurrentToolTrace, &hiding).await;
    let skill = |name| format!("<skill_content name=\"{name}\">\nDo {name}: it\n</skill_content>");
    let expect = format!(
        "[skills] Loaded earlier in this conversation and still in force:\n{}\n\n{}",
        skill("review"),
        skill("plain")
    );
    assert_eq!(tail(&hiding[2]), [expect]);
    // Nothing is repeated where the conversation shows it.
    let showing = turns();
    after_loading(AllSections, &showing).await;
    assert_eq!((tail(&showing[0]), tail(&showing[2])), (Vec::new(), Vec::new()));
}

#[tokio::test]
async fn instructions_of_a_skill_end_when_it_is_done() {
    let turns = [script(&[load("review"), done()]), script(&[])];
    after_loading(ConversationWithCurrentToolTrace, &turns).await;
    assert_eq!(tail(&turns[1]), [""; 0]);
    // It is no longer active in the next turn, and can still be ended.
    let turns = [script(&[load("review")]), script(&[done()]), script(&[])];
    let state = after_loading(ConversationWithCurrentToolTrace, &turns).await;
    assert_eq!(tail(&turns[2]), [""; 0]);
    assert_eq!(state.get(&ACTIVE), None);
}

#[tokio::test]
async fn two_skills_that_are_loaded_at_once_are_both_followed() {
    let both = ScenarioStep::tool_calls([load("review"), load("plain")]);
    let turns = [FakeModel::script([both, "done".into()]), script(&[])];
    after_loading(ConversationWithCurrentToolTrace, &turns).await;
    let [tail] = &tail(&turns[1])[..] else { panic!() };
    assert!(tail.contains("Do review: it") && tail.contains("Do plain: it"), "{tail}");
}

#[tokio::test]
async fn instructions_that_are_too_long_to_be_repeated_are_named() {
    let long = |name: &str, size: usize| {
        Skill::new(SkillInfo::new(name, "d"), format!("{name} {}", "x".repeat(size)))
    };
    let library = SkillLibrary::default()
        .with(long("first", 9000))
        .with(long("second", 9000))
        .with(long("third", 20));
    let turns = [script(&[load("first"), load("second"), load("third")]), script(&[])];
    turns_with(ConversationWithCurrentToolTrace, &library, &turns).await;
    let [tail] = &tail(&turns[1])[..] else { panic!() };
    let has = ["first xx", "second xx", "third xx"].map(|it| tail.contains(it));
    assert_eq!(has, [false, true, true], "{}", tail.len());
    assert!(tail.ends_with("load them again when you need them: `first`"), "{tail}");
}

#[tokio::test]
async fn a_model_name_of_another_program_changes_nothing() {
    for name in ["sonnet", "opus[1m]", "inherit"] {
        let library = SkillLibrary::default()
            .with(skill("foreign", |info| info.model = Some(name.to_owned())));
        let model = script(&[load("foreign")]);
        agent_with(&model, UseSkills::new(library)).execute(start()).await;
        assert_eq!(models(&model.requests()), [None, None], "{name}");
    }
}

#[tokio::test]
async fn a_model_that_no_provider_has_does_not_end_the_run() {
    #[derive(Debug)]
    struct OnlyOne(FakeModel);

    impl ModelProvider for OnlyOne {
        fn resolve(&self, llm: Option<&LlmConfig>) -> Result<Arc<dyn ChatModel>, ModelError> {
            match llm.and_then(|it| it.model.as_deref()) {
                None => Ok(Arc::new(self.0.clone())),
                Some(_) => Err(ModelError::new(ModelErrorKind::NoModel, "no such model")),
            }
        }
    }

    let model = script(&[load("cheap")]);
    let agent = AgentBuilder::base()
        .with_capability(UseLlmConfig::from_models(Arc::new(OnlyOne(model.clone()))))
        .with_capability(UseSkills::new(library()))
        .build()
        .unwrap();
    let state = agent.execute(start()).await;
    assert_eq!((state.text().as_str(), models(&model.requests())), ("done", vec![None, None]));
    let [told] = &told(&state)[..] else { panic!() };
    assert!(
        told.ends_with("[The model `small` of the skill is not available: no such model.]"),
        "{told}"
    );
}

#[tokio::test]
async fn a_skill_is_carried_out_by_the_agent_that_it_names() {
    let by = |agent: &str| {
        SkillLibrary::default().with(skill("brief", |_| ())).with(skill("checked", |info| {
            info.context = SkillContext::Fork;
            info.agent = Some(agent.to_owned());
        }))
    };
    let run = async |agent: &str| {
        let steps = [ScenarioStep::tool_calls([load("checked")]), "ok".into(), "done".into()];
        let model = FakeModel::script(steps);
        let mut reader = AgentDefinition::new("reader", "Reads.", "You read.");
        reader.tools = Some(["read_file", "todo_write"].into_iter().collect());
        reader.capabilities = ["use_task_planning"].into_iter().collect();
        reader.skills = ["brief"].into_iter().collect();
        let mut agents = DefinitionRegistry::new();
        agents.register(reader);
        let mut registry = CapabilityRegistry::new();
        registry.register("use_task_planning", UseTaskPlanning::default());
        let skills =
            UseSkills::new(by(agent)).with_agents(agents).with_capabilities(Arc::new(registry));
        agent_with(&model, skills).execute(start()).await;
        model.requests()[1].clone()
    };
    let request = run("reader").await;
    assert_eq!(tools(&request), ["read_file", "todo_write"]);
    let system = request.system.as_deref().unwrap();
    assert!(system.starts_with("You read.\n\n<skill_content name=\"brief\">"), "{system}");
    // Another program's name for an agent without a definition.
    let request = run("general-purpose").await;
    assert_eq!(
        (tools(&request), &request.system),
        (vec!["read_file", "write_file", "bash"], &None)
    );
    // Its names for agents that only read.
    for agent in ["Explore", "Plan"] {
        let request = run(agent).await;
        assert_eq!((tools(&request), &request.system), (vec!["read_file"], &None));
    }
}

#[tokio::test]
async fn a_forked_skills_request_is_decided_at_the_root() {
    for agent in [None, Some("reader")] {
        let apart = skill("apart", |info| {
            info.context = SkillContext::Fork;
            info.agent = agent.map(str::to_owned);
        });
        let mut agents = DefinitionRegistry::new();
        agents.register(AgentDefinition::new("reader", "Reads.", "You read."));
        let skills = UseSkills::new(SkillLibrary::default().with(apart)).with_agents(agents);
        let ask = MockTool::with_cx("ask", "", |_, cx| {
            let answer = cx.answer().cloned();
            Box::pin(async move {
                match answer {
                    None => Err(ToolPause::ask("Which color?").into()),
                    Some(answer) => Ok(ToolOutput::json(answer)),
                }
            })
        });
        let steps = [
            ScenarioStep::tool_calls([load("apart")]),
            ScenarioStep::tool_calls([call("ask")]),
            "it is red".into(),
            "done".into(),
        ];
        let model = FakeModel::script(steps);
        let agent = agent_with(&model, skills);
        let agent = agent.with_tools(agent.tools().clone().with(ask.clone()));
        let paused = agent.execute(start()).await;
        let pending = paused.pending();
        let [asked] = &pending[..] else { panic!("{:?}", told(&paused)) };
        assert_eq!((&*asked.path[0].agent, asked.address()), ("skill:apart", vec![0, 0]));
        let reply = ApprovalDecision::Reply(json!("red"));
        let done = agent.execute(agent.decide(&paused, &[0, 0], reply).unwrap()).await;
        assert_eq!((done.text().as_str(), told(&done)), ("done", vec!["it is red".to_owned()]));
        assert_eq!((ask.keys().len(), model.asked()), (2, 4));
    }
}

#[test]
fn a_file_that_asks_for_what_does_not_count_is_told_so() {
    let text = "---\nname: a\ndescription: d\nmodel: sonnet\nagent: reader\n---\nDo it.";
    let (_, problems) = Skill::parse("a", text).unwrap();
    let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].starts_with("`model` does not select a model: `sonnet`"), "{told:?}");
    assert!(told[1].starts_with("`agent` is ignored:"), "{told:?}");
}

#[tokio::test]
async fn a_skills_model_works_while_it_is_active() {
    let calls = [load("cheap"), call("read_file"), done(), call("read_file")];
    let model = script(&calls);
    let events = EventRecorder::new();
    let agent = agent(&model).with_event_sink(events.sink());
    let big = LlmConfig::named("big");
    let state = agent.execute(start().with_llm(big.clone())).await;
    let requests = model.requests();
    let expect = ["big", "small", "small", "big", "big"].map(Some);
    assert_eq!(models(&requests), expect);
    assert_eq!(state.llm(), Some(&big), "nothing has to be put back");
    let broken: Vec<_> =
        events.events_of::<PromptCacheBroken>().into_iter().map(|it| it.cause).collect();
    assert_eq!(broken, [CacheBreak::ModelChanged, CacheBreak::ModelChanged]);
}

#[tokio::test]
async fn names_of_models_stand_for_what_the_policy_says() {
    for (stands_for, expect) in [("inherit", None), ("tiny", Some("tiny"))] {
        let models_of = [("small".to_owned(), stands_for.to_owned())].into();
        let policy = SkillPolicy { models: models_of, ..SkillPolicy::default() };
        let model = script(&[load("cheap")]);
        agent_with(&model, UseSkills::new(library()).with_policy(policy)).execute(start()).await;
        assert_eq!(models(&model.requests()), [None, expect]);
    }
}

#[tokio::test]
async fn a_skill_can_work_in_a_conversation_of_its_own() {
    let steps = [
        ScenarioStep::tool_call("load_skill", load("apart").1),
        "found".into(),
        ScenarioStep::tool_call("write_file", json!({})),
        "done".into(),
    ];
    let model = FakeModel::script(steps);
    let state = agent(&model).execute(start()).await;
    let requests = model.requests();
    assert_eq!(told(&state), ["found", "write_file did"]);
    assert_eq!(state.get(&ACTIVE), None);
    let child = &requests[1];
    assert_eq!(tools(child), ["read_file", "write_file", "bash"]);
    let texts: Vec<String> = child.prompt.turns.iter().map(|it| it.message().text()).collect();
    assert_eq!((texts, &child.system), (vec!["Do apart: it".to_owned()], &None));
}

#[tokio::test]
async fn a_skills_allowed_tools_forbid_no_others_in_its_fork() {
    let steps = [
        ScenarioStep::tool_call("load_skill", load("checked").1),
        ScenarioStep::tool_calls([run("git log"), run("rm x"), call("write_file")]),
        "looked".into(),
        "done".into(),
    ];
    let model = FakeModel::script(steps);
    let mut agents = DefinitionRegistry::new();
    agents.register(AgentDefinition::new("reader", "Reads.", "You read."));
    let skills = UseSkills::new(library()).with_agents(agents);
    let state = agent_with(&model, skills).execute(start()).await;
    assert_eq!(told(&state), ["looked"]);
    let requests = model.requests();
    assert_eq!(tools(&requests[1]), ["read_file", "write_file", "bash"]);
    assert_eq!(requests[1].system.as_deref(), Some("You read."));
    assert_eq!(models(&requests), [None, Some("small"), Some("small"), None]);
    let exchanges = requests[2].prompt.turns.iter().filter_map(|turn| match turn.body() {
        TurnBody::ToolExchange(exchange) => Some(exchange.results()),
        _ => None,
    });
    let results: Vec<String> = exchanges.flatten().map(ToolResult::to_text).collect();
    assert_eq!(results, ["bash did", "bash did", "write_file did"]);
}

#[tokio::test]
async fn an_agent_that_is_not_known_is_an_error_that_names_those_that_are() {
    let model = script(&[load("checked")]);
    let mut agents = DefinitionRegistry::new();
    agents.register(AgentDefinition::new("other", "d", "p"));
    let skills = UseSkills::new(library()).with_agents(agents);
    let state = agent_with(&model, skills).execute(start()).await;
    assert_eq!(told(&state), ["Error: unknown agent `reader`; available: other"]);
}

#[tokio::test]
async fn a_skill_that_works_by_itself_has_all_tools_while_another_one_is_active() {
    let steps = [
        ScenarioStep::tool_call("load_skill", load("review").1),
        ScenarioStep::tool_call("load_skill", load("apart").1),
        "found".into(),
        ScenarioStep::tool_call("write_file", json!({})),
        "done".into(),
    ];
    let model = FakeModel::script(steps);
    let state = agent(&model).execute(start()).await;
    assert_eq!(tools(&model.requests()[2]), ["read_file", "write_file", "bash"]);
    assert_eq!(state.get(&ACTIVE).map(|it| it.name), Some("review".to_owned()));
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[tokio::test]
async fn files_of_a_skill_are_shown_and_no_others() {
    let home = tempfile::tempdir().unwrap();
    write(home.path(), "skills/api/SKILL.md", "---\nname: api\ndescription: d\n---\nRead.");
    write(home.path(), "skills/api/references/api.md", "one\n");
    write(home.path(), "secret", "sesame");
    let show = |path: &str| ("load_skill", json!({ "skill_name": "api", "resource": path }));
    let model = script(&[show("references/api.md"), show("../../secret"), show("no")]);
    let skills = UseSkills::in_dir(home.path().join("skills"));
    let state = agent_with(&model, skills).execute(start()).await;
    let told = told(&state);
    assert!(told[0].contains("one"), "{}", told[0]);
    assert!(told[1].starts_with("Error: ") && !told[1].contains("sesame"), "{}", told[1]);
    assert!(told[2].starts_with("Error: "), "{}", told[2]);
    assert_eq!(state.get(&ACTIVE), None, "looking at a file loads nothing");
}

#[tokio::test]
async fn commands_in_a_skill_stay_text_unless_they_are_to_be_run() {
    use loopwright_capabilities::skills::SkillShell;
    use loopwright_sandbox::{FakeSandbox, Output};

    let library = || {
        let info = SkillInfo::new("status", "d");
        SkillLibrary::default().with(Skill::new(info, "Now: !`git status`"))
    };
    let sandbox = std::sync::Arc::new(FakeSandbox::new().otherwise(Output::exited(0, "clean", "")));
    let shell = SkillShell::in_dir("/srv").with_sandbox(sandbox);
    for (skills, expect) in [
        (UseSkills::new(library()), "Now: !`git status`"),
        (UseSkills::new(library()).with_shell(shell), "Now: clean"),
    ] {
        let model = script(&[("load_skill", json!({ "skill_name": "status" }))]);
        let state = agent_with(&model, skills).execute(start()).await;
        assert!(told(&state)[0].contains(expect), "{}", told(&state)[0]);
    }
}

#[tokio::test]
async fn a_definitions_skills_are_part_of_its_instructions() {
    let mut definition = AgentDefinition::new("a", "d", "You work.");
    definition.skills = ["plain", "missing"].into_iter().collect();
    let states = SkillStateFactory::new(library());
    let model = FakeModel::script(["ok"]);
    let agent =
        AgentBuilder::base().with_capability(UseLlmConfig::model(model.clone())).build().unwrap();
    agent.execute(states.instantiate(&definition, start())).await;
    let expect = "You work.\n\n<skill_content name=\"plain\">\nDo plain:\n</skill_content>";
    assert_eq!(model.requests()[0].system.as_deref(), Some(expect));
}
