//! A conversation with two branches: a fork copies no data, and each continues on its own.
//!
//! `cargo run -p loopwright --example session_fork`

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;

use loopwright::{
    agent::{AgentDefinition, DefinitionLoopFactory},
    prelude::*,
    sessions::{AgentSession, MemoryStore, SendMessage, SessionFactory, SessionId, SessionRuntime},
};
use loopwright_testing::FakeModel;

fn told(name: &str, session: &AgentSession) {
    let said: Vec<_> = session.state().transcript().iter().map(|it| it.message().text()).collect();
    println!("{name}: {}", said.join(" | "));
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let model = FakeModel::script(["By sea.", "Two days.", "By land then.", "By air then."]);
    let loops = DefinitionLoopFactory::new(AgentBuilder::base().with(UseLlm::from_model(model)));
    let runtime = SessionRuntime::new(Arc::new(MemoryStore::new()), loops);
    let definition = AgentDefinition::new("guide", "Plans ways", "You plan ways.");
    let now = loopwright::runtime::RunEnv::system().clock.now();
    let trip = runtime.create(SessionFactory::new().create(definition, now)).await?.id().clone();
    runtime.execute(&trip, &SendMessage::text("How do I get to Piran?")).await?;
    runtime.execute(&trip, &SendMessage::text("How long?")).await?;

    // From the end of the first step, without the second question.
    let other = runtime.fork(&trip, Some(1), Some(SessionId::new("other")?)).await?;
    told("fork", &runtime.execute(&other.id, &SendMessage::text("I fear the sea.")).await?);
    told("trip", &runtime.session(&trip).await?);
    println!("the fork's parent is the trip: {}", other.parent.as_ref() == Some(&trip));

    // A rewind deletes no data either: forks can still read the abandoned steps.
    runtime.rewind(&trip, 1).await?;
    told("trip", &runtime.execute(&trip, &SendMessage::text("And by air?")).await?);
    Ok(())
}
