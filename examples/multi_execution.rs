//! A conversation of several executions. Between them, you can store the state as a value.
//!
//! `cargo run -p loopwright --example multi_execution`

#![expect(clippy::print_stdout, reason = "an example prints")]

use loopwright::prelude::*;
use loopwright_testing::{FakeModel, MockTool, ScenarioStep};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let model = FakeModel::script([
        ScenarioStep::tool("Let me look it up."),
        ScenarioStep::final_answer("It is a harbour town."),
        ScenarioStep::final_answer("About forty thousand people live there."),
    ]);
    let agent = AgentBuilder::standard()
        .with(UseLlm::from_model(model.clone()))
        .with(UseTools::new().with_tool(MockTool::scripted()))
        .build()?;

    let reply = agent.ask("What is Piran?").await?;
    println!("1: {reply} ({} steps)", reply.state().step_count());

    // Another process can continue, even days later.
    let stored = serde_json::to_string(reply.state())?;
    let state: AgentState = serde_json::from_str(&stored)?;

    // Steps and limits start anew. The conversation and the totals continue.
    let reply = agent.ask_in(state, "How large is it?").await?;
    let state = reply.state();
    println!("2: {reply} ({} step)", state.step_count());
    println!("{} executions, {} steps in all", state.execution_count(), state.total_steps());

    // Requests include the earlier tool calls, so the model need not read a file twice.
    let last = model.requests().pop().unwrap_or_default();
    let shown: Vec<String> = last.prompt.turns.iter().map(|it| it.message().text()).collect();
    println!("kept:  {} turns\nshown: {}", state.transcript().len(), shown.join(" | "));
    Ok(())
}
