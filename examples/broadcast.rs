//! Broadcasts the events of an agent to this program, to a file, and to users.
//!
//! `cargo run -p loopwright --example broadcast`

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::{fs, io, sync::Arc, time::Duration};

use loopwright::runtime::RunOptions;
use loopwright::{
    broadcast::{
        BroadcastConfig, Broadcasting, CAPACITY, ConsoleObserver, ConsoleOptions, JsonLines,
    },
    capabilities::broadcasting::UseBroadcasting,
    prelude::*,
};
use loopwright_testing::{FakeModel, MockTool, ScenarioStep, test_env};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("told.jsonl");
    let broadcasting = Broadcasting::new(BroadcastConfig::standard()).with_session("demo");
    let lines =
        broadcasting.attach_transport(JsonLines::new(fs::File::create(&file)?), CAPACITY)?;
    let mut subscription = broadcasting.subscribe(CAPACITY);
    let options =
        ConsoleOptions { use_colors: false, show_timestamps: false, ..Default::default() };
    let console = Arc::new(ConsoleObserver::new(io::stdout(), options)?);

    let model = FakeModel::script([
        ScenarioStep::tool("I have to look."),
        ScenarioStep::final_answer("It is there."),
    ]);
    let agent = AgentBuilder::base()
        .with(UseLlm::from_model(model.with_fragment_size(8)))
        .with(UseTools::new().with_tool(MockTool::scripted()))
        .with(UseBroadcasting::from_broadcasting(broadcasting.clone()))
        .build()?
        .with_event_sink(console.clone());
    // A fixed clock keeps the output the same in each run.
    let options = RunOptions { env: test_env(1), ..RunOptions::default() };
    let state = agent.start(AgentState::new().with_user_message("Is it there?"), options);
    let state = state.finish().await;

    // A listener receives the queued events, then the end.
    broadcasting.close();
    console.finish(Duration::from_secs(5));
    while let Some(frame) = subscription.recv().await {
        println!("{:<21} {}", frame.kind(), frame.channel());
    }
    println!("{:?}", lines.finish(Duration::from_secs(5)));
    println!("{} lines of JSON; {}", fs::read_to_string(&file)?.lines().count(), state.text());
    Ok(())
}
