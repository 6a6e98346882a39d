//! One tool without a capability: commands in a sandbox.
//!
//! `cargo run -p loopwright --example bash_tool`

#![expect(clippy::print_stdout, reason = "an example prints")]

use loopwright::capabilities::bash::Bash;
use loopwright::prelude::*;
use loopwright_testing::{FakeModel, ScenarioStep};
use serde_json::json;

fn main() -> Result<(), BoxError> {
    // A program that uses the sandbox starts with this line, because it is its own helper.
    loopwright::sandbox::init();
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work())
}

async fn work() -> Result<(), BoxError> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("names.txt"), "Cleo\nAnn\nBen\n")?;
    let model = FakeModel::script([
        ScenarioStep::tool_calls([
            ("bash", json!({ "command": "sort names.txt | head -1" })),
            ("bash", json!({ "command": "touch /usr/mine 2>&- || echo refused" })),
            ("bash", json!({ "command": "test -e missing.txt" })),
        ]),
        ScenarioStep::final_answer("Ann is the first of them."),
    ]);
    let agent = AgentBuilder::base()
        .with(UseLlm::from_model(model))
        .with(UseTools::new().with_tool(Bash::in_dir(folder.path())))
        .build()?;

    let state = agent.execute(AgentState::new().with_user_message("Who is first?")).await;
    for (call, result) in state.tool_calls() {
        println!("{}\n{}\n", call.arguments, result.to_text());
    }
    println!("{}", state.text());
    Ok(())
}
