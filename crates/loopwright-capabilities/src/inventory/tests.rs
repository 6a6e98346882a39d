use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;

use loopwright_agent::{AgentBuilder, UseDriver, UseLlmConfig, UseTools};
use loopwright_core::{AgentState, LlmConfig};
use loopwright_testing::{FakeDriver, FakeModel, MockTool, ScenarioStep, block_on};
use serde_json::json;

use super::*;
use crate::{bash::BashPolicy, files::WorkspaceRoot};

/// The sources of the crates that capabilities are in.
fn sources() -> Vec<(String, String)> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let roots = ["loopwright-agent", "loopwright-capabilities", "loopwright-templates"];
    let mut folders: Vec<_> = roots.iter().map(|it| crates.join(it).join("src")).collect();
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                files.push((path.display().to_string(), text));
            }
        }
    }
    files
}

/// The types of a name that is recognised, as they are declared.
fn declared(is_it: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, text) in sources() {
        for line in text.lines().filter_map(|it| it.strip_prefix("pub struct ")) {
            let name: String = line.chars().take_while(|it| it.is_alphanumeric()).collect();
            if is_it(&name) {
                found.insert(name);
            }
        }
    }
    found
}

fn snake_case(name: &str) -> String {
    let name = name.replace("LLM", "Llm").replace("ReAct", "React");
    name.chars().fold(String::new(), |mut text, c| {
        if c.is_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.extend(c.to_lowercase());
        text
    })
}

#[test]
fn every_capability_is_in_the_inventory_or_an_exception_with_a_reason() {
    let declared =
        declared(|it| it.strip_prefix("Use").is_some_and(|it| it.starts_with(char::is_uppercase)));
    assert!(declared.len() > 40, "{declared:?}");
    let declared: BTreeSet<String> = declared.iter().map(|it| snake_case(it)).collect();
    let entries = ENTRIES.iter().map(|it| it.name);
    let known: BTreeSet<String> =
        entries.chain(EXCEPTIONS.iter().map(|it| it.0)).map(str::to_owned).collect();
    assert_eq!(declared, known);
    assert_eq!(known.len(), ENTRIES.len() + EXCEPTIONS.len(), "one is in both lists");
    assert!(EXCEPTIONS.iter().all(|(_, reason)| !reason.is_empty()));
}

/// The policies, with the entry that takes each and the place in its configuration.
const POLICIES: &[(&str, &str, &str)] = &[
    ("BashPolicy", "use_bash", "display"),
    ("CompactionPolicy", "use_compaction", "policy"),
    ("CritiquePolicy", "use_self_critique", "policy"),
    ("ErrorPolicy", "use_error_policy", ""),
    ("MetadataPolicy", "use_metadata_tools", ""),
    ("RetrospectivePolicy", "use_execution_retrospective", ""),
    ("SkillPolicy", "use_skills", "policy"),
    ("StructuredOutputPolicy", "use_structured_outputs", "policy"),
    ("SubagentPolicy", "use_subagents", "policy"),
    ("SummarizationPolicy", "use_summarization", ""),
    ("TodoPolicy", "use_task_planning", ""),
];

/// The policies of capabilities that no configuration makes, with the capability of each.
const UNCONFIGURED: &[(&str, &str)] =
    &[("RemoteAgentPolicy", "use_remote_agent"), ("WebPolicy", "use_web")];

/// The settings that an entry requires.
fn base(entry: &str) -> Value {
    match entry {
        "use_bash" | "use_coding_tools" | "use_file_tools" | "use_self_knowledge" => {
            json!({ "directory": "/srv" })
        }
        "use_structured_outputs" => json!({ "schemas": {} }),
        _ => json!({}),
    }
}

fn put(mut config: Value, at: &str, value: Value) -> Value {
    if at.is_empty() {
        value
    } else {
        config[at] = value;
        config
    }
}

