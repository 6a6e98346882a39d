//! An agent notices a wrong approach, goes back, and tries another one.
//!
//! `cargo run -p loopwright --example retrospective`

#![expect(clippy::print_stdout, reason = "an example prints")]

use loopwright::{
    capabilities::retrospective::{Checkpoints, UseExecutionRetrospective},
    prelude::*,
};
use loopwright_testing::{FakeModel, MockTool, ScenarioStep};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let guidance = "The parser is not where it fails. Read the lexer first.";
    let model = FakeModel::script([
        ScenarioStep::tool_call("look", json!({})).with_text("I look at the project."),
        ScenarioStep::tool_call("look", json!({})).with_text("It must be the parser."),
        ScenarioStep::tool_call(
            "execution_retrospective",
            json!({ "checkpoint_id": 1, "guidance": guidance }),
        ),
        ScenarioStep::final_answer("The lexer drops the last token."),
    ]);
    let retrospective = UseExecutionRetrospective::default()
        .on_rewind(|rewind, _| println!("back to checkpoint {}", rewind.checkpoint));
    let agent = AgentBuilder::base()
        .with(UseLlm::from_model(model.clone()))
        .with(UseTools::new().with_tool(MockTool::returning("look", "Looks.", "seen")))
        .with(retrospective)
        .build()?;
    let state = agent.execute(AgentState::new().with_user_message("Why does it fail?")).await;

    println!("\nwhat the model saw at the end of its requests:");
    for request in model.requests() {
        let tail = request.prompt.tail.iter().map(Message::text);
        println!("  {}", tail.collect::<String>().replace('\n', " | "));
    }
    println!("\nwhat is left of the conversation:");
    for turn in state.transcript() {
        println!("  {}", turn.message().text().lines().last().unwrap_or_default());
    }
    let Checkpoints { taken, rewinds } = Checkpoints::of(&state);
    println!("\n{} steps, {taken} checkpoints, {rewinds} rewind", state.step_count());
    Ok(())
}
