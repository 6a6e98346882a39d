//! Agents as data, and registries.

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use loopwright_agent::{
    AgentBuilder, AgentDefinition, AllSections, BuildError, Capability, CapabilityEntry,
    CapabilityError, CapabilityRegistry, Configurator, DefinitionError, DefinitionLoopFactory,
    DefinitionRegistry, DefinitionStateFactory, Definitions as _, LoopFactory as _, NameList,
    StateFactory as _, UseContextConfig, UseGuards, UseLlmConfig, UseToolSource, UseTools,
};
use loopwright_core::{
    AgentLoop, AgentState, Budget, LlmConfig, ToolRegistry,
    messages::{InferenceRequest, Message},
};
use loopwright_testing::{FakeModel, MockTool, ScriptedToolSource};
use serde_json::json;

use crate::support::{asked, execute, tool_names};

fn names<const N: usize>(list: [&str; N]) -> NameList {
    list.into_iter().collect()
}

fn tool(name: &str) -> MockTool {
    MockTool::returning(name, "Answers.", "done")
}

fn definition() -> AgentDefinition {
    AgentDefinition::new("reviewer", "Reviews changes.", "You review.")
}

#[test]
fn a_name_list_keeps_each_name_once_in_order_and_no_blank_one() {
    let list = names(["b", " a ", "", "b", "  ", "a", "c"]);
    assert_eq!(list.iter().collect::<Vec<_>>(), ["b", "a", "c"]);
    assert_eq!((list.len(), list.is_empty()), (3, false));
    assert!(list.contains("a") && !list.contains(" a ") && !list.contains("d"));
    assert!(names([""]).is_empty());
    assert_eq!(serde_json::to_value(&list).unwrap(), json!(["b", "a", "c"]));
    let read: NameList = serde_json::from_value(json!(["x", "", "x "])).unwrap();
    assert_eq!(read, names(["x"]));
    assert!(serde_json::from_value::<NameList>(json!("x")).is_err());
    assert!(serde_json::from_value::<NameList>(json!([1])).is_err());
}

#[test]
fn absent_tools_are_all_empty_tools_are_none_and_denial_wins() {
    let allowed = |tools: Option<NameList>, deny: NameList| {
        let definition = AgentDefinition { tools, tools_deny: deny, ..definition() };
        ["read", "write"].map(|name| definition.allows_tool(name))
    };
    let none = NameList::default;
    assert_eq!(allowed(None, none()), [true, true]);
    assert_eq!(allowed(Some(none()), none()), [false, false]);
    assert_eq!(allowed(Some(names(["read"])), none()), [true, false]);
    assert_eq!(allowed(None, names(["read"])), [false, true]);
    assert_eq!(allowed(Some(names(["read", "write"])), names(["write"])), [true, false]);
}

#[test]
fn the_name_of_a_server_stands_for_its_tools() {
    let tools =
        ["mcp__git__get_log", "mcp__git__push", "mcp__gitea__get_log", "mcp_search", "mcp__git"];
    let listed = |entry: &str| {
        let allowed = AgentDefinition { tools: Some(names([entry])), ..definition() };
        let denied = AgentDefinition { tools_deny: names([entry]), ..definition() };
        let allowed = tools.map(|tool| allowed.allows_tool(tool));
        assert_eq!(tools.map(|tool| !denied.allows_tool(tool)), allowed, "{entry}");
        tools
            .into_iter()
            .zip(allowed)
            .filter_map(|(tool, is)| is.then_some(tool))
            .collect::<Vec<_>>()
    };
    let of_git = ["mcp__git__get_log", "mcp__git__push"];
    assert_eq!(listed("mcp__git__push"), ["mcp__git__push"]);
    assert_eq!(listed("mcp__git"), [&of_git[..], &["mcp__git"]].concat());
    for entry in ["mcp__git__*", "mcp__g*t__*", "mcp__*t__**"] {
        assert_eq!(listed(entry), of_git, "{entry}");
    }
    assert_eq!(listed("mcp__git__get_*"), ["mcp__git__get_log"]);
    assert_eq!(listed("mcp__git__*_*g"), ["mcp__git__get_log"]);
    assert_eq!(listed("mcp__*"), tools[..3]);
    for entry in ["mcp__gi", "mcp__GIT", "mcp__", "git", "*", "mcp__git__get_log*g"] {
        assert!(listed(entry).is_empty(), "{entry}");
    }
}

