use std::fs;

use loopwright_agent::{
    AgentBuilder, DescribeAgent as _, UseGuards, UseIdentity, UseLlmConfig, UseTools,
};
use loopwright_core::{AgentState, BoxError, Budget, LlmConfig, Step, messages::InferenceOptions};
use loopwright_testing::{FakeModel, MockTool, ScenarioStep, block_on};
use serde_json::{Value, json};

use super::*;

fn builder(model: &FakeModel) -> AgentBuilder {
    let mut options = InferenceOptions::default().with_max_output_tokens(100);
    options.headers.insert("x-api-key".into(), "sk-secret".into());
    options.extra.insert("token".into(), json!("sk-secret"));
    let llm = LlmConfig { options, ..LlmConfig::named("acme/small") };
    AgentBuilder::base()
        .with_capability(UseIdentity::new("ada", "Counts."))
        .with_capability(UseLlmConfig::model(model.clone()).with_llm(llm))
        .with_capability(UseGuards::new(Budget::unlimited().with_steps(5)))
        .with_capability(UseSelfDescription)
        .with_capability(UseTools::new().with_tool(MockTool::scripted()))
}

fn asked(model: &FakeModel) -> Vec<String> {
    let agent = builder(model).build().unwrap();
    let state = AgentState::new().with_user_message("go").with_metadata("secret", "sk-secret");
    let state = block_on(agent.execute(state));
    let executions = state.steps().flat_map(Step::tool_executions);
    executions.map(|(_, outcome)| outcome.to_result().to_text()).collect()
}

#[test]
fn an_agent_describes_itself_whole_or_in_part() -> Result<(), BoxError> {
    let call = |arguments| ("describe_self", arguments);
    let calls = [
        call(json!({})),
        call(json!({ "section": "capabilities" })),
        call(json!({ "section": "hooks" })),
        call(json!({ "section": "secrets" })),
    ];
    let model = FakeModel::script([ScenarioStep::tool_calls(calls), "done".into()]);
    let told = asked(&model);
    let capabilities = json!([
        "use_identity",
        "use_llm_config",
        "use_guards",
        "use_self_description",
        "use_tools",
    ]);
    let hooks = json!([{ "point": "before_step", "priority": 200, "name": "guard:steps_limit" }]);
    let tool = |name: &str, description: &str| {
        json!({
            "name": name, "description": description, "summary": description,
            "namespace": null, "visibility": "always",
        })
    };
    let described = "Describes this agent: its name, model, tools, capabilities and hooks.";
    let whole = json!({
        "name": "ada", "description": "Counts.", "driver": "tool_calling",
        "llm": { "provider": "acme", "model": "small", "maxOutputTokens": 100 },
        "capabilities": capabilities, "hooks": hooks, "notes": {},
        "tools": [tool("describe_self", described), tool("scripted", "Does nothing.")],
    });
    assert_eq!(serde_json::from_str::<Value>(&told[0])?, whole);
    assert_eq!(serde_json::from_str::<Value>(&told[1])?, json!({ "capabilities": capabilities }));
    assert_eq!(serde_json::from_str::<Value>(&told[2])?, json!({ "hooks": hooks }));
    assert!(told[3].starts_with("Error: "), "{}", told[3]);
    assert!(!told.concat().contains("sk-secret"));
    Ok(())
}

#[test]
fn a_description_is_the_same_each_time_and_holds_no_secret_in_any_form() {
    let agent = builder(&FakeModel::default()).build().unwrap();
    let profile = agent.describe();
    assert_eq!(profile, agent.describe());
    let texts = [profile.to_string(), profile.to_markdown(), format!("{profile:?}")];
    assert!(!texts.concat().contains("sk-secret"));
    let plain = "\
name: ada
description: Counts.
driver: tool_calling
model: acme/small
capabilities: use_identity, use_llm_config, use_guards, use_self_description, use_tools
tools: describe_self, scripted
hooks: 1";
    assert_eq!(texts[0], plain);
    let fewer = agent.with_tools(agent.tools().filter(|it| &**it.name() == "scripted"));
    let names: Vec<_> = fewer.describe().tools.into_iter().map(|it| it.name).collect();
    assert_eq!(names, ["scripted".into()]);
}

#[test]
fn an_agent_with_file_tools_is_shown_where_its_files_are() {
    let folder = tempfile::tempdir().unwrap();
    let docs = folder.path();
    fs::write(docs.join("README.md"), "# Docs").unwrap();
    fs::write(docs.join("tools.md"), "# Tools").unwrap();
    let model = FakeModel::script(["done"]);
    let knowledge = || UseSelfKnowledge::in_dir(docs).with_topic("tools", ["tools.md"]);
    let reader = || UseTools::new().with_tool(MockTool::returning("read_file", "Reads.", ""));
    let agent =
        builder(&model).with_capability(knowledge()).with_capability(reader()).build().unwrap();
    drop(block_on(agent.execute(AgentState::new().with_user_message("go"))));
    let told = model.requests()[0].system.clone().unwrap_or_default();
    assert!(told.ends_with(&format!("- tools: {}", docs.join("tools.md").display())), "{told}");
    let note = &agent.describe().notes["selfKnowledge"];
    assert_eq!(note["topics"], json!([{ "topic": "tools", "files": ["tools.md"] }]));
    // Without the tool there is nothing to read with.
    let blind = agent.with_tools(agent.tools().filter(|it| &**it.name() != "read_file"));
    drop(block_on(blind.execute(AgentState::new().with_user_message("go"))));
    assert_eq!(model.requests()[1].system, None);
    assert_eq!(blind.describe().notes.len(), 0);
    let waived =
        builder(&model).with_capability(knowledge().with_read_tool(ReadToolRequirement::Optional));
    assert_eq!(waived.build().unwrap().describe().notes.len(), 1);
    // Nor where a file is missing.
    let missing = knowledge().with_topic("more", ["more.md"]);
    let agent = builder(&model).with_capability(missing).with_capability(reader()).build().unwrap();
    assert_eq!(agent.describe().notes.len(), 0);
}
