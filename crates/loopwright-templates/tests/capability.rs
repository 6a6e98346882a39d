//! Agents that read and write definitions.

use std::borrow::Cow;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use loopwright_agent::{
    AgentBuilder, AgentDefinition, BuildError, Capability, CapabilityRegistry, Configurator,
    Definitions as _, NameList, UseLlmConfig, UseTools,
};
use loopwright_capabilities::skills::{Skill, SkillInfo, SkillLibrary};
use loopwright_core::{AgentState, LlmConfig, Step};
use loopwright_templates::{
    AgentDefinitionRegistry, DefinitionValidator, FileDefinitionStore, InvalidField, OnExisting,
    UseAgentDefinitions,
};
use loopwright_testing::{FakeModel, MockTool, ScenarioStep};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

async fn told(
    capability: UseAgentDefinitions,
    calls: impl IntoIterator<Item = (&'static str, Value)>,
) -> Vec<String> {
    let steps = calls.into_iter().map(|call| ScenarioStep::tool_calls([call]));
    let steps: Vec<ScenarioStep> = steps.chain([ScenarioStep::final_answer("done")]).collect();
    let agent = AgentBuilder::base()
        .with_capability(UseLlmConfig::model(FakeModel::script(steps)))
        .with_capability(capability)
        .build()
        .unwrap();
    let state = agent.execute(AgentState::new().with_user_message("go")).await;
    let executions = state.steps().flat_map(Step::tool_executions);
    executions.map(|(_, outcome)| outcome.to_result().to_text()).collect()
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| panic!("{text}"))
}

fn agents() -> AgentDefinitionRegistry {
    let agents = AgentDefinitionRegistry::new();
    let mut ada = AgentDefinition::new("ada", "Counts.", "You count.");
    let mut llm = LlmConfig::named("acme/small");
    llm.options.headers.insert("x-api-key".into(), "sk-hidden".into());
    ada.llm = Some(llm);
    ada.tools = Some(NameList::default());
    ada.metadata = Map::from_iter([("apiKey".to_owned(), json!("sk-hidden"))]);
    agents.register(ada);
    agents
}

#[tokio::test]
async fn agents_are_listed_and_shown_without_secrets() {
    let calls = [
        ("list_agents", json!({})),
        ("read_agent", json!({ "name": "ada" })),
        ("read_agent", json!({ "name": "bob" })),
        ("write_agent", json!({})),
    ];
    let told = told(UseAgentDefinitions::new(agents()), calls).await;
    let list = json!({
        "success": true, "count": 1, "agents": [{ "name": "ada", "description": "Counts." }],
    });
    assert_eq!(json_of(&told[0]), list);
    let source = "---\nname: ada\ndescription: \"Counts.\"\nllm: acme/small\ntools: []\nmetadata:\n  \
        apiKey: \"(hidden)\"\n---\n\nYou count.\n";
    let source = source.replace("\"Counts.\"", "Counts.");
    assert_eq!(json_of(&told[1]), json!({ "success": true, "name": "ada", "source": source }));
    assert_eq!(told[2], "Error: unknown agent `bob`; available: ada");
    assert!(told[3].starts_with("Error: "), "{}", told[3]);
    assert!(!told.concat().contains("sk-hidden"));
}

#[tokio::test]
async fn a_definition_that_is_written_can_be_used_at_once() {
    let folder = TempDir::new().unwrap();
    let (agents, store) = (agents(), FileDefinitionStore::open(folder.path()).unwrap());
    let bob =
        json!({ "name": "bob", "description": "Adds.", "systemPrompt": "You add.", "tools": [] });
    let calls = || [("write_agent", bob.clone()), ("read_agent", json!({ "name": "bob" }))];
    let capability = || UseAgentDefinitions::new(agents.clone());
    let first = told(capability().with_store(store.clone()), calls()).await;
    let path = store.root().join("bob.md");
    let expect = json!({
        "success": true, "name": "bob", "path": path, "created": true, "replaced": false,
    });
    assert_eq!(json_of(&first[0]), expect);
    // No tools are no tools, on disk and when it is read again.
    let written = fs::read_to_string(&path).unwrap();
    assert_eq!(written, "---\nname: bob\ndescription: Adds.\ntools: []\n---\n\nYou add.\n");
    assert_eq!(json_of(&first[1])["source"], written);
    assert_eq!(agents.get("bob").unwrap().tools, Some(NameList::default()));
    let again = told(capability().with_store(store.clone()), calls()).await;
    let refused = format!("definition already exists: {}", path.display());
    assert_eq!(json_of(&again[0]), json!({ "success": false, "error": refused }));
    let replacing = store.with_existing(OnExisting::Replace);
    let replaced = told(capability().with_store(replacing), calls()).await;
    assert_eq!(json_of(&replaced[0])["replaced"], true);
}

#[tokio::test]
async fn a_definition_that_could_not_be_read_again_leaves_the_one_that_is_there() {
    let folder = TempDir::new().unwrap();
    let store =
        FileDefinitionStore::open(folder.path()).unwrap().with_existing(OnExisting::Replace);
    let bob = json!({ "name": "bob", "description": "Adds.", "systemPrompt": "You add." });
    let mut deep = bob.clone();
    deep["metadata"] = (0..40).fold(json!({}), |value, _| json!({ "k": value }));
    let agents = AgentDefinitionRegistry::new();
    let capability = UseAgentDefinitions::new(agents.clone()).with_store(store.clone());
    let told = told(capability, [("write_agent", bob), ("write_agent", deep)]).await;
    assert_eq!(json_of(&told[0])["success"], true);
    let path = store.root().join("bob.md");
    let error = format!(
        "the definition cannot be written: its content would differ when read back: {}: line 36: invalid YAML: the document is nested \
         more than 32 levels deep",
        path.display()
    );
    assert_eq!(json_of(&told[1]), json!({ "success": false, "error": error }));
    assert_eq!(agents.get("bob").unwrap().metadata, Map::new());
    let written = fs::read_to_string(&path).unwrap();
    assert_eq!(written, "---\nname: bob\ndescription: Adds.\n---\n\nYou add.\n");
}

