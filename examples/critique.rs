//! A critic judges answers before the run returns them: it rejects the first and accepts the second.
//!
//! `cargo run -p loopwright --example critique`

#![expect(clippy::print_stdout, reason = "an example prints")]

use loopwright::{
    capabilities::critique::{CRITIC_VERDICT, ITERATIONS, UseSelfCritique},
    prelude::*,
};
use loopwright_testing::{FakeModel, ScenarioStep};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("ages.txt"), "Ann 41\nBen 39\n")?;
    let model = FakeModel::script([
        ScenarioStep::tool_call("read_file", json!({ "path": "ages.txt" })),
        ScenarioStep::final_answer("Ben is older."),
        ScenarioStep::final_answer("Ann is older: she is 41 and Ben is 39."),
    ]);
    // The critic sees the task, the answer and the tool results. It can be a stronger model.
    let refused = json!({
        "approved": false, "summary": "The file says otherwise.",
        "weaknesses": ["Ann is 41, Ben is 39."], "suggestions": ["Compare the numbers."],
    });
    let accepted = json!({ "approved": true, "summary": "It agrees with the file." });
    let critic = FakeModel::script([refused.to_string(), accepted.to_string()]);
    let agent = AgentBuilder::base()
        .with(UseLlm::from_model(model))
        .with(UseFileTools::in_dir(folder.path()))
        .with(UseSelfCritique::with_model(critic).with_max_iterations(2))
        .build()?;

    let state = agent.execute(AgentState::new().with_user_message("Who is older?")).await;
    for turn in state.transcript() {
        let message = turn.message();
        println!("{:?}: {}", message.role(), message.text());
    }
    println!(
        "{} judgements, the last one: {:?}",
        state.get(&ITERATIONS).unwrap_or(0),
        state.get(&CRITIC_VERDICT)
    );
    Ok(())
}
