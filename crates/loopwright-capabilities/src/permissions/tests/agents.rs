//! Rules for agents and skills, about everything that starts an agent.

use std::collections::HashSet;
use std::fs;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

use loopwright_agent::{
    AgentBuilder, AgentDefinition, DefinitionError, DefinitionRegistry, Definitions, UseTools,
};
use loopwright_core::{ApprovalDecision, ExecutionStatus};
use loopwright_permissions::{Decision, Mode, Policy};
use loopwright_testing::{FakeModel, MockTool, ScenarioStep};
use serde_json::{Value, json};

use super::{execute, run, using};
use crate::llm::UseLlm;
use crate::permissions::{Permissions, UsePermissions};
use crate::skills::{Skill, SkillContext, SkillInfo, SkillLibrary, UseSkills};
use crate::subagents::UseSubagents;

fn forking(name: &str, agent: Option<&str>) -> Skill {
    let info = SkillInfo {
        context: SkillContext::Fork,
        agent: agent.map(str::to_owned),
        ..SkillInfo::new(name, "A skill.")
    };
    Skill::new(info, "Do it.")
}

fn library() -> SkillLibrary {
    SkillLibrary::default()
        .with(forking("apart", None))
        .with(forking("ship", Some("deployer")))
        .with(Skill::new(SkillInfo::new("keys", "A skill."), "Know the keys."))
}

fn agents() -> DefinitionRegistry {
    let mut agents = DefinitionRegistry::new();
    let mut deployer = AgentDefinition::new("deployer", "Ships.", "You ship.");
    deployer.skills = ["keys"].into_iter().collect();
    agents.register(deployer);
    agents
}

fn builder(steps: Vec<ScenarioStep>, rules: &[(Decision, &str)]) -> (AgentBuilder, FakeModel) {
    let model = FakeModel::script(steps);
    let builder = AgentBuilder::base().with(UseLlm::from_model(model.clone()));
    (builder.with(using(Mode::Auto, rules)), model)
}

fn calling(tool: &str, arguments: Value) -> Vec<ScenarioStep> {
    vec![ScenarioStep::tool_call(tool, arguments), "worked".into(), "done".into()]
}

/// The result of a call, or the question about it, and the requests to the model.
fn ended(tool: &str, arguments: Value, rules: &[(Decision, &str)]) -> (String, usize) {
    let (builder, model) = builder(calling(tool, arguments), rules);
    let subagents = UseSubagents::new(agents()).with_skills(library());
    let skills = UseSkills::new(library()).with_agents(agents());
    let agent = builder.with(subagents).with(skills).build().unwrap();
    let state = run(&agent);
    let told = match state.pending().first() {
        Some(asked) => asked.question.text.clone(),
        None => state.tool_calls().next().map(|(_, it)| it.to_text()).unwrap_or_default(),
    };
    (told, model.requests().len())
}

fn load(skill: &str) -> (&'static str, Value) {
    ("load_skill", json!({ "skill_name": skill }))
}

#[test]
fn rules_decide_about_an_agent_and_its_skills_in_the_same_way_however_it_is_started() {
    let spawn = ("spawn_subagent", json!({ "subagent": "deployer", "prompt": "Ship." }));
    let blocked = |part: &str, rule: &str| {
        format!(
            "Blocked: not permitted ({part}rule `{rule}` of config.toml:1); continue without it"
        )
    };
    let question = |part: &str, rule: &str| format!("{part}rule `{rule}` of config.toml:1");
    let (agent, keys) = ("the agent `deployer`: ", "the skill `keys`: ");
    let (deny, ask) = (Decision::Deny, Decision::Ask);
    let cases = [
        (load("ship"), (deny, "Agent(deployer)"), blocked(agent, "Agent(deployer)")),
        (spawn.clone(), (deny, "Agent(deployer)"), blocked("", "Agent(deployer)")),
        (load("ship"), (ask, "Agent(deployer)"), question(agent, "Agent(deployer)")),
        (spawn.clone(), (ask, "Agent(deployer)"), question("", "Agent(deployer)")),
        (load("ship"), (deny, "Skill(keys)"), blocked(keys, "Skill(keys)")),
        (spawn.clone(), (deny, "Skill(keys)"), blocked(keys, "Skill(keys)")),
        (load("ship"), (ask, "Skill(keys)"), question(keys, "Skill(keys)")),
        (spawn.clone(), (ask, "Skill(keys)"), question(keys, "Skill(keys)")),
        (
            load("apart"),
            (deny, "Agent(general-purpose)"),
            blocked("the agent `general-purpose`: ", "Agent(general-purpose)"),
        ),
    ];
    for ((tool, arguments), rule, expect) in cases {
        let requests = if rule.0 == deny { 2 } else { 1 };
        assert_eq!(ended(tool, arguments.clone(), &[rule]), (expect, requests), "{rule:?}");
        assert_eq!(ended(tool, arguments, &[]).1, 3, "it starts without the rule");
    }
}

