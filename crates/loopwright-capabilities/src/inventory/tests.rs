use loopwright_agent::{AgentBuilder, UseDriver};
use loopwright_testing::FakeDriver;
use serde_json::json;

use super::*;

#[test]
fn every_entry_has_the_name_of_the_capability_that_it_makes() {
    let folder = tempfile::tempdir().unwrap();
    for entry in ENTRIES {
        let configs = [
            Value::Null,
            json!({ "directory": folder.path() }),
            json!({ "llm": "ollama/qwen3" }),
            json!({ "file": folder.path().join("run.jsonl") }),
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
    let check = |name: &str, config: Value, expect: &str| {
        let Err(error) = registry.configured(name, &config) else { panic!("{name} is made") };
        let sources =
            std::iter::successors(Some(&error as &dyn std::error::Error), |it| it.source());
        assert_eq!(sources.last().unwrap().to_string(), expect);
    };
    let wrong = "unknown field `most`, expected one of `max_items`, `max_in_progress`, \
                 `render_every_steps`, `reminder_every_steps`, `parsing`";
    check("use_task_planning", json!({ "most": 3 }), wrong);
    check("use_bash", Value::Null, "missing field `directory`");
}
