use std::fs;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use loopwright_agent::{AgentBuilder, UseGuards, UseHook, UseLlmConfig, UseTools};
use loopwright_core::{
    AgentState, BoxError, Budget, CallableHook, Flow, RunOptions, StopReason,
    messages::{AgentId, Usage},
};
use loopwright_testing::{FakeModel, FrozenClock, MockTool, ScenarioStep, block_on};

use super::*;

fn builder(steps: impl IntoIterator<Item = ScenarioStep>) -> AgentBuilder {
    AgentBuilder::base()
        .with_capability(UseLlmConfig::model(FakeModel::script(steps)))
        .with_capability(UseTools::new().with_tool(MockTool::failing("bad", "it broke")))
        .with_capability(UseGuards::new(Budget::unlimited().with_steps(2)))
}

/// A model call takes a second.
fn run(builder: &AgentBuilder, history: UseExecutionHistory, turns: u32) -> AgentState {
    let clock = FrozenClock::new();
    let passes = clock.clone();
    let passes = CallableHook::new("passes").before_step(move |_, _| {
        passes.advance(Duration::from_secs(1));
        Ok(Flow::Continue)
    });
    let builder = builder.clone().with_capability(UseHook::new(passes)).with_capability(history);
    let agent = builder.build().unwrap();
    (0..turns).fold(AgentState::new(), |state, _| {
        let options = RunOptions { env: clock.env(1), ..RunOptions::default() };
        block_on(agent.start(state.with_user_message("go"), options).finish())
    })
}

fn bad_call() -> ScenarioStep {
    ScenarioStep::tool_call("bad", serde_json::json!({})).with_usage(Usage::new(10, 5))
}

fn endings(summaries: &[ExecutionSummary]) -> Vec<(u32, &str, u32, usize, Option<StopReason>)> {
    let ending = |it: &'_ ExecutionSummary| {
        (it.execution_number, it.step_count, it.error_count, it.stop_reason)
    };
    summaries
        .iter()
        .map(|it| {
            let (number, steps, errors, reason) = ending(it);
            (number, &*it.status, steps, errors, reason)
        })
        .collect()
}

#[test]
fn each_execution_is_kept_with_how_it_really_ended() {
    let steps = [
        // A tool failed, and the model answered nevertheless.
        bad_call(),
        "done".into(),
        // The limit of steps.
        bad_call(),
        bad_call(),
        // No answer.
        ScenarioStep::error("down"),
    ];
    let (history, store) = UseExecutionHistory::in_memory();
    let state = run(&builder(steps), history, 3);
    let agent = state.id().unwrap();
    let all = block_on(store.all(agent)).unwrap();
    let expect = [
        (1, "completed", 2, 1, None),
        (2, "stopped", 2, 2, Some(StopReason::StepsLimitReached)),
        // The same execution, taken up again.
        (2, "failed", 3, 3, None),
    ];
    assert_eq!(endings(&all), expect);
    assert_eq!(all[1].stop_message.as_deref(), Some("the step limit of 2 was reached"));
    assert_eq!((all[0].usage, all[0].duration), (Usage::new(10, 5), 2.0));
    assert_eq!(all[0].completed_at.since(all[0].started_at), Duration::from_secs(2));
    assert_eq!(block_on(store.last(agent)).unwrap(), all.last().cloned());
    assert_eq!(block_on(store.count(agent)).unwrap(), 3);
}

#[test]
fn an_unknown_agent_has_no_history() {
    let nobody = AgentId::new("nobody");
    let stores: [&dyn HistoryStore; 2] =
        [&MemoryHistory::new(), &FileHistory::open("/nonexistent/history.jsonl")];
    for store in stores {
        assert_eq!(block_on(store.all(&nobody)).unwrap(), []);
        assert_eq!(block_on(store.last(&nobody)).unwrap(), None);
        assert_eq!(block_on(store.count(&nobody)).unwrap(), 0);
    }
}

#[test]
fn a_file_is_added_to_and_a_damaged_line_is_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.jsonl");
    let store = Arc::new(FileHistory::open(&path));
    let history = || UseExecutionHistory::with_store(store.clone());
    let state = run(&builder(["done".into()]), history(), 1);
    let whole = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{whole}{{\"agent\":\"br")).unwrap();
    let again = run(&builder(["done".into()]), history(), 1);
    assert_eq!(state.id(), again.id());
    let all = block_on(store.all(state.id().unwrap())).unwrap();
    assert_eq!(endings(&all), [(1, "completed", 1, 0, None); 2]);
    let line: serde_json::Value = serde_json::from_str(whole.trim_end()).unwrap();
    let fields: Vec<_> = line.as_object().unwrap().keys().map(String::as_str).collect();
    let expect = [
        "agent",
        "completedAt",
        "duration",
        "errorCount",
        "executionId",
        "executionNumber",
        "startedAt",
        "status",
        "stepCount",
        "usage",
    ];
    assert_eq!(fields, expect);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn a_state_keeps_the_newest_summaries_itself() {
    let state = run(&builder(["done".into()]), UseExecutionHistory::in_state(2), 3);
    let kept = history_of(&state);
    assert_eq!(endings(&kept), [(2, "completed", 1, 0, None), (3, "completed", 1, 0, None)]);
    let stored: AgentState = serde_json::from_value(serde_json::to_value(&state).unwrap()).unwrap();
    assert_eq!(history_of(&stored), kept);
}

#[test]
fn a_store_that_fails_fails_nothing_else() {
    struct Full;
    #[async_trait]
    impl HistoryStore for Full {
        async fn record(&self, _: &AgentId, _: &ExecutionSummary) -> Result<(), BoxError> {
            Err("the disk is full".into())
        }
        async fn all(&self, _: &AgentId) -> Result<Vec<ExecutionSummary>, BoxError> {
            Ok(Vec::new())
        }
    }
    let state = run(&builder(["done".into()]), UseExecutionHistory::with_store(Arc::new(Full)), 1);
    assert_eq!((state.text().as_str(), state.status().as_str()), ("done", "completed"));
}
