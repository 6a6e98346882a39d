//! The components of an agent: for people, for programs, and for the agent itself.
//!
//! `cargo run -p loopwright --example describe`

#![expect(clippy::print_stdout, reason = "an example prints")]

use loopwright::{
    agent::{DescribeAgent as _, UseIdentity},
    capabilities::self_description::UseSelfDescription,
    prelude::*,
};
use loopwright_testing::{FakeModel, ScenarioStep};
use serde_json::json;

/// Looks up who wrote a book.
#[tool]
async fn author(title: String) -> String {
    format!("Nobody knows who wrote {title}.")
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let model = FakeModel::script([
        ScenarioStep::tool_call("describe_self", json!({ "section": "tools" })),
        ScenarioStep::final_answer("I can look up authors."),
    ]);
    let agent = AgentBuilder::base()
        .with(UseIdentity::new("librarian", "Finds books."))
        .with(UseLlm::from_model(model))
        .with(UseTools::new().with_tool(author))
        .with(UseGuards::default())
        .with(UseSelfDescription)
        .build()?;

    // The output is deterministic and contains no keys, addresses or headers.
    println!("{}", agent.describe().to_markdown());

    let state = agent.execute(AgentState::new().with_user_message("What can you do?")).await;
    for (call, result) in state.tool_calls() {
        println!("{}: {}", call.name, result.to_text());
    }
    println!("{}", state.text());
    Ok(())
}