#[test]
fn a_skill_starts_the_agent_that_was_decided_about() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("ship/SKILL.md");
    let file = |agent: &str| {
        let front = format!("name: ship\ndescription: D.\ncontext: fork\nagent: {agent}");
        format!("---\n{front}\n---\nShip.")
    };
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, file("reader")).unwrap();
    let (changed, other) = (path.clone(), file("deployer"));
    let edit = MockTool::new("edit", "", move |_| fs::write(&changed, &other).map(|()| "edited"));
    let calls = [("edit", json!({})), load("ship")];
    let steps = vec![ScenarioStep::tool_calls(calls), "done".into()];
    let rules = [(Decision::Deny, "Agent(deployer)"), (Decision::Allow, "edit")];
    let (builder, model) = builder(steps, &rules);
    let mut agents = agents();
    agents.register(AgentDefinition::new("reader", "Reads.", "You read."));
    let skills = UseSkills::in_dir(root.path()).with_agents(agents);
    let builder = builder.with(UseTools::new().with_tool(edit)).with(skills);
    let state = run(&builder.build().unwrap());
    let told: Vec<String> = state.tool_calls().map(|(_, result)| result.to_text()).collect();
    let expect =
        "Error: the skill `ship` changed while the call waited for a decision; load it again";
    assert_eq!((told, model.requests().len()), (vec!["edited".to_owned(), expect.to_owned()], 2));
}

#[test]
fn an_approved_agent_of_a_skill_starts() {
    let (builder, model) =
        builder(calling("load_skill", load("ship").1), &[(Decision::Ask, "Agent(deployer)")]);
    let agent = builder.with(UseSkills::new(library()).with_agents(agents())).build().unwrap();
    let paused = run(&agent);
    assert_eq!(paused.status(), &ExecutionStatus::Paused);
    let done = execute(&agent, paused.decide(0, ApprovalDecision::Approve));
    let told: Vec<String> = done.tool_calls().map(|(_, result)| result.to_text()).collect();
    assert_eq!((told, done.text()), (vec!["worked".to_owned()], "done".to_owned()));
    assert!(model.requests()[1].system.as_deref().unwrap().contains("Know the keys."));
}

#[test]
fn a_file_of_a_skill_that_a_rule_denies_is_not_shown() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("api/references");
    fs::create_dir_all(&folder).unwrap();
    fs::write(root.path().join("api/SKILL.md"), "---\nname: api\ndescription: D.\n---\nGo.")
        .unwrap();
    for name in ["open.md", "keys.md"] {
        fs::write(folder.join(name), "sesame").unwrap();
    }
    let shown = |file: &str| {
        let rules = [(Decision::Deny, "Read(keys.md)")];
        let source = super::source(&rules);
        let policy = Policy::builder(root.path().to_str().unwrap()).source(source).build();
        let permissions = Permissions::new(policy);
        let skills = UseSkills::in_dir(root.path()).with_access(Arc::new(permissions.clone()));
        let arguments = json!({ "skill_name": "api", "resource": file });
        let model =
            FakeModel::script([ScenarioStep::tool_call("load_skill", arguments), "done".into()]);
        let agent = AgentBuilder::base()
            .with(UseLlm::from_model(model))
            .with(skills)
            .with(UsePermissions::new(permissions))
            .build()
            .unwrap();
        let state = run(&agent);
        let told =
            state.tool_calls().next().map(|(_, result)| result.to_text()).unwrap_or_default();
        (told.contains("sesame"), told.contains("rule `Read(keys.md)` of config.toml:1"))
    };
    assert_eq!(shown("references/open.md"), (true, false));
    assert_eq!(shown("references/keys.md"), (false, true));
}

/// Agents that remember the threads on which they were looked up.
#[derive(Clone, Default)]
struct Watched(Arc<Mutex<HashSet<ThreadId>>>);

impl Definitions for Watched {
    fn get(&self, name: &str) -> Result<Arc<AgentDefinition>, DefinitionError> {
        self.0.lock().unwrap().insert(thread::current().id());
        agents().get(name)
    }

    fn names(&self) -> Vec<String> {
        agents().names()
    }
}

#[test]
fn the_agent_of_a_skill_is_not_looked_up_on_the_thread_that_runs_agents() {
    let watched = Watched::default();
    let skills = UseSkills::new(library()).with_agents(watched.clone());
    let agent = AgentBuilder::base()
        .with(UseLlm::from_model(FakeModel::echo()))
        .with(skills)
        .build()
        .unwrap();
    let tool = agent.tools().get("load_skill").unwrap();
    let arguments = load("ship").1;
    let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let started = tokio.block_on(tool.starts(&arguments)).unwrap();
    assert_eq!((&*started.name, started.skills.len()), ("deployer", 1));
    let threads = watched.0.lock().unwrap().clone();
    assert!(!threads.is_empty() && !threads.contains(&thread::current().id()), "{threads:?}");
}
