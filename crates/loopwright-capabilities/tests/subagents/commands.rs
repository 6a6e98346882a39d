//! Commands in the background that a sub-agent started.

use loopwright_capabilities::background::BackgroundTasks;
use loopwright_capabilities::bash::LastingCommands;

use super::*;

/// How the run of the sub-agent ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Answers,
    Fails,
    /// Its parent ends it.
    Stopped,
}

/// A tool that returns when so many processes have these words.
fn counting(name: &str, words: &str, count: usize) -> MockTool {
    let words = words.to_owned();
    MockTool::with_cx(name, "", move |_, _| {
        let words = words.clone();
        Box::pin(async move {
            until(|| processes(&words) == count).await;
            Ok(ToolOutput::text("seen"))
        })
    })
}

/// A tool that returns when its run is cancelled.
fn waiting() -> MockTool {
    MockTool::with_cx("wait", "", |_, cx| {
        let cancel = cx.cancel.clone();
        Box::pin(async move {
            cancel.cancelled().await;
            Ok(ToolOutput::text("cancelled"))
        })
    })
}

/// A parent whose sub-agent starts the command, and which then waits until the command has ended.
fn model(ending: Ending, command: String) -> FakeModel {
    FakeModel::from_fn(move |request| {
        let call = |name: &str, arguments| ScenarioStep::tool_call(name, arguments);
        let gone = || call("gone", json!({}));
        let step = match (first_said(request).as_str(), request.prompt.turns.len()) {
            ("go", 1) => ScenarioStep::tool_calls([ask("helper", "one")]),
            ("go", 2) if ending == Ending::Stopped => call("runs", json!({})),
            ("go", 3) if ending == Ending::Stopped => call("subagent_stop", json!({ "id": "1" })),
            ("go", 2 | 4) => gone(),
            ("one", 1) => call("bash_start", json!({ "command": command })),
            ("one", 2) => call("runs", json!({})),
            ("one", _) => match ending {
                Ending::Answers => ScenarioStep::final_answer("done"),
                Ending::Fails => ScenarioStep::error("no"),
                Ending::Stopped => call("wait", json!({})),
            },
            _ => ScenarioStep::final_answer("done"),
        };
        step.to_response()
    })
}

#[tokio::test]
async fn a_background_command_of_a_sub_agent_ends_with_it_however_it_ends() {
    loopwright_sandbox::set_helper_path(sandbox_helper());
    let endings = [Ending::Answers, Ending::Fails, Ending::Stopped];
    let cases = endings.into_iter().flat_map(|it| [(it, false), (it, true)]);
    for (number, (ending, is_lasting)) in cases.enumerate() {
        // A length that no other process sleeps.
        let sleep = format!("sleep {}.62{number}", 100_000 + std::process::id());
        let home = tempfile::tempdir().unwrap();
        let bash = UseBash::in_dir(home.path())
            .with_backend(Backend::Host)
            .with_background(Background::Allowed);
        let lasting = LastingCommands::listed_in(BackgroundTasks::default());
        let bash = if is_lasting { bash.with_lasting_commands(lasting.clone()) } else { bash };
        let tools = [counting("runs", &sleep, 1), counting("gone", &sleep, 0), waiting()];
        let background = ending == Ending::Stopped;
        let agent = AgentBuilder::base()
            .with_capability(UseLlmConfig::model(model(ending, sleep.clone())))
            .with_capability(tools.into_iter().fold(UseTools::new(), UseTools::with_tool))
            .with_capability(bash)
            .with_capability(UseSubagents::new(agents([AgentDefinition {
                background,
                ..helper()
            }])))
            .build()
            .unwrap();
        let state = agent.execute(go(Budget::unlimited())).await;
        // The parent saw it while its own run was in progress.
        let told = told(&state);
        assert_eq!(told.last().unwrap(), "seen", "{ending:?} {is_lasting} {told:?}");
        assert_eq!(state.text(), "done", "{ending:?} {is_lasting} {told:?}");
    }
}
