//! A hook that blocks unwanted commands before they run.
//!
//! `cargo run -p loopwright --example dangerous_commands`

#![expect(clippy::print_stdout, reason = "an example prints")]

use loopwright::prelude::*;
use loopwright::runtime::ToolDecision;
use loopwright_testing::{FakeModel, ScenarioStep};
use serde_json::json;

fn main() -> Result<(), BoxError> {
    // A program that uses the sandbox starts with this line, because it is its own helper.
    loopwright::sandbox::init();
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work())
}

async fn work() -> Result<(), BoxError> {
    // The sandbox confines commands. Use such a rule for commands that it allows but you do not want.
    let house_rules = CallableHook::new("house_rules").before_tool(|call, _state, _cx| {
        let arguments = call.parse_arguments().unwrap_or_default();
        let removes = arguments["command"].as_str().is_some_and(|it| it.contains("rm "));
        Ok(if &*call.name == "bash" && removes {
            ToolDecision::Block { reason: "nothing is removed here: move it to `old`".into() }
        } else {
            ToolDecision::Run
        })
    });
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("a.log"), "")?;
    let model = FakeModel::script([
        ScenarioStep::tool_call("bash", json!({ "command": "rm -rf *.log" })),
        ScenarioStep::tool_call(
            "bash",
            json!({ "command": "mkdir old && mv *.log old && ls old" }),
        ),
        ScenarioStep::final_answer("The logs are in `old` now."),
    ]);
    let agent = AgentBuilder::base()
        .with(UseLlm::from_model(model))
        .with(UseBash::in_dir(folder.path()))
        .with(UseHook::new(house_rules))
        .build()?;

    let state = agent.execute(AgentState::new().with_user_message("Tidy up.")).await;
    for (call, result) in state.tool_calls() {
        println!("{}\n  {}", call.arguments, result.to_text());
    }
    println!("{}", state.text());
    Ok(())
}
