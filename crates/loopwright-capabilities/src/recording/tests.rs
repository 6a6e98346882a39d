use std::fs;
use std::path::Path;
use std::sync::Arc;

use loopwright_agent::{AgentBuilder, BuildError, Capability, UseLlmConfig, UseTools};
use loopwright_core::{
    AgentState, BoxError, ExecutionStatus, LlmConfig, RunOptions, ToolOutput,
    events::StreamDelta,
    messages::{Cost, InferenceOptions, Usage},
};
use loopwright_testing::{EventRecorder, FakeModel, MockTool, ScenarioStep, block_on, test_env};
use serde_json::{Value, json};

use super::*;
use crate::child::ChildAgent;
use crate::llm_query::LlmQueryTool;

fn builder(model: &FakeModel) -> AgentBuilder {
    let mut options = InferenceOptions::default().with_max_output_tokens(100);
    options.headers.insert("authorization".into(), "Bearer sk-header".into());
    let extra = json!({ "api_key": "sk-extra", "depth": 2, "nested": { "secret": "sk-nested" } });
    options.extra = extra.as_object().unwrap().clone();
    let llm = LlmConfig { options, ..LlmConfig::default() };
    let other = FakeModel::script(["forty-two"]);
    AgentBuilder::base()
        .with_capability(UseLlmConfig::model(model.clone()).with_llm(llm))
        .with_capability(
            UseTools::new().with_tool(MockTool::scripted()).with_tool(LlmQueryTool::new(other)),
        )
}

fn run(builder: &AgentBuilder, state: AgentState, seed: u64) -> AgentState {
    let options = RunOptions { env: test_env(seed), ..RunOptions::default() };
    block_on(builder.build().unwrap().start(state, options).finish())
}

fn asked() -> AgentState {
    AgentState::new().with_user_message("go")
}

fn script() -> FakeModel {
    FakeModel::script([
        ScenarioStep::tool("work")
            .with_usage(Usage::new(10, 2))
            .with_cost(Cost::from_picodollars(5)),
        ScenarioStep::tool_call("llm_query", json!({ "query": "six by seven?" })),
        "done".into(),
        "again".into(),
    ])
}

fn recorded(path: &Path) -> AgentState {
    let builder = builder(&script()).with_capability(UseRecording::to_file(path).redact("forty"));
    run(&builder, run(&builder, asked(), 1).with_user_message("more"), 1)
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_run_is_the_same_when_it_is_replayed_and_no_model_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let plain = builder(&script()).with_capability(UseRecording::to_file(&path));
    let first = run(&plain, run(&plain, asked(), 1).with_user_message("more"), 1);
    let silent = FakeModel::script([ScenarioStep::error("nobody is to ask this model")]);
    let replay = builder(&silent).with_capability(UseReplay::from_file(&path));
    // Ids and times are others.
    let events = EventRecorder::new();
    let agent = replay.build().unwrap().with_event_sink(events.sink());
    let options = || RunOptions { env: test_env(2), ..RunOptions::default() };
    let state = block_on(agent.start(asked(), options()).finish());
    let state = block_on(agent.start(state.with_user_message("more"), options()).finish());
    let said = |state: &AgentState| -> Vec<_> {
        state.transcript().iter().map(|turn| turn.body().clone()).collect()
    };
    assert_eq!(said(&state), said(&first));
    assert_eq!(state.total_spent(), first.total_spent());
    assert_eq!(silent.asked(), 0);
    assert_ne!(events.events_of::<StreamDelta>().len(), 0);
}

#[test]
fn model_calls_of_sub_agents_are_recorded_and_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let helper = || {
        MockTool::with_cx("help", "Asks somebody.", |_, cx| {
            Box::pin(async move {
                let child = ChildAgent::of(cx, "helper");
                let ended = child.run("How?", |state| state.with_user_message("How?")).await;
                let answer = ended.and_then(|it| it.answer()).map_err(BoxError::from)?;
                Ok(ToolOutput::text(answer.text))
            })
        })
    };
    let with = |model: &FakeModel, capability: Arc<dyn Capability>| {
        let builder = builder(model).with_capability(UseTools::new().with_tool(helper()));
        run(&builder.with_shared_capability(capability), asked(), 1)
    };
    let steps = [ScenarioStep::tool_call("help", json!({})), "like this".into(), "done".into()];
    let first = with(&FakeModel::script(steps), Arc::new(UseRecording::to_file(&path)));
    assert_eq!(lines(&path).len(), 4);
    let silent = FakeModel::script([ScenarioStep::error("nobody is to ask this model")]);
    let second = with(&silent, Arc::new(UseReplay::from_file(&path)));
    assert_eq!((second.text(), second.total_spent()), (first.text(), first.total_spent()));
    assert_eq!((second.text().as_str(), silent.asked()), ("done", 0));
}

#[test]
fn only_what_is_new_is_written_and_no_secret_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let state = recorded(&path);
    assert_eq!(state.text(), "again");
    let lines = lines(&path);
    assert_eq!(lines[0], json!({ "format": "loopwright-inference", "version": 1 }));
    let counts = |line: &Value| {
        (line["request"]["known"].clone(), line["request"]["turns"].as_array().unwrap().len())
    };
    let counts: Vec<_> = lines[1..].iter().map(counts).collect();
    // The question of the tool is a conversation of its own, and the second turn is a run of its own.
    let expect = [(0, 1), (1, 1), (0, 1), (2, 1), (0, 5)];
    assert_eq!(counts, expect.map(|(known, new)| (json!(known), new)));
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains("sk-") && !text.contains("forty") && text.contains("[redacted]-two"));
    assert_eq!(
        lines[1]["request"]["settings"]["options"]["extra"],
        json!({ "depth": 2, "nested": {} })
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn a_request_that_was_not_recorded_fails_and_says_in_what_it_differs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    drop(recorded(&path));
    let replay = builder(&FakeModel::default()).with_capability(UseReplay::from_file(&path));
    let state =
        run(&replay, AgentState::new().with_user_message("else").with_system_prompt("Hm."), 1);
    let ExecutionStatus::Failed(failure) = state.status() else { panic!("{:?}", state.status()) };
    let text = "the recording has no response to this request; the next recorded request differs in: system prompt, conversation";
    assert_eq!(failure.message(), text);
}

#[test]
fn a_file_that_is_no_recording_is_neither_read_nor_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    fs::write(&path, "my notes\n").unwrap();
    let check = |built: Result<_, BuildError>| {
        let error: BuildError = Result::<loopwright_core::AgentLoop, _>::unwrap_err(built);
        assert!(error.to_string().ends_with("notes.txt cannot be used"), "{error}");
    };
    check(builder(&script()).with_capability(UseRecording::to_file(&path)).build());
    check(builder(&script()).with_capability(UseReplay::from_file(&path)).build());
    assert_eq!(fs::read_to_string(&path).unwrap(), "my notes\n");
}
