//! Queries on sessions that need no agent.
//!
//! `cargo run -p loopwright --example session_reads`

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;

use loopwright::{
    agent::{AgentDefinition, DefinitionLoopFactory},
    prelude::*,
    runtime::AgentState,
    sessions::{
        MemoryStore, SendMessage, SessionFactory, SessionId, SessionQuery, SessionRuntime,
        SessionStatus, SuspendSession,
    },
};
use loopwright_testing::FakeModel;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let model = UseLlm::from_model(FakeModel::script(["It is open.", "It is closed."]));
    let loops = DefinitionLoopFactory::new(AgentBuilder::base().with(model));
    let runtime = SessionRuntime::new(Arc::new(MemoryStore::new()), loops);
    let now = loopwright::runtime::RunEnv::system().clock.now();
    for (name, question) in [("one", "Is the market open?"), ("two", "And the harbour?")] {
        let definition = AgentDefinition::new("clerk", "Knows hours", "You know opening hours.");
        let id = SessionId::new(name)?;
        let session =
            SessionFactory::new().create_from(definition, AgentState::new(), id.clone(), now);
        runtime.create(session).await?;
        runtime.execute(&id, &SendMessage::text(question)).await?;
    }
    runtime.execute(&SessionId::new("one")?, &SuspendSession).await?;

    // A session with its conversation.
    let session = runtime.session(&SessionId::new("two")?).await?;
    println!("two: {} turns, \"{}\"", session.state().transcript().len(), session.state().text());
    // The header of a session, without its conversation.
    let info = runtime.info(&SessionId::new("one")?).await?;
    println!("one: {}, {} of {}", info.status, info.agent_label, info.agent_name);
    // All sessions, the most recently written first.
    let all = runtime.list(&SessionQuery::first(10)).await?;
    println!("{} sessions", all.len());
    let active = all.with_status(SessionStatus::Active);
    println!("active: {}", active.first().map_or("none", |it| it.id.as_str()));
    Ok(())
}
