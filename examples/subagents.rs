//! Delegated work: a reviewer and a documenter, called three times. Neither exceeds the rights of its parent.
//!
//! `cargo run -p loopwright --example subagents`

#![expect(clippy::print_stdout, reason = "an example prints")]

use loopwright::{
    agent::{AgentDefinition, DefinitionRegistry},
    capabilities::subagents::UseSubagents,
    prelude::*,
    runtime::events::SubagentCompleted,
};
use loopwright_testing::{FakeModel, ScenarioStep};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("tax.rs"), "fn tax(net: u64) -> u64 { net / 5 }\n")?;
    let hand = |to: &str, prompt: &str| {
        ScenarioStep::tool_call("spawn_subagent", json!({ "subagent": to, "prompt": prompt }))
    };
    let write = json!({ "path": "tax.md", "content": "A fifth." });
    let model = FakeModel::script([
        hand("reviewer", "Is tax.rs right?"),
        ScenarioStep::tool_call("read_file", json!({ "path": "tax.rs" })),
        // A reviewer has no tool that writes, so this call fails.
        ScenarioStep::tool_call("write_file", write.clone()),
        ScenarioStep::final_answer("It rounds down."),
        hand("documenter", "Describe tax.rs."),
        ScenarioStep::tool_call("write_file", write),
        ScenarioStep::final_answer("Done, in tax.md."),
        hand("reviewer", "Is tax.md right?"),
        ScenarioStep::final_answer("It is."),
        ScenarioStep::final_answer("The tax is reviewed and described."),
    ]);
    let mut reviewer = AgentDefinition::new("reviewer", "Finds mistakes.", "Find mistakes.");
    reviewer.tools = Some(["read_file"].into_iter().collect());
    let documenter = AgentDefinition::new("documenter", "Writes documentation.", "Document.");
    let mut agents = DefinitionRegistry::new();
    agents.register(reviewer);
    agents.register(documenter);

    let agent = AgentBuilder::base()
        .with(UseLlm::from_model(model))
        .with(UseFileTools::in_dir(folder.path()))
        .with(UseSubagents::new(agents))
        .on_event(|it: &SubagentCompleted, _| println!("  {} took {} steps", it.subagent, it.steps))
        .build()?;

    let state = agent.execute(AgentState::new().with_user_message("Look after the tax.")).await;
    for (_, result) in state.tool_calls() {
        println!("{}", result.to_text());
    }
    println!("{}", state.text());
    Ok(())
}
