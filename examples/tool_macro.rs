//! A function as a tool: `#[tool]` derives the schema from its parameters, and the model reads its
//! doc comment.
//!
//! `cargo run -p loopwright --example tool_macro`

#![expect(clippy::print_stdout, reason = "an example prints")]

use loopwright::{prelude::*, runtime::Execution};
use loopwright_testing::{FakeModel, ScenarioStep};
use serde_json::json;

/// Adds two numbers.
#[tool]
async fn add(
    /// The first one.
    a: i64,
    /// The second one.
    b: i64,
) -> i64 {
    a + b
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    // The scripted model first passes an argument of the wrong type. The loop returns an error, and the
    // second call is valid.
    let model = FakeModel::script([
        ScenarioStep::tool_call("add", json!({ "a": 17, "b": "25" })),
        ScenarioStep::tool_call("add", json!({ "a": 17, "b": 25 })),
        ScenarioStep::final_answer("17 and 25 make 42."),
    ]);
    let agent = AgentBuilder::standard()
        .with(UseLlm::from_model(model))
        .with(UseTools::new().with_tool(add))
        .build()?;

    let shown = &agent.tools().specs()[0];
    println!("The model is shown: {} - {}", shown.name, shown.description);
    println!("with the schema: {}\n", shown.parameters);

    let state = agent.execute(AgentState::new().with_user_message("17 + 25?")).await;
    for step in state.execution().into_iter().flat_map(Execution::steps) {
        for (call, outcome) in step.tool_executions() {
            println!("{}({})", call.name, call.arguments);
            println!("  -> {}", outcome.to_result().to_text());
        }
    }
    println!("\n{}", state.text());
    Ok(())
}
