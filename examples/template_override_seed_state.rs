//! A definition meets an existing state: the settings that each of them decides; offline.
//!
//! `cargo run -p loopwright --example template_override_seed_state`

#![expect(clippy::print_stdout, reason = "an example prints")]

use loopwright::{
    agent::{AgentDefinition, DefinitionStateFactory, StateFactory as _},
    prelude::*,
};
use serde_json::{Map, json};

fn main() {
    let seed = AgentState::new()
        .with_system_prompt("You are somebody.")
        .with_metadata("ticket", "T-7")
        .with_metadata("tone", "formal")
        .with_budget(Budget { steps: Some(5), ..Budget::default() })
        .with_user_message("Where is my parcel?");

    let mut support = AgentDefinition::new("support", "Answers customers.", "You are support.");
    support.metadata = Map::from_iter([("tone".to_owned(), json!("warm"))]);
    support.budget = Some(Budget { steps: Some(50), tokens: Some(9000), ..Budget::default() });

    let state = DefinitionStateFactory.instantiate(&support, seed);
    // The definition's prompt and metadata win. Messages stay. Of two limits, the smaller one applies.
    println!("prompt: {}", state.context().system_prompt().map_or("none", |it| &**it));
    println!("messages: {}", state.transcript().len());
    println!("metadata: {}", json!(state.metadata()));
    println!("steps: {:?}, tokens: {:?}", state.budget().steps, state.budget().tokens);
}
