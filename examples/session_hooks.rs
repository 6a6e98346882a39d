//! Hooks around loading and saving: a trace, a note at every load, and a session that rests between turns.
//!
//! `cargo run -p loopwright --example session_hooks`

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;

use loopwright::{
    agent::{AgentDefinition, DefinitionLoopFactory},
    core::Priority,
    prelude::*,
    sessions::{
        AgentSession, MemoryStore, ResumeSession, SendMessage, SessionFactory, SessionHook,
        SessionRuntime, SessionStage, SessionStatus,
    },
};
use loopwright_testing::FakeModel;
use serde_json::Value;

/// Prints every stage.
struct Trace;

#[async_trait]
impl SessionHook for Trace {
    async fn on_stage(
        &self,
        stage: SessionStage,
        session: AgentSession,
    ) -> Result<AgentSession, BoxError> {
        println!("  {stage:?}: {}", session.status());
        Ok(session)
    }
}

/// Counts loads in the metadata, and lets the session rest after each message.
struct Resting;

#[async_trait]
impl SessionHook for Resting {
    async fn on_stage(
        &self,
        stage: SessionStage,
        session: AgentSession,
    ) -> Result<AgentSession, BoxError> {
        match stage {
            SessionStage::AfterLoad => {
                let loads = session.state().metadata().get("loads").and_then(Value::as_u64);
                let counted = loads.unwrap_or(0) + 1;
                let noted = session.state().clone().with_metadata("loads", counted);
                Ok(session.with_state(noted))
            }
            SessionStage::BeforeSave
                if session.state().has_final_response()
                    && session.status() == SessionStatus::Active =>
            {
                Ok(session.suspended()?)
            }
            _ => Ok(session),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let model = UseLlmConfig::model(FakeModel::script(["Good morning."]));
    let loops = DefinitionLoopFactory::new(AgentBuilder::base().with_capability(model));
    let runtime = SessionRuntime::new(Arc::new(MemoryStore::new()), loops)
        .with_hook(Priority(10), Trace)
        .with_hook(Priority(0), Resting);
    let definition = AgentDefinition::new("host", "Greets", "You greet people.");
    let now = loopwright::core::Env::system().clock.now();

    println!("create");
    let id = runtime.create(SessionFactory::new().create(definition, now)).await?.id().clone();
    println!("say something");
    let session = runtime.execute(&id, &SendMessage::text("Hello")).await?;
    println!("it is {} now, after \"{}\"", session.status(), session.state().text());
    println!("resume");
    let session = runtime.execute(&id, &ResumeSession).await?;
    println!("loaded {} times", session.state().metadata().get("loads").unwrap_or(&0.into()));
    Ok(())
}
