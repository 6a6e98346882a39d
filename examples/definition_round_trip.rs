//! A definition is saved as Markdown, loaded again, and becomes an agent; offline.
//!
//! `cargo run -p loopwright --example definition_round_trip`

#![expect(clippy::print_stdout, reason = "an example prints")]

use loopwright::{
    agent::{AgentDefinition, DefinitionLoopFactory, LoopFactory as _, NameList},
    prelude::*,
    templates::{AgentDefinitionRegistry, FileDefinitionStore},
};
use loopwright_testing::FakeModel;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let folder = tempfile::tempdir()?;
    let mut librarian = AgentDefinition::new(
        "librarian",
        "Finds books: by title, author or mood.",
        "You find books.\n\n---\n\nNever invent one.",
    );
    // No tools. A missing key would inherit all tools instead.
    librarian.tools = Some(NameList::default());
    librarian.budget = Some(Budget { steps: Some(8), ..Budget::default() });

    let saved = FileDefinitionStore::open(folder.path())?.save(&librarian)?;
    println!("{}", std::fs::read_to_string(&saved.path)?);

    let read = AgentDefinitionRegistry::new().load_from_file(&saved.path)?;
    println!("the same again: {}", *read == librarian);

    let base = AgentBuilder::base().with(UseLlm::from_model(FakeModel::default()));
    let agent = DefinitionLoopFactory::new(base).instantiate(&read)?;
    println!("{} has {} tools", agent.profile().name, agent.tools().names().len());
    Ok(())
}
