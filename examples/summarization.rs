//! A long conversation: older messages become a summary, and the request stays short.
//!
//! `cargo run -p loopwright --example summarization`

#![expect(clippy::print_stdout, reason = "an example prints")]

use loopwright::{
    capabilities::summarization::{
        MessageBufferSummarized, MessagesMovedToBuffer, SummarizationPolicy, UseSummarization,
    },
    prelude::*,
    runtime::events::PromptCacheBroken,
};
use loopwright_testing::{FakeModel, MockTool, ScenarioStep};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let look = MockTool::returning("look", "Looks up a town.", "A harbour town. ".repeat(12));
    let towns = ["Piran", "Izola", "Koper", "Trieste", "Muggia", "Grado", "Venice", "Chioggia"];
    let calls = towns.map(|town| ScenarioStep::tool_call("look", json!({ "town": town })));
    let model = FakeModel::script(calls.into_iter().chain(["All of them are harbours.".into()]));
    // The default is the agent's own model. This one has scripted answers.
    let summarizer = FakeModel::script(["Looked up the first towns: harbours.", "More harbours."]);
    let policy = SummarizationPolicy {
        max_message_tokens: 120,
        max_buffer_tokens: 150,
        ..SummarizationPolicy::default()
    };
    let agent = AgentBuilder::base()
        .with(UseLlm::from_model(model.clone()))
        .with(UseTools::new().with_tool(look))
        .with(UseSummarization::new(policy).with_model(summarizer))
        .build()?
        .on_event(|moved: &MessagesMovedToBuffer, _| {
            println!("moved {} turns, {} stay", moved.moved.turns, moved.kept.turns);
        })
        .on_event(|summed: &MessageBufferSummarized, _| {
            println!("summed up {} turns: {}", summed.buffer.turns, summed.summary);
        })
        .on_event(|broken: &PromptCacheBroken, _| {
            println!("the next request begins otherwise: {:?}", broken.cause);
        });

    let state = AgentState::new().with_user_message("Which of these towns are harbours?");
    let state = agent.execute(state).await;
    println!("{}", state.text());
    let turns: Vec<usize> = model.requests().iter().map(|it| it.prompt.turns.len()).collect();
    println!("turns in each request: {turns:?}");
    Ok(())
}