#[test]
fn a_definition_is_read_and_written_without_loss() {
    let check = |definition: &AgentDefinition, expect: serde_json::Value| {
        let written = serde_json::to_value(definition).unwrap();
        assert_eq!(written, expect);
        assert_eq!(&serde_json::from_value::<AgentDefinition>(written).unwrap(), definition);
    };
    let plain = json!({
        "name": "reviewer", "description": "Reviews changes.", "system_prompt": "You review.",
    });
    check(&definition(), plain.clone());
    for (tools, written) in [(names([]), json!([])), (names(["read"]), json!(["read"]))] {
        let mut expect = plain.clone();
        expect["tools"] = written;
        check(&AgentDefinition { tools: Some(tools), ..definition() }, expect);
    }
    let full = AgentDefinition {
        label: Some("The reviewer".into()),
        llm: Some(LlmConfig::named("house/small")),
        capabilities: names(["files"]),
        tools_deny: names(["write"]),
        skills: names(["style"]),
        budget: Some(Budget { steps: Some(3), ..Budget::default() }),
        metadata: [("team".to_owned(), json!("core"))].into_iter().collect(),
        ..definition()
    };
    let written = serde_json::to_string(&full).unwrap();
    assert_eq!(serde_json::from_str::<AgentDefinition>(&written).unwrap(), full);
    assert_eq!((full.label(), definition().label()), ("The reviewer", "reviewer"));
}

#[test]
fn null_is_absent_and_a_wrong_type_is_an_error() {
    let read = |tools| serde_json::from_value::<AgentDefinition>(json!({"tools": tools}));
    assert_eq!(read(json!(null)).unwrap().tools, None);
    assert!(read(json!("read")).is_err());
    assert!(read(json!([["read"]])).is_err());
}

#[test]
fn a_registry_of_definitions_finds_them_by_name() {
    let mut registry = DefinitionRegistry::new();
    registry.register(definition());
    registry.register(AgentDefinition::new("author", "Writes.", ""));
    registry.register(AgentDefinition::new("reviewer", "Reviews again.", ""));
    assert_eq!((registry.names(), registry.count()), (vec!["author".into(), "reviewer".into()], 2));
    assert_eq!(registry.get("reviewer").unwrap().description, "Reviews again.");
    let all: Vec<_> = registry.all().iter().map(|it| it.name.clone()).collect();
    assert_eq!(all, registry.names());
    let error = registry.get("painter").unwrap_err();
    let expect = DefinitionError { name: "painter".into(), known: "author, reviewer".into() };
    assert_eq!(error, expect);
    let text = "unknown agent `painter`; available: author, reviewer";
    assert_eq!(error.to_string(), text);
}

/// Adds one tool of its name.
struct Brings(&'static str);

impl Capability for Brings {
    fn name(&self) -> Cow<'static, str> {
        self.0.into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        agent.tools.add(tool(self.0));
        Ok(())
    }
}

fn broken() -> Result<Brings, BuildError> {
    Err(BuildError::capability("search", "add a key"))
}

#[test]
fn a_registry_of_capabilities_knows_instances_and_makes_others_once() {
    let made = Arc::new(AtomicU32::new(0));
    let mut registry = CapabilityRegistry::new();
    registry.register("zebra", Brings("stripes"));
    registry.register("both", Brings("instance"));
    for name in ["late", "both"] {
        let made = Arc::clone(&made);
        registry.register_factory(name, move || {
            made.fetch_add(1, SeqCst);
            Ok(Brings("made"))
        });
    }
    registry.register_factory("broken", broken);
    assert_eq!(registry.names().collect::<Vec<_>>(), ["both", "broken", "late", "zebra"]);
    assert_eq!((registry.len(), registry.all().len()), (4, 3));
    assert!(
        registry.contains("broken") && registry.contains("zebra") && !registry.contains("none")
    );
    // The name it is found by need not be its own.
    assert_eq!(registry.get("zebra").unwrap().name(), "stripes");
    assert_eq!(registry.get("both").unwrap().name(), "instance");
    assert!(Arc::ptr_eq(&registry.get("late").unwrap(), &registry.get("late").unwrap()));
    assert_eq!(made.load(SeqCst), 1);

    let error = |name| registry.get(name).err().unwrap();
    let text = "unknown capability `none`; available: both, broken, late, zebra";
    assert_eq!(error("none").to_string(), text);
    let error = error("broken");
    assert_eq!(error.to_string(), "capability `broken` could not be created");
    let CapabilityError::Factory { source, .. } = error else { panic!("{error:?}") };
    assert_eq!(source.to_string(), "capability `search` cannot be used: add a key");
}

