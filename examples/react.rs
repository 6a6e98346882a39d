//! Tools for a model without tool calls: it writes its decisions as text, and receives an error for
//! text that is invalid.
//!
//! `cargo run -p loopwright --example react`

#![expect(clippy::print_stdout, reason = "an example prints")]

use loopwright::agent::UseReActConfig;
use loopwright::{
    prelude::*,
    runtime::{Execution, events::ValidationFailed},
};
use loopwright_testing::FakeModel;

/// Returns the length of a text.
#[tool]
async fn length(text: String) -> usize {
    text.chars().count()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    // The first decision names a tool that does not exist.
    let model = FakeModel::script([
        r#"{"thought": "I count.", "type": "call_tool", "tool": "count", "args": {"text": "ox"}}"#,
        r#"{"thought": "I measure.", "type": "call_tool", "tool": "length", "args": {"text": "ox"}}"#,
        r#"{"thought": "Done.", "type": "final_answer", "answer": "It has two letters."}"#,
    ]);
    let agent = AgentBuilder::standard()
        .with(UseReActConfig::model(model.clone()).with_attempts(2))
        .with(UseTools::new().with_tool(length))
        .on_event(|it: &ValidationFailed, _| println!("sent back: {}", it.errors.join("; ")))
        .build()?;

    let question = "How many letters has the word ox?";
    let state = agent.execute(AgentState::new().with_user_message(question)).await;

    // The conversation has the same form as with any other driver.
    for step in state.execution().into_iter().flat_map(Execution::steps) {
        println!(
            "step {}: {}",
            step.number(),
            step.message().map(Message::text).unwrap_or_default()
        );
        for (call, outcome) in step.tool_executions() {
            println!("  {}({}) = {}", call.name, call.arguments, outcome.to_result().to_text());
        }
    }
    println!("{} model calls in {} steps", model.asked(), state.step_count());
    Ok(())
}
