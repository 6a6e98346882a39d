//! A closure as a tool, for tools with data such as a connection or a price list.
//!
//! `cargo run -p loopwright --example tool_closure`

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::collections::HashMap;

use loopwright::runtime::tool_fn;
use loopwright::{prelude::*, runtime::Step};
use loopwright_testing::{FakeModel, ScenarioStep};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// What the model passes. The comments become part of the schema that it is shown.
#[derive(Deserialize, JsonSchema)]
struct Lookup {
    /// The fruit's name, in lower case.
    fruit: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let prices = HashMap::from([("apple", 30), ("pear", 45)]);
    let price = tool_fn("price", "Looks a price up, in cents.", move |lookup: Lookup| {
        let price = prices.get(lookup.fruit.as_str()).copied();
        // An error does not end the run: the model receives it and decides how to continue.
        async move { price.ok_or_else(|| format!("there is no `{}` on the list", lookup.fruit)) }
    });

    // The model calls the tool for two prices in one step.
    let model = FakeModel::script([
        ScenarioStep::tool_calls([
            ("price", json!({ "fruit": "apple" })),
            ("price", json!({ "fruit": "durian" })),
        ]),
        ScenarioStep::final_answer("An apple is 30 cents. I have no price for durians."),
    ]);
    let agent = AgentBuilder::standard()
        .with(UseLlm::from_model(model))
        .with(UseTools::new().with_tool(price))
        .build()?;

    let question = "What do an apple and a durian cost?";
    let state = agent.execute(AgentState::new().with_user_message(question)).await;
    for (call, outcome) in state.step_at(0).into_iter().flat_map(Step::tool_executions) {
        println!("{} -> {}", call.arguments, outcome.to_result().to_text());
    }
    println!("{}", state.text());
    println!("went wrong on the way: {:?}", state.errors().collect::<Vec<_>>());
    Ok(())
}
