//! An agent lists the available agents and defines another one; offline.
//!
//! `cargo run -p loopwright --example definition_tools`

#![expect(clippy::print_stdout, reason = "an example prints")]

use loopwright::{
    agent::{AgentDefinition, Definitions as _},
    prelude::*,
    templates::{AgentDefinitionRegistry, FileDefinitionStore, UseAgentDefinitions},
};
use loopwright_testing::{FakeModel, ScenarioStep};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let folder = tempfile::tempdir()?;
    let agents = AgentDefinitionRegistry::new();
    agents.register(AgentDefinition::new("reader", "Reads and sums up.", "You read."));

    // Without a store, `write_agent` is not available.
    let definitions = UseAgentDefinitions::new(agents.clone())
        .with_store(FileDefinitionStore::open(folder.path())?);
    let wrong = json!({ "name": "Critic!", "description": "", "systemPrompt": "You judge." });
    let right = json!({
        "name": "critic", "description": "Judges what others wrote.",
        "systemPrompt": "You judge.", "tools": [],
    });
    let model = FakeModel::script([
        ScenarioStep::tool_calls([
            ("list_agents", json!({})),
            ("read_agent", json!({ "name": "reader" })),
        ]),
        ScenarioStep::tool_calls([("write_agent", wrong)]),
        ScenarioStep::tool_calls([("write_agent", right)]),
        ScenarioStep::final_answer("There is a critic now."),
    ]);
    let agent =
        AgentBuilder::standard().with(UseLlm::from_model(model)).with(definitions).build()?;

    let state = agent.execute(AgentState::new().with_user_message("We need a critic.")).await;
    for (call, result) in state.tool_calls() {
        let text = result.to_text();
        println!("{}: {}", call.name, text.replace(&*folder.path().to_string_lossy(), "agents"));
    }
    println!("{} {}", state.text(), agents.names().join(", "));
    Ok(())
}
