//! A question and its answer, from an agent with limits.
//!
//! `cargo run -p loopwright --example basic`

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use loopwright::agent::UseContextConfig;
use loopwright::prelude::*;
use loopwright_testing::FakeModel;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    // With a key in the environment, `Providers::from_env().model("openai/gpt-5-mini")?` calls a real model.
    let model = FakeModel::script(["Ljubljana."]);
    let agent = AgentBuilder::base()
        .with(UseContextConfig::new("Answer in one word."))
        .with(UseLlm::from_model(model))
        .with(UseGuards::new(
            Budget::unlimited().with_steps(3).with_tokens(2_000).with_time(Duration::from_secs(30)),
        ))
        .build()?;

    let reply = agent.ask("What is the capital of Slovenia?").await?;
    let state = reply.state();
    println!("{} ({:?}, {} step)", state.text(), state.status(), state.step_count());
    Ok(())
}
