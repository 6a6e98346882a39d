//! A hook around loading and saving: a trace, a note at each load, and a session suspended between turns.
//!
//! `cargo run -p loopwright --example session_hooks`

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;

use loopwright::{
    agent::{AgentDefinition, DefinitionLoopFactory},
    prelude::*,
    runtime::{Priority, RunEnv},
    sessions::{
        AgentSession, MemoryStore, ResumeSession, SendMessage, SessionFactory, SessionHook,
        SessionRuntime, SessionStage, SessionStatus,
    },
};
use loopwright_testing::FakeModel;

/// Prints every stage, counts loads in the metadata, and suspends the session after each answer.
struct Resting;

#[async_trait]
impl SessionHook for Resting {
    async fn on_stage(
        &self,
        stage: SessionStage,
        session: AgentSession,
    ) -> Result<AgentSession, BoxError> {
        println!("  {stage:?}: {}", session.status());
        let known = session.state().clone();
        if stage == SessionStage::AfterLoad {
            let loads = known.metadata().get("loads").and_then(serde_json::Value::as_u64);
            return Ok(session.with_state(known.with_metadata("loads", loads.unwrap_or(0) + 1)));
        }
        let is_answered = known.has_final_response() && session.status() == SessionStatus::Active;
        let rests = stage == SessionStage::BeforeSave && is_answered;
        Ok(if rests { session.suspended()? } else { session })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let model = UseLlm::from_model(FakeModel::script(["Good morning."]));
    let loops = DefinitionLoopFactory::new(AgentBuilder::base().with(model));
    let store = Arc::new(MemoryStore::new());
    let runtime = SessionRuntime::new(store, loops).with_hook(Priority(0), Resting);
    let definition = AgentDefinition::new("host", "Greets", "You greet people.");
    let now = RunEnv::system().clock.now();
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
