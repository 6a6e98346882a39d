//! An agent from a Markdown file that allows it one tool; offline, with a scripted model.
//!
//! `cargo run -p loopwright --example template_from_markdown`

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::path::Path;

use loopwright::{
    agent::{DefinitionLoopFactory, DefinitionStateFactory, LoopFactory as _, StateFactory as _},
    prelude::*,
    runtime::ToolRegistry,
    templates::DefinitionLoader,
};
use loopwright_testing::{FakeModel, ScenarioStep};
use serde_json::json;

/// Adds two numbers.
#[tool]
async fn add(a: i64, b: i64) -> i64 {
    a + b
}

/// Multiplies two numbers.
#[tool]
async fn multiply(a: i64, b: i64) -> i64 {
    a * b
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/agents/calculator.md");
    let calculator = DefinitionLoader::new().load(&path)?.definition;

    // The registry has more tools than the file allows.
    let mut tools = ToolRegistry::new();
    tools.register(add);
    tools.register(multiply);
    let model = FakeModel::script([
        ScenarioStep::tool_calls([("add", json!({ "a": 19, "b": 23 }))]),
        ScenarioStep::final_answer("It is 42."),
    ]);
    let base = AgentBuilder::base().with(UseLlm::from_model(model));
    let agent = DefinitionLoopFactory::new(base).with_tools(tools).instantiate(&calculator)?;
    println!("tools: {:?}", agent.tools().names());

    let state = DefinitionStateFactory.instantiate(&calculator, AgentState::new());
    let state = agent.execute(state.with_user_message("What is 19 and 23?")).await;
    println!("{}", state.text());
    Ok(())
}