fn invalid(field: &str, message: &str) -> Value {
    json!({ "field": field, "message": message })
}

const COUNT: &str = "must be a whole number, 0 or more, within the supported range";

#[tokio::test]
async fn an_invalid_definition_is_reported_field_by_field_and_not_written() {
    let folder = TempDir::new().unwrap();
    let review = Skill::new(SkillInfo::new("review", "Reviews."), "Look.");
    let validator = DefinitionValidator::new().with_skills(SkillLibrary::default().with(review));
    let capability = UseAgentDefinitions::new(AgentDefinitionRegistry::new())
        .with_validator(validator)
        .with_store(FileDefinitionStore::open(folder.path()).unwrap());
    let all = json!({
        "name": "bad", "description": " ", "systemPrompt": "", "skills": ["none"],
        "budget": { "maxSteps": -1, "maxCost": -0.5 },
    });
    let names = json!({
        "name": "../bad", "description": "d", "systemPrompt": "p", "capabilities": ["use_magic"],
        "tools": ["a"], "toolsDeny": ["b"],
    });
    let path = json!({ "name": "a", "description": "d", "systemPrompt": "p", "path": "/tmp/x" });
    let calls = [("write_agent", all), ("write_agent", names), ("write_agent", path)];
    let told = told(capability, calls).await;
    let problems = [
        invalid("description", "is missing; add `description:` and state when to use the agent"),
        invalid("systemPrompt", "is missing; add `systemPrompt:` with the agent's instructions"),
        invalid("skills", "unknown skill `none`; available: review"),
        invalid("budget.maxSteps", COUNT),
        invalid("budget.maxCost", "must be a number, 0 or more"),
    ];
    assert_eq!(json_of(&told[0]), json!({ "success": false, "problems": problems }));
    let problems = [
        invalid(
            "name",
            "must be 1 to 64 characters of a-z, 0-9, `-` and `_`, starting with a letter or a digit, not `../bad`",
        ),
        invalid("capabilities", "unknown capability `use_magic`"),
        invalid("tools", "no tools are available"),
        invalid("toolsDeny", "no tools are available"),
    ];
    assert_eq!(json_of(&told[1]), json!({ "success": false, "problems": problems }));
    assert!(told[2].contains("path"), "{}", told[2]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn names_are_checked_against_all_tools_that_the_agent_would_have() {
    let mut capabilities = CapabilityRegistry::new();
    let brought = UseTools::new().with_tool(MockTool::returning("brought", "Is brought.", ""));
    capabilities.register("use_brought", brought);
    let validator = DefinitionValidator::new()
        .with_capabilities(Arc::new(capabilities))
        .with_tools(["own"].into_iter().collect());
    let definition = |capabilities: &[&str], tools: &[&str], deny: &[&str]| AgentDefinition {
        capabilities: capabilities.iter().copied().collect(),
        tools: Some(tools.iter().copied().collect()),
        tools_deny: deny.iter().copied().collect(),
        ..AgentDefinition::new("a", "d", "p")
    };
    let problems = |definition: AgentDefinition| validator.problems(&definition);
    let invalid = |field: &str, message: &str| InvalidField {
        field: field.to_owned(),
        message: message.to_owned(),
    };
    assert_eq!(problems(definition(&["use_brought"], &["own", "brought"], &["brought"])), []);
    let expect = [
        invalid("tools", "unknown tool `brought`; available: own"),
        // Tools of capabilities that are not named may be denied.
        invalid("toolsDeny", "unknown tool `other`; available: own, brought"),
    ];
    assert_eq!(problems(definition(&[], &["own", "brought"], &["other"])), expect);
    let unknown = "unknown capability `use_magic`; available: use_brought";
    assert_eq!(problems(definition(&["use_magic"], &[], &[])), [invalid("capabilities", unknown)]);
}

/// Counts how often it is composed.
struct Counted(Arc<AtomicUsize>);

impl Capability for Counted {
    fn name(&self) -> Cow<'static, str> {
        "use_counted".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        self.0.fetch_add(1, SeqCst);
        UseTools::new()
            .with_tool(MockTool::returning("brought", "Is brought.", ""))
            .configure(agent)
    }
}

#[test]
fn capabilities_are_composed_once_to_know_their_tools() {
    let count = Arc::new(AtomicUsize::new(0));
    let mut capabilities = CapabilityRegistry::new();
    capabilities.register("use_counted", Counted(Arc::clone(&count)));
    let validator = DefinitionValidator::new().with_capabilities(Arc::new(capabilities));
    let mut definition = AgentDefinition {
        capabilities: ["use_counted"].into_iter().collect(),
        ..AgentDefinition::new("a", "d", "p")
    };
    assert_eq!((validator.problems(&definition), count.load(SeqCst)), (vec![], 0));
    definition.tools = Some(["brought"].into_iter().collect());
    definition.tools_deny = ["brought"].into_iter().collect();
    assert_eq!((validator.problems(&definition), count.load(SeqCst)), (vec![], 1));
}
