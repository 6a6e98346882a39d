//! Listening to a run: all events, or events of one type. Listeners cannot change or fail the run.
//!
//! `cargo run -p loopwright --example events`

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use loopwright::{
    messages::Usage,
    prelude::*,
    runtime::events::{StepCompleted, StreamDelta, ToolCallCompleted},
};
use loopwright_testing::{FakeModel, MockTool, ScenarioStep};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let model = FakeModel::script([
        ScenarioStep::tool("I have to look.").with_usage(Usage::new(20, 5)),
        ScenarioStep::final_answer("It is there.").with_usage(Usage::new(40, 4)),
    ])
    .with_fragment_size(6);

    // Listeners can be added before or after the capabilities.
    let tokens = Arc::new(AtomicU64::new(0));
    let sum = Arc::clone(&tokens);
    let agent = AgentBuilder::standard()
        .wiretap(|it| println!("{:>3} {}", it.seq, it.event.name()))
        .with(UseLlm::from_model(model))
        .with(UseTools::new().with_tool(MockTool::scripted()))
        .on_event(|it: &StreamDelta, _| println!("      a fragment: {:?}", it.delta))
        .on_event(|it: &ToolCallCompleted, _| println!("      {} answered", it.tool))
        .on_event(move |it: &StepCompleted, _| {
            sum.fetch_add(it.usage.total(), Relaxed);
        })
        .build()?;

    let state = agent.execute(AgentState::new().with_user_message("Is it there?")).await;
    println!("{} ({} tokens)", state.text(), tokens.load(Relaxed));
    Ok(())
}
