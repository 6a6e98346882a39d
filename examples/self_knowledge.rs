//! An agent that knows where the documentation of its own software is.
//!
//! `cargo run -p loopwright --example self_knowledge`

#![expect(clippy::print_stdout, reason = "an example prints")]

use loopwright::{
    agent::DescribeAgent as _, capabilities::self_description::UseSelfKnowledge, prelude::*,
};
use loopwright_testing::FakeModel;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let folder = tempfile::tempdir()?;
    let docs = folder.path().join("docs");
    std::fs::create_dir(&docs)?;
    for (name, text) in [("README.md", "# Shop"), ("prices.md", "# Prices"), ("ways.md", "# Ways")]
    {
        std::fs::write(docs.join(name), text)?;
    }
    let model = FakeModel::script(["It is all in prices.md."]);
    let asked = model.clone();
    let knowledge = UseSelfKnowledge::in_dir(&docs)
        .with_topic("prices", ["prices.md"])
        .with_topic("delivery", ["ways.md"]);
    let agent = AgentBuilder::base()
        .with(UseLlm::from_model(model))
        .with(UseFileTools::in_dir(folder.path()))
        .with(knowledge.clone())
        .build()?;
    agent.execute(AgentState::new().with_user_message("What does it cost?")).await;
    let told = asked.requests()[0].system.clone().unwrap_or_default();
    println!("{}\n", told.replace(&*folder.path().to_string_lossy(), "/shop"));

    // Without a tool that reads files, the prompt does not mention the documentation.
    let blind = AgentBuilder::base()
        .with(UseLlm::from_model(FakeModel::default()))
        .with(knowledge)
        .build()?;
    println!("without a tool that reads: {:?}", blind.describe().notes.get("selfKnowledge"));
    Ok(())
}
