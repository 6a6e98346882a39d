//! The smallest agent: only a model.
//!
//! `cargo run -p loopwright --example hello`

#![expect(clippy::print_stdout, reason = "an example prints")]

use loopwright::prelude::*;
use loopwright_testing::FakeModel;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    // A scripted model replaces a real one, so that this runs without a network.
    let model = FakeModel::script(["Hello! What can I do for you?"]);
    let agent = AgentLoop::simple(model);

    let reply = agent.ask("Hello!").await?;

    println!("{reply}");
    println!("({})", reply.state().explain_stop());
    Ok(())
}
