//! A durable conversation: another process continues where this one stopped.
//!
//! `cargo run -p loopwright --example session_turns`

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;

use loopwright::{
    agent::{AgentDefinition, DefinitionLoopFactory},
    prelude::*,
    sessions::{
        ChangeBudget, ChangeSystemPrompt, FileStore, ResumeSession, SendMessage, SessionError,
        SessionFactory, SessionRuntime, SuspendSession, WriteMetadata,
    },
};
use loopwright_testing::{FakeModel, ScenarioStep};

fn runtime(store: &FileStore, answers: &[&str]) -> SessionRuntime {
    let answers = answers.iter().map(|text| ScenarioStep::final_answer(*text));
    let model = UseLlm::from_model(FakeModel::script(answers));
    let loops = DefinitionLoopFactory::new(AgentBuilder::base().with(model));
    SessionRuntime::new(Arc::new(store.clone()), loops)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let directory = tempfile::tempdir()?;
    let store = FileStore::open(directory.path())?;

    let definition = AgentDefinition::new("guide", "Knows harbours", "You know every harbour.");
    let now = loopwright::runtime::RunEnv::system().clock.now();
    let first = runtime(&store, &["It is a harbour town."]);
    let session = first.create(SessionFactory::new().create(definition, now)).await?;
    let id = session.id().clone();
    let session = first.execute(&id, &SendMessage::text("What is Piran?")).await?;
    println!("1: {}", session.state().text());
    drop(first);
    // Like another process, this one knows only the name of the session.
    let second = runtime(&store, &["About four thousand people live there."]);
    second.execute(&id, &WriteMetadata::one("reader", "Ana")).await?;
    second.execute(&id, &ChangeSystemPrompt(Some("Be brief.".into()))).await?;
    second.execute(&id, &ChangeBudget(Budget { steps: Some(5), ..Budget::unlimited() })).await?;
    second.execute(&id, &SuspendSession).await?;
    match second.execute(&id, &SendMessage::text("How large is it?")).await {
        Err(SessionError::NotActive { status, .. }) => println!("refused: it is {status}"),
        other => println!("{other:?}"),
    }
    second.execute(&id, &ResumeSession).await?;
    let session = second.execute(&id, &SendMessage::text("How large is it?")).await?;
    println!("2: {}", session.state().text());

    let header = session.header();
    println!("{} about \"{}\"", header.status, header.title.as_deref().unwrap_or_default());
    let state = session.state();
    let reader = state.metadata().get("reader").and_then(|it| it.as_str()).unwrap_or("nobody");
    println!("{} executions, for {reader}", state.execution_count());
    Ok(())
}
