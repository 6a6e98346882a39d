//! A system prompt that is generated from the tools of the agent, and changes with them.
//!
//! `cargo run -p loopwright --example derived_prompt`

#![expect(clippy::print_stdout, reason = "an example prints")]

use loopwright::agent::UseContextConfig;
use loopwright::{capabilities::system_prompt::UseSystemPrompt, prelude::*};
use loopwright_testing::FakeModel;

/// Tells what the weather is like in a town.
#[tool]
async fn weather(town: String) -> String {
    format!("It rains in {town}.")
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let model = FakeModel::script(["Hello."]);
    let asked = model.clone();
    let prompt = UseSystemPrompt::new("You are a travel guide.")
        .with_guideline("Ask for the dates first.")
        .append("Prices are in euros.");
    let agent = AgentBuilder::base()
        .with(UseContextConfig::new("Be friendly."))
        .with(UseLlm::from_model(model))
        .with(prompt)
        .with(UseTools::new().with_tool(weather))
        .build()?;

    let state = agent.execute(AgentState::new().with_user_message("Hello!")).await;
    // The state stores the configured prompt. Derived parts are generated for each request.
    println!("state:   {:?}\n", state.context().system_prompt());
    println!("request:\n{}", asked.requests()[0].system.as_deref().unwrap_or_default());
    Ok(())
}