/// A factory whose agents have `read` and `write`, can be given `search`, and may take `paint` from
/// the registry.
#[test]
fn a_registry_makes_capabilities_of_what_a_configuration_says() {
    fn guards(config: &serde_json::Value) -> Result<UseGuards, BuildError> {
        let steps = config["steps"].as_u64().ok_or_else(|| {
            BuildError::capability("steps", "say how many steps there may be in `steps`")
        })?;
        let steps = u32::try_from(steps).ok();
        Ok(UseGuards::new(Budget { steps, ..Budget::unlimited() }))
    }
    const ENTRIES: &[CapabilityEntry] = &[
        CapabilityEntry::new("steps", "Limits steps.", |it| CapabilityEntry::boxed(guards(it)?)),
        CapabilityEntry::new("plain", "Is there already.", |_| Err(BuildError::NoDriver)),
    ];
    let mut registry = CapabilityRegistry::new();
    registry.register("plain", UseGuards::default());
    registry.register_all(ENTRIES);
    registry.register_with_config("more", guards);
    assert_eq!(registry.names().collect::<Vec<_>>(), ["more", "steps", "plain"]);
    let built = |name: &str| {
        let capability = registry.configured(name, &json!({ "steps": 0 })).unwrap();
        let model = FakeModel::script(["done"]);
        let base = AgentBuilder::base().with_capability(UseLlmConfig::model(model));
        execute(&base.with_shared_capability(capability).build().unwrap(), asked())
    };
    assert_eq!([built("steps"), built("more")].map(|it| it.step_count()), [0, 0]);
    let check = |name: &str, config: serde_json::Value, expect: &str| {
        let Err(error) = registry.configured(name, &config) else { panic!("{name} is made") };
        assert_eq!(error.to_string(), expect);
    };
    check(
        "plain",
        json!({}),
        "capability `plain` accepts no configuration; configurable: more, steps",
    );
    check("none", json!({}), "unknown capability `none`; available: more, steps, plain");
    check("steps", json!({}), "capability `steps` could not be created");
    check("steps", serde_json::Value::Null, "capability `steps` could not be created");
}

fn factory(model: &FakeModel) -> DefinitionLoopFactory {
    let base = AgentBuilder::base()
        .with_capability(UseLlmConfig::model(model.clone()))
        .with_capability(UseTools::new().with_tool(tool("read")).with_tool(tool("write")));
    let mut capabilities = CapabilityRegistry::new();
    capabilities.register("searching", Brings("search"));
    capabilities.register_factory("broken", broken);
    let mut tools = ToolRegistry::new();
    tools.register(tool("paint"));
    tools.register(tool("read"));
    DefinitionLoopFactory::new(base).with_capabilities(Arc::new(capabilities)).with_tools(tools)
}

fn built(definition: &AgentDefinition) -> Result<AgentLoop, BuildError> {
    factory(&FakeModel::default()).instantiate(definition)
}

#[test]
fn a_definition_has_the_tools_it_allows_and_those_it_names() {
    let check = |tools: Option<NameList>, deny: NameList, expect: &[&str]| {
        let capabilities = names(["searching"]);
        let definition = AgentDefinition { tools, tools_deny: deny, capabilities, ..definition() };
        assert_eq!(tool_names(&built(&definition).unwrap()), expect);
    };
    let none = NameList::default;
    check(None, none(), &["read", "write", "search"]);
    check(Some(none()), none(), &[]);
    check(Some(names(["write", "read"])), none(), &["read", "write"]);
    check(Some(names(["paint", "search"])), none(), &["search", "paint"]);
    check(None, names(["write", "search"]), &["read"]);
    check(Some(names(["read", "paint"])), names(["paint"]), &["read"]);
    check(None, names(["unheard of"]), &["read", "write", "search"]);
}

