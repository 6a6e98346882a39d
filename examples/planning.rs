//! A sub-agent with few tools and a small budget makes the plan.
//!
//! `cargo run -p loopwright --example planning`

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use loopwright::{
    capabilities::planning::UsePlanningSubagent,
    prelude::*,
    runtime::events::{SubagentCompleted, SubagentSpawning},
};
use loopwright_testing::{FakeModel, ScenarioStep};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("shop.txt"), "bread, apples\n")?;
    // Parent and planner share the model, which receives their calls in this order.
    let model = FakeModel::script([
        ScenarioStep::tool_call(
            "plan_with_subagent",
            json!({ "specification": "Goal: a list of fruit. Context: shop.txt." }),
        ),
        ScenarioStep::tool_call("read_file", json!({ "path": "shop.txt" })),
        ScenarioStep::final_answer("1. Take the apples.\n2. Write fruit.txt."),
        ScenarioStep::tool_call(
            "write_file",
            json!({ "path": "fruit.txt", "content": "apples\n" }),
        ),
        ScenarioStep::final_answer("The list is in fruit.txt."),
    ]);
    let budget = Budget {
        steps: Some(3),
        tokens: Some(3_072),
        time: Some(Duration::from_secs(30)),
        ..Budget::default()
    };
    let agent = AgentBuilder::base()
        .with(UseLlm::from_model(model))
        .with(UseFileTools::in_dir(folder.path()))
        .with(
            UsePlanningSubagent::default()
                .with_planner_tools(["read_file"])
                .with_planner_budget(budget),
        )
        .on_event(|it: &SubagentSpawning, _| println!("{} begins", it.subagent))
        .on_event(|it: &SubagentCompleted, _| println!("{} is done", it.subagent))
        .build()?;

    let state = agent.execute(AgentState::new().with_user_message("List the fruit.")).await;
    for (call, result) in state.tool_calls() {
        println!("{}:\n{}\n", call.name, result.to_text());
    }
    println!("{} ({} steps of its own)", state.text(), state.step_count());
    Ok(())
}
