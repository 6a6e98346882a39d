//! Tools for the files of one directory, confined to it; offline, with a scripted model.
//!
//! `cargo run -p loopwright --example coding_tools`

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;

use loopwright::{
    capabilities::files::{MemoryFileJournal, WorkspaceRoot},
    prelude::*,
};
use loopwright_testing::{FakeModel, ScenarioStep};
use serde_json::json;

fn main() -> Result<(), BoxError> {
    // A program that uses the sandbox starts with this line, because it is its own helper.
    loopwright::sandbox::init();
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work())
}

async fn work() -> Result<(), BoxError> {
    let folder = tempfile::tempdir()?;
    // The journal records each change before it is made, so that you can undo it.
    let journal = Arc::new(MemoryFileJournal::new());
    let root =
        WorkspaceRoot::new(folder.path()).protect("Cargo.lock").with_journal(journal.clone());

    let new = |path, text| json!({ "path": path, "content": text, "create_dirs": true });
    let edit =
        json!({ "path": "src/main.rs", "old_string": "{\n}", "new_string": "{\n    greet();\n}" });
    let model = FakeModel::script([
        ScenarioStep::tool_call("write_file", new("src/main.rs", "fn main() {\n}\n")),
        ScenarioStep::tool_call("edit_file", edit),
        ScenarioStep::tool_calls([
            ("read_file", json!({ "path": "src/main.rs" })),
            ("grep", json!({ "pattern": "greet" })),
            ("read_file", json!({ "path": "../../etc/passwd" })),
            ("write_file", new(".git/hooks/pre-commit", "")),
            ("bash", json!({ "command": "wc -l src/main.rs" })),
        ]),
        ScenarioStep::final_answer("There is a program now; it greets."),
    ]);
    let agent = AgentBuilder::standard()
        .with(UseLlm::from_model(model))
        .with(UseCodingTools::in_dir(root.clone()))
        .build()?;

    let state = agent.execute(AgentState::new().with_user_message("Write a program.")).await;
    for (call, result) in state.tool_calls() {
        println!("{} {}\n  {}", call.name, call.arguments, result.to_text());
    }
    println!("{}", state.text());

    for (change, came) in journal.rewind(&root, 0)? {
        println!("undone: {} ({came:?})", change.path);
    }
    Ok(())
}