/// Brings a tool, and words about it.
struct Worded(String);

impl Capability for Worded {
    fn name(&self) -> Cow<'static, str> {
        "worded".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        agent.tools.add(tool("paint"));
        agent.prompt.add(0, "worded", format!("Call `paint`: {}", self.0));
        agent.compiler.set(Arc::new(AllSections));
        Ok(())
    }
}

#[test]
fn a_capability_is_made_with_the_configuration_that_a_definition_has_for_it() {
    let mut registry = CapabilityRegistry::new();
    registry.register_with_config("worded", |config| {
        Ok(Worded(config["words"].as_str().unwrap_or("as you like").to_owned()))
    });
    registry.register("fixed", Worded(String::new()));
    let model = FakeModel::default();
    let base = AgentBuilder::base().with_capability(UseLlmConfig::model(model));
    let factory = DefinitionLoopFactory::new(base).with_capabilities(Arc::new(registry));
    let told = |definition: AgentDefinition| {
        let agent = factory.instantiate(&definition)?;
        let texts: Vec<String> =
            agent.instructions().texts(&agent).map(|it| it.1.to_string()).collect();
        Ok::<_, BuildError>(texts.concat())
    };
    let worded = || AgentDefinition { capabilities: names(["worded"]), ..definition() };
    assert_eq!(told(worded()).unwrap(), "Call `paint`: as you like");
    let config =
        |name: &str| [(name.to_owned(), json!({ "words": "in red" }))].into_iter().collect();
    let configured = AgentDefinition { capability_config: config("worded"), ..worded() };
    assert_eq!(told(configured.clone()).unwrap(), "Call `paint`: in red");
    let fixed = AgentDefinition {
        capabilities: names(["fixed"]),
        capability_config: config("fixed"),
        ..definition()
    };
    let expect = "capability `fixed` cannot be used: the capability accepts no configuration";
    assert_eq!(told(fixed).unwrap_err().to_string(), expect);
    // An agent that may not call the tool is not told of it.
    let without = AgentDefinition { tools_deny: names(["paint"]), ..configured };
    assert_eq!(told(without).unwrap(), "");
}

#[test]
fn an_unknown_name_in_a_definition_is_an_error_that_lists_the_known_ones() {
    let check = |definition: AgentDefinition, expect: &str| {
        assert_eq!(built(&definition).unwrap_err().to_string(), expect);
    };
    check(
        AgentDefinition { tools: Some(names(["fly"])), ..definition() },
        "unknown tool `fly`; available: read, write, paint",
    );
    check(
        AgentDefinition { capabilities: names(["flying"]), ..definition() },
        "unknown capability `flying`; available: broken, searching",
    );
    check(
        AgentDefinition { capabilities: names(["broken"]), ..definition() },
        "capability `search` cannot be used: add a key",
    );
    let error = DefinitionLoopFactory::new(AgentBuilder::base()).instantiate(&definition());
    assert!(matches!(error, Err(BuildError::NoDriver)));
}

#[test]
fn every_agent_of_a_factory_is_of_its_own() {
    let model = FakeModel::default();
    let factory = factory(&model);
    let narrow = AgentDefinition { tools: Some(names(["read"])), ..definition() };
    assert_eq!(tool_names(&factory.instantiate(&narrow).unwrap()), ["read"]);
    assert_eq!(tool_names(&factory.instantiate(&definition()).unwrap()), ["read", "write"]);
}

#[test]
fn a_state_carries_what_the_definition_says() {
    let full = AgentDefinition {
        llm: Some(LlmConfig::named("house/small")),
        budget: Some(Budget { steps: Some(3), ..Budget::default() }),
        metadata: [("team".to_owned(), json!("core"))].into_iter().collect(),
        ..definition()
    };
    let state = DefinitionStateFactory.instantiate(&full, asked());
    let expect = asked()
        .with_budget(Budget { steps: Some(3), ..Budget::default() })
        .with_system_prompt("You review.")
        .with_llm(LlmConfig::named("house/small"))
        .with_metadata("team", "core");
    assert_eq!(state, expect);
}

