//! An agent from a definition that a program creates; offline.
//!
//! `cargo run -p loopwright --example template_from_definition`

#![expect(clippy::print_stdout, reason = "an example prints")]

use loopwright::{
    agent::{
        AgentDefinition, DefinitionLoopFactory, DefinitionStateFactory, LoopFactory as _,
        StateFactory as _,
    },
    prelude::*,
};
use loopwright_testing::FakeModel;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let mut greeter =
        AgentDefinition::new("greeter", "Greets whoever comes in.", "You greet people.\nBe brief.");
    greeter.label = Some("The greeter".to_owned());

    // The base supplies the model and the settings that all agents share.
    let model = FakeModel::script(["Good morning!"]);
    let base = AgentBuilder::standard().with(UseLlm::from_model(model));
    let agent = DefinitionLoopFactory::new(base).instantiate(&greeter)?;

    let state = DefinitionStateFactory.instantiate(&greeter, AgentState::new());
    let state = agent.execute(state.with_user_message("Hello!")).await;
    println!("{}: {}", greeter.label(), state.text());
    Ok(())
}
