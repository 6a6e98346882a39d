//! Commands in the background end with the run that started them, however it ends.

use std::fs::File;
use std::path::Path;

use loopwright_agent::{AgentBuilder, UseLlmConfig};
use loopwright_capabilities::background::{BackgroundKind, BackgroundTasks};
use loopwright_capabilities::bash::{Background, UseBash};
use loopwright_core::{AgentLoop, AgentState, RunOptions};
use loopwright_testing::{FakeModel, ScenarioStep};
use serde_json::json;

/// Holds a lock for as long as it lives.
const HOLD: &str = "exec 9>lock; flock 9; echo locked; sleep 1000";

/// An agent that starts the command, waits until it holds the lock, and ends.
fn holding(folder: &Path) -> AgentLoop {
    // The program is the sandbox's helper as well.
    loopwright_sandbox::set_helper_path(env!("CARGO_BIN_EXE_loopwright"));
    let steps = [
        ScenarioStep::tool_call("bash_start", json!({ "command": HOLD })),
        ScenarioStep::tool_call("bash_read", json!({ "id": "1", "wait_seconds": 60 })),
        ScenarioStep::final_answer("done"),
    ];
    AgentBuilder::base()
        .with_capability(UseLlmConfig::model(FakeModel::script(steps)))
        .with_capability(UseBash::in_dir(folder).with_background(Background::Allowed))
        .build()
        .unwrap()
}

fn asked() -> AgentState {
    AgentState::new().with_user_message("go")
}

fn said(state: &AgentState, step: usize) -> String {
    let calls: Vec<_> = state.step_at(step).unwrap().tool_executions().collect();
    calls[0].1.to_result().to_text()
}

/// Waits until nobody holds the lock: for ever, if the command lives on.
async fn is_free(folder: &Path) {
    let lock = File::open(folder.join("lock")).unwrap();
    tokio::task::spawn_blocking(move || lock.lock().unwrap()).await.unwrap();
}

fn run(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work);
}

#[test]
fn a_command_in_the_background_ends_when_the_run_is_over() {
    run(async {
        let home = tempfile::tempdir().unwrap();
        let state = holding(home.path()).execute(asked()).await;
        assert_eq!(said(&state, 1), "locked\n\n[command 1 is still running]");
        is_free(home.path()).await;
    });
}

#[test]
fn a_program_lists_shows_and_stops_commands_in_the_background() {
    run(async {
        let home = tempfile::tempdir().unwrap();
        let tasks = BackgroundTasks::default();
        let read =
            || ScenarioStep::tool_call("bash_read", json!({ "id": "1", "wait_seconds": 60 }));
        let start = ScenarioStep::tool_call("bash_start", json!({ "command": HOLD }));
        let steps = [start, read(), read(), ScenarioStep::final_answer("done")];
        let agent = AgentBuilder::base()
            .with_capability(UseLlmConfig::model(FakeModel::script(steps)))
            .with_capability(
                UseBash::in_dir(home.path())
                    .with_background(Background::Allowed)
                    .with_background_tasks(tasks.clone()),
            )
            .build()
            .unwrap();
        loopwright_sandbox::set_helper_path(env!("CARGO_BIN_EXE_loopwright"));
        let mut run = agent.start(asked(), RunOptions::default());
        run.next().await.unwrap();
        run.next().await.unwrap();
        let listed = tasks.list();
        let [task] = &listed[..] else { panic!("{listed:?}") };
        let shown = (task.id, task.kind, task.title.as_str(), task.ended.as_deref());
        assert_eq!(shown, (1, BackgroundKind::Command, HOLD, None));
        // The agent has read the output, and the program sees it too.
        assert_eq!(tasks.output(1).as_deref(), Some("locked\n"));
        assert!(tasks.stop(1));
        let state = run.next().await.unwrap();
        assert!(!said(state, 2).contains("still running"), "{}", said(state, 2));
        assert!(tasks.list()[0].ended.is_some());
        is_free(home.path()).await;
    });
}

#[test]
fn a_command_in_the_background_ends_when_the_run_is_dropped() {
    run(async {
        let home = tempfile::tempdir().unwrap();
        let mut run = holding(home.path()).start(asked(), RunOptions::default());
        run.next().await.unwrap();
        let state = run.next().await.unwrap();
        assert_eq!(said(state, 1), "locked\n\n[command 1 is still running]");
        drop(run);
        is_free(home.path()).await;
    });
}