#[test]
fn a_field_missing_in_a_definition_keeps_the_value_of_the_seed_state() {
    let seed = asked()
        .with_system_prompt("Be brief.")
        .with_llm(LlmConfig::named("large"))
        .with_budget(Budget { tokens: Some(9), steps: Some(2), ..Budget::default() });
    let open = AgentDefinition::new("open", "Says nothing.", " ");
    let state = DefinitionStateFactory.instantiate(&open, seed.clone());
    let parts = |state: &AgentState| {
        (*state.budget(), state.llm().cloned(), state.context().system_prompt().cloned())
    };
    assert_eq!(parts(&state), parts(&seed));
    // A budget is never more than the seed's.
    let time = Some(Duration::from_secs(1));
    let budget = Some(Budget { steps: Some(5), tokens: Some(5), time, ..Budget::default() });
    let state = DefinitionStateFactory.instantiate(&AgentDefinition { budget, ..open }, seed);
    let expect = Budget { steps: Some(2), tokens: Some(5), time, ..Budget::default() };
    assert_eq!(*state.budget(), expect);
}

#[test]
fn a_defined_agent_runs() {
    let model = FakeModel::script(["done"]);
    let limited = AgentDefinition {
        tools: Some(names(["read"])),
        llm: Some(LlmConfig::named("small")),
        ..definition()
    };
    let agent = factory(&model).instantiate(&limited).unwrap();
    let seed = AgentState::new().with_message(Message::user("go"));
    let state = execute(&agent, DefinitionStateFactory.instantiate(&limited, seed));
    assert_eq!(state.text(), "done");
    let request = model.requests().pop().unwrap();
    let offered: Vec<_> = request.tools.iter().map(|it| it.name.to_string()).collect();
    assert_eq!(offered, ["read"]);
    assert_eq!(request.system.as_deref(), Some("You review."));
    assert_eq!(request.model.as_deref(), Some("small"));
}

#[test]
fn capabilities_of_a_definition_come_after_those_of_the_factory() {
    let mut capabilities = CapabilityRegistry::new();
    capabilities.register("strict", UseGuards::new(Budget::unlimited().with_steps(0)));
    capabilities.register("polite", UseContextConfig::new("Be polite."));
    let model = FakeModel::default();
    let base = AgentBuilder::base()
        .with_capability(UseLlmConfig::model(model))
        .with_capability(UseContextConfig::new("Be quick."));
    let factory = DefinitionLoopFactory::new(base).with_capabilities(Arc::new(capabilities));
    let both = AgentDefinition { capabilities: names(["polite", "strict"]), ..definition() };
    let agent = factory.instantiate(&both).unwrap();
    let fragments: Vec<_> = agent.instructions().fragments().collect();
    assert_eq!(fragments, [("context_config", "Be polite.")]);
    assert_eq!(execute(&agent, asked()).step_count(), 0);
}

#[test]
fn a_definition_allows_and_denies_tools_of_sources() {
    let offered = |definition: AgentDefinition| {
        let model = FakeModel::default();
        let tools = ["search", "delete"].map(tool).into_iter().collect();
        let base = AgentBuilder::base()
            .with_capability(UseLlmConfig::model(model.clone()))
            .with_capability(UseToolSource::new(ScriptedToolSource::new("server", tools)));
        let by_factory = DefinitionLoopFactory::new(base.clone()).instantiate(&definition).unwrap();
        let by_agent = base.build().unwrap().instantiate(&definition).unwrap();
        for agent in [by_factory, by_agent] {
            execute(&agent, asked());
        }
        let names = |it: &InferenceRequest| -> Vec<String> {
            it.tools.iter().map(|it| it.name.to_string()).collect()
        };
        model.requests().iter().map(names).collect::<Vec<_>>()
    };
    let denies = AgentDefinition { tools_deny: names(["delete"]), ..definition() };
    assert_eq!(offered(denies), vec![vec!["search"]; 2]);
    let allows = AgentDefinition { tools: Some(names(["delete"])), ..definition() };
    assert_eq!(offered(allows), vec![vec!["delete"]; 2]);
}
