//! Ways to end a run besides an answer: a tool, a hook, a limit; and the resulting state.
//!
//! `cargo run -p loopwright --example stop_conditions`

#![expect(clippy::print_stdout, reason = "an example prints")]

use loopwright::prelude::*;
use loopwright::runtime::{StopSignal, ToolDecision};
use loopwright_testing::{FakeModel, ScenarioStep};
use serde_json::json;

/// Looks around.
#[tool]
async fn look() -> &'static str {
    "There is a door."
}

/// Asks the owner, who is not there.
#[tool]
async fn ask_owner() -> Result<&'static str, ToolError> {
    Err(StopSignal::requested("ask_owner", "the owner is away").into())
}

async fn run(hook: CallableHook, guards: UseGuards) -> Result<(), BoxError> {
    let model = FakeModel::script([
        ScenarioStep::tool_call("look", json!({})).with_text("I look first."),
        ScenarioStep::tool_call("ask_owner", json!({})).with_text("I had better ask."),
        ScenarioStep::final_answer("It is done."),
    ]);
    let agent = AgentBuilder::base()
        .with(UseLlm::from_model(model))
        .with(UseTools::new().with_tool(look).with_tool(ask_owner))
        .with(UseHook::new(hook))
        .with(guards)
        .build()?;
    let state = agent.execute(AgentState::new().with_user_message("Open the door.")).await;
    println!("{}", state.explain_stop());
    println!("  final answer: {:?}", state.final_response().map(Message::text));
    println!("  said last:    {:?}", state.current_response().map(Message::text));
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let careful = CallableHook::new("careful").before_tool(|call, _state, _cx| {
        Ok(match &*call.name {
            "ask_owner" => {
                ToolDecision::Stop(StopSignal::requested("careful", "nobody is to be asked"))
            }
            _ => ToolDecision::Run,
        })
    });
    run(CallableHook::new("none"), UseGuards::none()).await?;
    run(careful, UseGuards::none()).await?;
    run(CallableHook::new("none"), UseGuards::new(Budget::unlimited().with_steps(1))).await
}
