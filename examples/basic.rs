//! A question and its answer, by an agent that cannot run away.
//!
//! `cargo run -p loopwright --example basic`

#![expect(clippy::print_stdout, reason = "an example prints")]

use loopwright::agent::UseContextConfig;
use loopwright::prelude::*;
use loopwright_testing::FakeModel;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    // With a key in the environment, `Providers::from_env().model("openai/gpt-5-mini")?` asks a real one.
    let model = FakeModel::script(["Ljubljana."]);
    let agent = AgentBuilder::base()
        .with_capability(UseContextConfig::new("Answer in one word."))
        .with_capability(UseLlmConfig::model(model))
        .with_capability(UseGuards::none().max_steps(3).max_tokens(2_000).max_seconds(30.0))
        .build()?;

    let question = AgentState::new().with_user_message("What is the capital of Slovenia?");
    let state = agent.execute(question).await;
    println!("{} ({:?}, {} step)", state.text(), state.status(), state.step_count());
    Ok(())
}
