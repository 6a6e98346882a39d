//! What a project tells every agent.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use loopwright_agent::{
    AgentBuilder, AgentDefinition, DefinitionRegistry, UseContextConfig, UseLlmConfig,
};
use loopwright_capabilities::subagents::UseSubagents;
use loopwright_core::AgentState;
use loopwright_templates::{DiagnosticKind, ProjectInstructions, UseProjectInstructions};
use loopwright_testing::{FakeModel, ScenarioStep, block_on};
use serde_json::json;
use tempfile::TempDir;

fn project() -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::create_dir_all(folder.path().join("web/src")).unwrap();
    folder
}

fn put(folder: &TempDir, path: &str, text: &str) {
    fs::write(folder.path().join(path), text).unwrap();
}

fn found(folder: &TempDir, directory: &str) -> ProjectInstructions {
    ProjectInstructions::find(folder.path(), &folder.path().join(directory))
}

fn texts(found: &ProjectInstructions) -> Vec<&str> {
    found.texts.iter().map(|(_, text)| text.as_str()).collect()
}

#[test]
fn the_nearest_file_comes_last_and_each_directory_has_one() {
    let folder = project();
    put(&folder, "AGENTS.md", "\u{feff}root\r\nrules\r\n");
    put(&folder, "web/AGENTS.md", "web");
    put(&folder, "web/AGENTS.override.md", "mine");
    put(&folder, "web/src/AGENTS.md", " \n");
    assert_eq!(texts(&found(&folder, "web/src")), ["root\nrules", "mine"]);
    assert_eq!(texts(&found(&folder, "")), ["root\nrules"]);
    // Nothing above the root is read.
    let within =
        ProjectInstructions::find(&folder.path().join("web"), &folder.path().join("web/src"));
    assert_eq!(texts(&within), ["mine"]);
    assert_eq!(ProjectInstructions::find(Path::new("/x"), Path::new("/y")).to_prompt(), None);
}

#[test]
fn long_instructions_are_cut_between_characters_and_links_that_lead_out_are_omitted() {
    let folder = project();
    put(&folder, "AGENTS.md", &"ä".repeat(20_000));
    put(&folder, "web/AGENTS.md", "nearest");
    let cut = found(&folder, "web");
    assert_eq!(texts(&cut), ["ä".repeat(16_380).as_str(), "nearest"]);
    let kinds = |found: &ProjectInstructions| -> Vec<DiagnosticKind> {
        found.warnings.iter().map(|it| it.problem.kind.clone()).collect()
    };
    assert_eq!(kinds(&cut), [DiagnosticKind::Truncated(32_768)]);
    let other = project();
    symlink(folder.path().join("AGENTS.md"), other.path().join("AGENTS.md")).unwrap();
    let none = found(&other, "");
    let outside = "the link leads outside its directory".to_owned();
    assert_eq!((texts(&none), kinds(&none)), (vec![], vec![DiagnosticKind::Unreadable(outside)]));
}

#[test]
fn an_agent_is_told_after_its_own_instructions() {
    let folder = project();
    put(&folder, "AGENTS.md", "Run `just check`.");
    let model = FakeModel::script(["done"]);
    let agent = AgentBuilder::base()
        .with_capability(UseProjectInstructions::find(folder.path(), folder.path()))
        .with_capability(UseContextConfig::new("You are Ada."))
        .with_capability(UseLlmConfig::model(model.clone()))
        .build()
        .unwrap();
    drop(block_on(agent.execute(AgentState::new().with_user_message("go"))));
    let told = model.requests()[0].system.clone().unwrap();
    let path = folder.path().join("AGENTS.md").display().to_string();
    assert!(told.starts_with("You are Ada.\n\nThe project gives agents"), "{told}");
    assert!(told.ends_with(&format!("From {path}:\nRun `just check`.")), "{told}");
}

#[test]
fn a_spawned_agent_is_told_what_the_project_tells() {
    let folder = project();
    put(&folder, "AGENTS.md", "Run `just check`.");
    let ask = json!({ "subagent": "helper", "prompt": "Help." });
    let steps = [ScenarioStep::tool_call("spawn_subagent", ask), "ok".into(), "done".into()];
    let model = FakeModel::script(steps);
    let mut agents = DefinitionRegistry::new();
    agents.register(AgentDefinition::new("helper", "Helps.", "You help."));
    let agent = AgentBuilder::base()
        .with_capability(UseProjectInstructions::find(folder.path(), folder.path()))
        .with_capability(UseSubagents::new(agents))
        .with_capability(UseLlmConfig::model(model.clone()))
        .build()
        .unwrap();
    drop(block_on(agent.execute(AgentState::new().with_user_message("go"))));
    let told = model.requests()[1].system.clone().unwrap();
    assert!(told.starts_with("You help.\n\nThe project gives agents"), "{told}");
    assert!(told.ends_with("Run `just check`."), "{told}");
}
