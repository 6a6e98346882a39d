//! The same agent as in `template_from_definition`, from a YAML file; offline.
//!
//! `cargo run -p loopwright --example template_from_yaml`

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::path::Path;

use loopwright::{
    agent::{DefinitionLoopFactory, DefinitionStateFactory, LoopFactory as _, StateFactory as _},
    prelude::*,
    templates::DefinitionLoader,
};
use loopwright_testing::FakeModel;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/agents/greeter.yaml");
    let greeter = DefinitionLoader::new().load(&path)?.definition;

    let model = FakeModel::script(["Good morning!"]);
    let base = AgentBuilder::standard().with(UseLlm::from_model(model));
    let agent = DefinitionLoopFactory::new(base).instantiate(&greeter)?;

    let state = DefinitionStateFactory.instantiate(&greeter, AgentState::new());
    let state = agent.execute(state.with_user_message("Hello!")).await;
    println!("{}: {}", greeter.label(), state.text());
    Ok(())
}
