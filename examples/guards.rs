//! Guards end a run at a limit, and the state names the limit.
//!
//! `cargo run -p loopwright --example guards`

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use loopwright::{messages::Usage, prelude::*};
use loopwright_testing::{FakeModel, MockTool, ScenarioStep};

/// An agent whose model never stops asking for a tool, at ten tokens a step.
async fn run(guards: UseGuards) -> Result<AgentState, BoxError> {
    let model =
        FakeModel::script([ScenarioStep::tool("One more look.").with_usage(Usage::new(8, 2))]);
    let agent = AgentBuilder::base()
        .with(UseLlm::from_model(model))
        .with(UseTools::new().with_tool(MockTool::scripted()))
        .with(guards)
        .build()?;
    Ok(agent.execute(AgentState::new().with_user_message("Look around.")).await)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    // Without a limit, this agent would never stop.
    let limits = [
        UseGuards::default(),
        UseGuards::new(Budget::unlimited().with_steps(3)),
        UseGuards::new(Budget::unlimited().with_tokens(45)),
        UseGuards::new(Budget::unlimited().with_time(Duration::ZERO)),
    ];
    for guards in limits {
        let state = run(guards).await?;
        println!("{}", state.explain_stop());
        // The message is also available as data.
        if let Some(signal) = state.stop_signal() {
            println!("    {:?} {:?}", signal.reason, signal.context);
        }
    }
    Ok(())
}
