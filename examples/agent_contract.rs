//! An agent as a type: any process can rebuild it from its name and configuration.
//!
//! `cargo run -p loopwright --example agent_contract`

#![expect(clippy::print_stdout, reason = "an example prints")]

use loopwright::agent::UseContextConfig;
use loopwright::runtime::events;
use loopwright::{
    agent::{
        AgentContract, AgentContractRegistry, AgentDescriptor, AgentFactory as _, BuildError,
        InvalidDescriptor,
    },
    prelude::*,
};
use loopwright_testing::FakeModel;
use serde::{Deserialize, Serialize};

/// Its fields are the configuration.
#[derive(Serialize, Deserialize)]
struct Translator {
    language: String,
}

impl AgentContract for Translator {
    fn descriptor(&self) -> Result<AgentDescriptor, InvalidDescriptor> {
        AgentDescriptor::new("translator", format!("Translates into {}.", self.language))
    }

    fn build(&self) -> Result<AgentLoop, BuildError> {
        let task = format!("Translate what you are told into {}.", self.language);
        AgentBuilder::standard()
            .with(UseContextConfig::new(task))
            .with(UseLlm::from_model(FakeModel::echo()))
            .build()
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let registry = AgentContractRegistry::new().register::<Translator>("translator");
    let config = serde_json::json!({ "language": "Slovene" });

    // Like a worker, use only the name and the configuration.
    let agent = registry.create("translator", &config)?;
    println!("{}", agent.descriptor().description());
    let agent = agent.on_event(|event: &events::StepCompleted, _| println!("step {}", event.step));
    let state = agent.run(AgentState::new().with_user_message("Dober dan!")).await?;
    println!("{}", state.text());

    // A session created from this contains everything that a worker needs.
    println!("{}", serde_json::to_string(&agent.definition().metadata)?);
    println!(
        "{}",
        registry.create("poet", &config).map_or_else(|it| it.to_string(), |_| "?".into())
    );
    Ok(())
}
