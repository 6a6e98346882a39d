//! An agent from a file writes a program, runs it, and fixes it; offline, with a scripted model.
//!
//! `cargo run -p loopwright --example coding_agent_creates`

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::{path::Path, sync::Arc};

use loopwright::{
    agent::{
        CapabilityRegistry, DefinitionLoopFactory, DefinitionStateFactory, LoopFactory as _,
        StateFactory as _,
    },
    prelude::*,
    templates::DefinitionLoader,
};
use loopwright_testing::{FakeModel, ScenarioStep};
use serde_json::{Value, json};

fn main() -> Result<(), BoxError> {
    // A program that uses the sandbox starts with this line, because it is its own helper.
    loopwright::sandbox::init();
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work())
}

async fn work() -> Result<(), BoxError> {
    let folder = tempfile::tempdir()?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/agents/builder.md");
    let builder = DefinitionLoader::new().load(&path)?.definition;
    let mut capabilities = CapabilityRegistry::new();
    capabilities.register("coding", UseCodingTools::in_dir(folder.path()));

    let call = |name: &'static str, args: Value| ScenarioStep::tool_calls([(name, args)]);
    let run = || call("bash", json!({ "command": "sh sum.sh 2 3" }));
    let model = FakeModel::script([
        call("write_file", json!({ "path": "sum.sh", "content": "echo $(($1 + $3))\n" })),
        run(),
        call("edit_file", json!({ "path": "sum.sh", "old_string": "$3", "new_string": "$2" })),
        run(),
        ScenarioStep::final_answer("sum.sh adds two numbers; 2 and 3 come to 5."),
    ]);
    let base = AgentBuilder::base().with(UseLlm::from_model(model));
    let loops = DefinitionLoopFactory::new(base).with_capabilities(Arc::new(capabilities));
    let agent = loops.instantiate(&builder)?;
    let state = DefinitionStateFactory.instantiate(&builder, AgentState::new());
    let state = agent.execute(state.with_user_message("Write a program that adds.")).await;
    for (call, result) in state.tool_calls() {
        println!("{}: {}", call.name, result.to_text().trim());
    }
    println!("{}", state.text());
    Ok(())
}