/// The last cause of an error.
fn cause(mut error: &dyn Error) -> String {
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

fn refused(entry: &str, config: &Value) -> String {
    let Err(error) = registry().configured(entry, config) else { panic!("{entry} is made") };
    cause(&error)
}

/// The public fields of a type, as they are declared.
fn fields(name: &str) -> Vec<String> {
    let head = format!("pub struct {name} {{");
    let text = sources().into_iter().find_map(|(_, text)| {
        let (_, rest) = text.split_once(&head)?;
        Some(rest.split_once("\n}")?.0.to_owned())
    });
    let text = text.unwrap();
    let lines = text.lines().filter_map(|it| it.trim().strip_prefix("pub "));
    lines.map(|it| it.split(':').next().unwrap().to_owned()).collect()
}

#[test]
fn every_field_of_every_policy_can_be_configured() {
    let declared = declared(|it| it.ends_with("Policy") && !it.starts_with("Use"));
    let known = POLICIES.iter().map(|it| it.0).chain(UNCONFIGURED.iter().map(|it| it.0));
    let known: BTreeSet<&str> = known.collect();
    for (policy, capability) in UNCONFIGURED {
        assert!(EXCEPTIONS.iter().any(|(name, _)| name == capability), "{policy}");
    }
    assert_eq!(declared.iter().map(String::as_str).collect::<BTreeSet<_>>(), known);
    for (policy, entry, at) in POLICIES {
        let fields = fields(policy);
        assert!(fields.len() > 1, "{policy}");
        let told = refused(entry, &put(base(entry), at, json!({ "no_such_field": 0 })));
        for field in fields {
            assert!(told.contains(&format!("`{field}`")), "{policy}::{field}: {told}");
        }
    }
}

#[test]
fn every_field_of_a_sandbox_policy_can_be_configured() {
    let told = refused("use_bash", &json!({ "directory": "/srv", "sandbox": { "nothing": 0 } }));
    let policy = serde_json::to_value(loopwright_sandbox::SandboxPolicy::in_dir("/srv")).unwrap();
    for field in policy.as_object().unwrap().keys() {
        assert!(told.contains(&format!("`{field}`")), "{field}: {told}");
    }
    let sandbox = json!({
        "network": "host", "workdir_access": "read_only", "write_paths": ["/srv/out"],
        "limits": { "timeout": 5, "idle_timeout": 1.5, "memory": 1024 },
        "environment": { "values": { "A": "b" } },
    });
    let display = BashPolicy { timeout: std::time::Duration::from_secs(7), ..Default::default() };
    let root = WorkspaceRoot::new("/srv");
    let made = sandbox::policy("use_bash", &root, &display, &sandbox).unwrap();
    let seconds = std::time::Duration::from_secs_f64;
    assert_eq!((made.limits.timeout, made.limits.idle_timeout), (seconds(5.0), Some(seconds(1.5))));
    assert_eq!((made.limits.memory, made.environment.values.len()), (1024, 1));
    let plain = sandbox::policy("use_bash", &root, &display, &json!({})).unwrap();
    assert_eq!((plain.limits.timeout, plain.protected.len()), (seconds(7.0), made.protected.len()));
    let wrong = json!({ "directory": "/srv", "sandbox": { "limits": { "timeout": -1 } } });
    assert!(refused("use_bash", &wrong).starts_with("`sandbox.limits.timeout`: "));
}

#[test]
fn every_entry_has_the_name_of_the_capability_that_it_makes() {
    let folder = tempfile::tempdir().unwrap();
    for entry in ENTRIES {
        let configs = [
            Value::Null,
            json!({ "directory": folder.path() }),
            json!({ "llm": "ollama/qwen3" }),
            json!({ "file": folder.path().join("run.jsonl") }),
            json!({ "schemas": {} }),
            json!({ "tools": ["read_file"] }),
            json!({ "show": "all" }),
        ];
        let made = configs.iter().find_map(|config| entry.make(config).ok()).unwrap();
        assert_eq!(made.name(), entry.name);
    }
    let names: Vec<_> = ENTRIES.iter().map(|it| it.name).collect();
    assert!(names.is_sorted(), "{names:?}");
    assert_eq!(registry().names().collect::<Vec<_>>(), names);
}

#[test]
fn a_configuration_counts_and_one_that_does_not_fit_is_an_error_that_says_why() {
    let registry = registry();
    let tasks = registry.configured("use_task_planning", &json!({ "max_items": 3 })).unwrap();
    let agent = AgentBuilder::base()
        .with_shared_capability(tasks)
        .with_capability(UseDriver::new(FakeDriver::default()))
        .build()
        .unwrap();
    let schema = &agent.tools().get("todo_write").unwrap().spec().parameters;
    let said = schema["properties"]["todos"]["description"].as_str().unwrap();
    assert!(said.starts_with("All tasks, in order; at most 3,"), "{said}");
    let wrong = "unknown field `most`, expected one of `max_items`, `max_in_progress`, \
                 `render_every_steps`, `reminder_every_steps`, `parsing`";
    assert_eq!(refused("use_task_planning", &json!({ "most": 3 })), wrong);
    assert_eq!(refused("use_bash", &json!({})), "missing field `directory`");
    assert!(registry.configured("use_llm", &json!({ "llm": "ollama/x", "attempts": 5 })).is_ok());
    let none = "invalid value: integer `0`, expected a nonzero u32";
    assert_eq!(refused("use_llm", &json!({ "llm": "ollama/x", "attempts": 0 })), none);
}

/// Runs an agent of capabilities by configuration, and returns the model with what it was asked.
fn run(capabilities: &[(&str, Value)], steps: Vec<ScenarioStep>) -> (AgentState, FakeModel) {
    let model = FakeModel::script(steps);
    let llm = LlmConfig::named("big");
    let tools = ["read_file", "mail"].map(|it| MockTool::returning(it, "", "ok"));
    let builder = AgentBuilder::base()
        .with_capability(UseLlmConfig::model(model.clone()).with_llm(llm))
        .with_capability(tools.into_iter().fold(UseTools::new(), UseTools::with_tool));
    let registry = registry();
    let capabilities =
        capabilities.iter().map(|(name, config)| registry.configured(name, config).unwrap());
    let agent = capabilities.fold(builder, AgentBuilder::with_shared_capability).build().unwrap();
    (block_on(agent.execute(AgentState::new().with_user_message("go"))), model)
}

fn models(model: &FakeModel) -> Vec<Option<String>> {
    model.requests().iter().map(|it| it.model.as_deref().map(str::to_owned)).collect()
}

#[test]
fn critique_calls_the_agents_own_model_or_another_one_of_its_models() {
    let verdict = r#"{ "approved": true, "summary": "It is right." }"#;
    for (config, critic) in [(json!({}), "big"), (json!({ "llm": "small" }), "small")] {
        let steps = vec!["answer".into(), verdict.into()];
        let (state, model) = run(&[("use_self_critique", config)], steps);
        assert_eq!(state.text(), "answer");
        assert_eq!(models(&model), [Some("big".to_owned()), Some(critic.to_owned())]);
    }
}

#[test]
fn a_question_goes_to_the_agents_own_model_or_another_one_of_its_models() {
    for (config, expect) in [(json!({}), "big"), (json!({ "llm": "small" }), "small")] {
        let ask = ScenarioStep::tool_call("llm_query", json!({ "query": "Why?" }));
        let (_, model) = run(&[("use_llm_query", config)], vec![ask, "so".into(), "done".into()]);
        assert_eq!(models(&model)[1].as_deref(), Some(expect));
    }
}

#[test]
fn tools_of_the_agent_are_on_demand_by_configuration() {
    let activate = json!({ "action": "activate", "tool": "mail" });
    let steps = vec![ScenarioStep::tool_call("tools", activate), "done".into()];
    let (_, model) = run(&[("use_tool_registry", json!({ "tools": ["mail", "none"] }))], steps);
    let shown: Vec<Vec<String>> = model
        .requests()
        .iter()
        .map(|it| it.tools.iter().map(|it| it.name.to_string()).collect())
        .collect();
    assert_eq!(shown[0], ["read_file", "tools"]);
    assert_eq!(shown[1], ["read_file", "tools", "mail"]);
}

#[test]
fn planning_research_and_structured_output_are_configured() {
    let lead = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
    let capabilities = [
        ("use_planning_subagent", json!({ "planner_tools": ["mail"], "instructions": "Plan." })),
        ("use_subagents", json!({ "research": true, "policy": { "research_tools": ["mail"] } })),
        ("use_structured_outputs", json!({ "schemas": { "lead": { "schema": lead } } })),
    ];
    let steps = vec![
        ScenarioStep::tool_call("plan_with_subagent", json!({ "specification": "it" })),
        "1. Look.".into(),
        ScenarioStep::tool_call("research_subagent", json!({ "task": "Where?" })),
        "There.".into(),
        "done".into(),
    ];
    let (_, model) = run(&capabilities, steps);
    let requests = model.requests();
    let tools =
        |at: usize| -> Vec<&str> { requests[at].tools.iter().map(|it| &*it.name).collect() };
    assert!(requests[0].system.as_deref().unwrap().contains("Plan."));
    assert!(tools(0).contains(&"structured_output"), "{:?}", tools(0));
    assert_eq!((tools(1), tools(3)), (vec!["mail"], vec!["mail"]));
}
