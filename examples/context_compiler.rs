//! A context compiler selects the part of a state that the model sees. This one wraps the default
//! compiler and adds an unrecorded task list to the end of each request.
//!
//! `cargo run -p loopwright --example context_compiler`

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;

use async_trait::async_trait;
use loopwright::{
    agent::UseContextCompilerDecorator,
    messages::Prompt,
    prelude::*,
    runtime::{CompileError, ContextCompiler},
};
use loopwright_testing::{FakeModel, MockTool, ScenarioStep};

struct WithTasks(Arc<dyn ContextCompiler>);

#[async_trait]
impl ContextCompiler for WithTasks {
    async fn compile(
        &self,
        state: &AgentState,
        previous: Option<Prompt>,
    ) -> Result<Prompt, CompileError> {
        let mut prompt = self.0.compile(state, previous).await?;
        // Put content that changes at each step in the tail. The prefix of requests stays the same, and the
        // provider's cache stays warm.
        let left = 2_u32.saturating_sub(state.step_count());
        prompt.tail.push(Message::user(format!("[rooms left to look at: {left}]")));
        Ok(prompt)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let look = || ScenarioStep::tool("I look at a room.");
    let model = FakeModel::script([look(), look(), "Nobody is there.".into()]);
    let agent = AgentBuilder::standard()
        .with(UseLlm::from_model(model.clone()))
        .with(UseTools::new().with_tool(MockTool::scripted()))
        .with(UseContextCompilerDecorator::new(|inner| Arc::new(WithTasks(inner))))
        .build()?;

    let state = agent.execute(AgentState::new().with_user_message("Is anybody there?")).await;
    for (number, request) in (1..).zip(model.requests()) {
        let turns = request.prompt.stable().map(|turn| turn.message());
        let shown: Vec<String> = turns.chain(&request.prompt.tail).map(Message::text).collect();
        println!("request {number}: {}", shown.join(" | "));
    }
    println!("recorded:  {} turns, the last of them: {}", state.transcript().len(), state.text());
    Ok(())
}
