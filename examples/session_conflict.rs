//! Two writers have the same session: the first save wins, and the second one fails with an error.
//!
//! `cargo run -p loopwright --example session_conflict`

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;

use loopwright::{
    agent::AgentDefinition,
    prelude::*,
    sessions::{MemoryStore, SessionError, SessionFactory, SessionRepository, StoreError},
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let sessions = SessionRepository::new(Arc::new(MemoryStore::new()));
    let definition = AgentDefinition::new("scribe", "Writes", "You write things down.");
    let now = loopwright::runtime::RunEnv::system().clock.now();
    let session = sessions.create(SessionFactory::new().create(definition, now)).await?;
    let id = session.id().clone();

    let mine = sessions.load(&id).await?;
    let yours = sessions.load(&id).await?;
    let saved = sessions.save(mine.with_title("mine")).await?;
    println!("saved as version {}", saved.version());
    for attempt in 1..=2 {
        match sessions.save(yours.clone().with_title("yours")).await {
            Err(SessionError::Store(StoreError::Conflict { expected, found, .. })) => {
                println!("attempt {attempt}: expected version {expected}, found {found}");
            }
            other => println!("{other:?}"),
        }
    }
    // After a conflict, load the session again.
    let yours = sessions.load(&id).await?.with_title("ours");
    println!("saved as version {}", sessions.save(yours).await?.version());
    Ok(())
}
