//! Data extracted from text and stored for a tool, and an answer as a value of a Rust type.
//!
//! `cargo run -p loopwright --example structured_output`

#![expect(clippy::print_stdout, reason = "an example prints")]

use loopwright::{
    capabilities::structured::{RunTyped as _, SchemaRegistry, UseStructuredOutputs},
    prelude::*,
};
use loopwright_testing::{FakeModel, ScenarioStep};
use serde_json::json;

/// Somebody who may buy something.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Lead {
    name: String,
    email: String,
}

/// Enters the lead that is durable.
#[tool]
async fn create_lead(cx: &ToolCx<'_>) -> Result<String, BoxError> {
    let lead = cx.state.metadata().get("current_lead").ok_or("there is no lead yet")?;
    Ok(format!("entered {lead}"))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let mail = "Hello, I am Ann, write me at ann@example.org.";
    let extract = json!({ "input": mail, "schema": "lead", "store_as": "current_lead" });
    // Invalid data goes back to the model with the errors.
    let model = FakeModel::script([
        ScenarioStep::tool_call("structured_output", extract),
        ScenarioStep::final_answer(r#"{ "name": "Ann" }"#),
        ScenarioStep::final_answer(r#"{ "name": "Ann", "email": "ann@example.org" }"#),
        ScenarioStep::tool_call("create_lead", json!({})),
        ScenarioStep::final_answer("Ann is entered."),
        ScenarioStep::final_answer(r#"{ "name": "Ann", "email": "ann@example.org" }"#),
    ]);
    let schemas = SchemaRegistry::new().with_type::<Lead>("lead");
    let agent = AgentBuilder::base()
        .with(UseLlm::from_model(model))
        .with(UseStructuredOutputs::new(schemas))
        .with(UseTools::new().with_tool(create_lead))
        .build()?;

    let state = agent.execute(AgentState::new().with_user_message(mail)).await;
    for (call, result) in state.tool_calls() {
        println!("{}: {}", call.name, result.to_text());
    }
    println!("{}", state.text());

    let typed = agent.run_typed::<Lead>(state.with_user_message("Who was that?")).await?;
    println!("{} <{}>", typed.value.name, typed.value.email);
    Ok(())
}
