//! Hooks: this agent cannot delete files, and tool results are redacted before the model sees them.
//!
//! `cargo run -p loopwright --example hooks`

#![expect(clippy::print_stdout, reason = "an example prints")]

use loopwright::prelude::*;
use loopwright::runtime::{ToolDecision, ToolOutcome, ToolOutput};
use loopwright_testing::{FakeModel, ScenarioStep};
use serde_json::json;

/// Reads a file.
#[tool]
async fn read(path: String) -> String {
    format!("contents of {path}, password=hunter2")
}

/// Deletes a file.
#[tool]
async fn delete(path: String) -> String {
    format!("deleted {path}")
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    // Closures as hooks: one closure for each point of the run.
    let read_only = CallableHook::new("read_only").before_tool(|call, _state, _cx| {
        Ok(match &*call.name {
            "delete" => ToolDecision::Block { reason: "this agent only reads".into() },
            _ => ToolDecision::Run,
        })
    });
    let no_secrets = CallableHook::new("no_secrets").after_tool(|_call, outcome, _state, _cx| {
        if let ToolOutcome::Returned(output) = outcome {
            *output = ToolOutput::text(output.to_text().replace("hunter2", "***"));
        }
        Ok(Flow::Continue)
    });

    let model = FakeModel::script([
        ScenarioStep::tool_call("read", json!({ "path": "notes.txt" })),
        ScenarioStep::tool_call("delete", json!({ "path": "notes.txt" })),
        ScenarioStep::final_answer("I read the file, and was not allowed to delete it."),
    ]);
    let agent = AgentBuilder::standard()
        .with(UseLlm::from_model(model))
        .with(UseTools::new().with_tool(read).with_tool(delete))
        .with(UseHook::new(read_only))
        .with(UseHook::new(no_secrets))
        .build()?;

    let state = agent.execute(AgentState::new().with_user_message("Tidy up.")).await;
    for (call, result) in state.tool_calls() {
        println!("{:>6}: {}", call.name, result.to_text());
    }
    println!("{}", state.text());
    Ok(())
}
