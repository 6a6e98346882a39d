use std::sync::Arc;

use loopwright_agent::{
    AgentBuilder, AgentDefinition, Capability as _, DefinitionRegistry, UseLlmConfig,
};
use loopwright_core::{
    AgentLoop, AgentState, ApprovalDecision, ExecutionStatus, RequestKind, RunOptions, Step,
    StopReason,
};
use loopwright_testing::{FakeModel, MemoryJournal, ScenarioStep, block_on, test_env};
use serde_json::{Value, json};

use super::*;
use crate::subagents::UseSubagents;

fn locate() -> ExternalTool {
    ExternalTool::new("locate", "Finds a thing.").with_result_schema(json!({ "type": "string" }))
}

fn told(state: &AgentState) -> Vec<String> {
    let executions = state.steps().flat_map(Step::tool_executions);
    executions.map(|(_, outcome)| outcome.to_result().to_text()).collect()
}

/// An agent whose sub-agent has a sub-agent that calls the tool.
fn nested(steps: impl IntoIterator<Item = ScenarioStep>) -> AgentLoop {
    let mut helpers = DefinitionRegistry::new();
    helpers.register(AgentDefinition::new("helper", "Helps.", "You help."));
    AgentBuilder::base()
        .with_capability(UseLlmConfig::model(FakeModel::script(steps)))
        .with_capability(UseExternalTools::default().with_tool(locate()))
        .with_capability(UseSubagents::new(helpers))
        .build()
        .unwrap()
}

fn steps() -> [ScenarioStep; 3] {
    let spawn = |prompt: &str| {
        let call = json!({ "subagent": "helper", "prompt": prompt });
        ScenarioStep::tool_call("spawn_subagent", call)
    };
    [spawn("one"), spawn("two"), ScenarioStep::tool_call("locate", json!({}))]
}

fn reply(value: impl Into<Value>) -> ApprovalDecision {
    ApprovalDecision::Reply(value.into())
}

#[test]
fn a_call_two_sub_agents_deep_waits_at_the_root_and_goes_on_in_new_processes() {
    let journal = MemoryJournal::new();
    let options = || RunOptions {
        env: test_env(1),
        journal: Some(Arc::new(journal.clone())),
        ..RunOptions::default()
    };
    let replayed = || AgentState::new().replay(journal.changes()).unwrap();
    let state = AgentState::new().with_user_message("go");
    let paused = block_on(nested(steps()).start(state, options()).finish());
    let asked = paused.pending()[0];
    assert_eq!((asked.address(), &*asked.call.name), (vec![0, 0, 0], "locate"));
    let schema = Some(json!({ "type": "string" }).into());
    assert_eq!(asked.kind, &RequestKind::External { schema });

    assert!(replayed().try_decide(&[0, 0, 0], reply(7)).is_err());
    let mut state = replayed().try_decide(&[0, 0, 0], reply("in the cellar")).unwrap();
    block_on(state.save(&journal, &*test_env(1).clock)).unwrap();
    let rest = nested(["found".into(), "told".into(), "done".into()]);
    let done = block_on(rest.start(replayed(), options()).finish());
    assert_eq!((done.status(), done.text()), (&ExecutionStatus::Completed, "done".into()));
}

#[test]
fn denying_a_call_of_a_sub_agent_and_stopping_ends_the_runs_above_it() {
    let agent = nested(steps());
    let options = || RunOptions { env: test_env(1), ..RunOptions::default() };
    let state = AgentState::new().with_user_message("go");
    let paused = block_on(agent.start(state, options()).finish());
    let denied = ApprovalDecision::DenyAndStop { reason: "leave it".into() };
    let state = agent.decide(&paused, &[0, 0, 0], denied).unwrap();
    assert_eq!(state.pending(), []);
    let done = block_on(agent.start(state, options()).finish());
    assert_eq!(done.status().as_str(), "stopped");
    assert_eq!(done.stop_signal().unwrap().reason, StopReason::StopRequested);
}

#[test]
fn a_configuration_declares_the_tools() {
    let config = json!({ "tools": [
        { "name": "locate", "description": "Finds a thing.", "result": { "type": "string" } },
    ] });
    let read: UseExternalTools = serde_json::from_value(config).unwrap();
    assert_eq!(read, UseExternalTools::new([locate()]));
    assert_eq!(read.name(), "use_external_tools");
    let wrong = json!({ "tools": [{ "name": "locate", "body": "rm" }] });
    let refused = serde_json::from_value::<UseExternalTools>(wrong).unwrap_err().to_string();
    assert!(refused.starts_with("unknown field `body`"), "{refused}");
    let model = UseLlmConfig::model(FakeModel::script([
        ScenarioStep::tool_call("locate", json!({})),
        "done".into(),
    ]));
    let agent = AgentBuilder::base().with_capability(model).with_capability(read).build().unwrap();
    let paused = block_on(agent.execute(AgentState::new().with_user_message("go")));
    let state = agent.decide(&paused, &[0], reply("here")).unwrap();
    assert_eq!(told(&block_on(agent.execute(state))), ["here"]);
}
