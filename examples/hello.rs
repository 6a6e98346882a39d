//! The smallest agent: a model, and nothing else.
//!
//! `cargo run -p loopwright --example hello`

#![expect(clippy::print_stdout, reason = "an example prints")]

use loopwright::prelude::*;
use loopwright_testing::FakeModel;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    // A model that follows a script stands for a real one, so that this runs without a network.
    let model = FakeModel::script(["Hello! What can I do for you?"]);
    let agent = AgentLoop::simple(model);

    // A state goes in and comes back with the answer. Both are plain values.
    let state = AgentState::new().with_user_message("Hello!");
    let state = agent.execute(state).await;

    println!("{}", state.text());
    println!("({})", state.explain_stop());
}
