//! What an agent is made of: for people, for programs, and for the agent itself.
//!
//! `cargo run -p loopwright --example describe`

#![expect(clippy::print_stdout, reason = "an example prints")]

use loopwright::runtime::{Execution, Step};
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
        .with_capability(UseIdentity::new("librarian", "Finds books."))
        .with_capability(UseLlmConfig::model(model))
        .with_capability(UseTools::new().with_tool(author))
        .with_capability(UseGuards::default())
        .with_capability(UseSelfDescription)
        .build()?;

    // The same each time, and without a secret: no key, address or header is part of it.
    println!("{}", agent.describe().to_markdown());

    let state = agent.execute(AgentState::new().with_user_message("What can you do?")).await;
    let steps = state.execution().into_iter().flat_map(Execution::steps);
    for (call, outcome) in steps.flat_map(Step::tool_executions) {
        println!("{}: {}", call.name, outcome.to_result().to_text());
    }
    println!("{}", state.text());
    Ok(())
}
