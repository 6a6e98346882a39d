//! A run that its caller advances step by step, with a message in between.
//!
//! `cargo run -p loopwright --example iterate`

#![expect(clippy::print_stdout, reason = "an example prints")]

use futures::StreamExt as _;
use loopwright::prelude::*;
use loopwright::runtime::RunOptions;
use loopwright_testing::{FakeModel, MockTool, ScenarioStep};

fn looking() -> Result<AgentLoop, BoxError> {
    let model = FakeModel::script([
        ScenarioStep::tool("I look at the first room."),
        ScenarioStep::tool("I look at the second room."),
        ScenarioStep::final_answer("Both rooms are empty."),
    ]);
    let builder = AgentBuilder::standard()
        .with(UseLlm::from_model(model))
        .with(UseTools::new().with_tool(MockTool::scripted()));
    Ok(builder.build()?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let asked = AgentState::new().with_user_message("Is anybody there?");

    println!("As a stream of states, one for each step:");
    let agent = looking()?;
    let mut states = std::pin::pin!(agent.iterate(asked.clone()));
    while let Some(state) = states.next().await {
        let said = state.current_response().map(Message::text).unwrap_or_default();
        println!("  step {}, {}: {said}", state.step_count(), state.status().as_str());
    }

    println!("As a run, which can be steered and left:");
    let agent = looking()?;
    let mut run = agent.start(asked, RunOptions::default());
    let handle = run.handle();
    while let Some(state) = run.next().await {
        println!("  step {} is over", state.step_count());
        if state.step_count() == 1 {
            // The holder of the handle can send a message at any time, from any thread.
            let is_late = handle.steer(Message::user("Look under the beds, too.")).is_err();
            println!("  told to look again{}", if is_late { ", too late" } else { "" });
        } else {
            break;
        }
    }
    // An abandoned run is a state in progress. You can store it and resume it with any agent.
    let state = run.into_state();
    println!("  left: {}", state.explain_stop());
    println!("Continued:");
    println!("  {}", agent.execute(state).await.text());
    Ok(())
}
