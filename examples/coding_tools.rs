//! Tools for the files of one directory, confined to it; offline, with a scripted model.
//!
//! `cargo run -p loopwright --example coding_tools`

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;

use loopwright::{
    capabilities::{
        coding::UseCodingTools,
        files::{MemoryFileJournal, Root},
    },
    core::Step,
    prelude::*,
};
use loopwright_testing::{FakeModel, ScenarioStep};
use serde_json::json;

fn main() -> Result<(), BoxError> {
    // A program that runs commands in the sandbox begins with this line: it is its own helper.
    loopwright::sandbox::init();
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work())
}

async fn work() -> Result<(), BoxError> {
    let folder = std::env::temp_dir().join(format!("coding-tools-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    // The journal is told of each change before it is made, so that it can be undone.
    let journal = Arc::new(MemoryFileJournal::new());
    let root = Root::new(&folder).protect("Cargo.lock").journal(journal.clone());

    let model = FakeModel::script([
        ScenarioStep::tool_calls([(
            "write_file",
            json!({ "path": "src/main.rs", "content": "fn main() {\n}\n", "create_dirs": true }),
        )]),
        ScenarioStep::tool_calls([(
            "edit_file",
            json!({ "path": "src/main.rs", "old_string": "{\n}", "new_string": "{\n    greet();\n}" }),
        )]),
        ScenarioStep::tool_calls([
            ("read_file", json!({ "path": "src/main.rs" })),
            ("grep", json!({ "pattern": "greet" })),
            ("read_file", json!({ "path": "../../etc/passwd" })),
            (
                "write_file",
                json!({ "path": ".git/hooks/pre-commit", "content": "", "create_dirs": true }),
            ),
            ("bash", json!({ "command": "wc -l src/main.rs" })),
        ]),
        ScenarioStep::final_answer("There is a program now; it greets."),
    ]);
    let agent = AgentBuilder::standard()
        .with_capability(UseLlmConfig::model(model))
        .with_capability(UseCodingTools::in_dir(root.clone()))
        .build()?;

    let state = agent.execute(AgentState::new().with_user_message("Write a program.")).await;
    for step in (0..).map_while(|step| state.step_at(step)) {
        for (call, outcome) in Step::tool_executions(step) {
            println!("{} {}\n  {}", call.name, call.arguments, outcome.to_result().to_text());
        }
    }
    println!("{}", state.text());

    for (change, came) in journal.rewind(&root, 0)? {
        println!("undone: {} ({came:?})", change.path);
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
