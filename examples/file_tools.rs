//! The five file tools, confined to one directory.
//!
//! `cargo run -p loopwright --example file_tools`

#![expect(clippy::print_stdout, reason = "an example prints")]

use loopwright::prelude::*;
use loopwright_testing::{FakeModel, ScenarioStep};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let folder = tempfile::tempdir()?;
    std::fs::create_dir(folder.path().join("notes"))?;
    std::fs::write(folder.path().join("notes/todo.md"), "- buy bread\n- call Ann\n")?;
    let model = FakeModel::script([
        ScenarioStep::tool_calls([
            ("list_dir", json!({ "path": "." })),
            ("search_files", json!({ "pattern": "**/*.md" })),
        ]),
        ScenarioStep::tool_call("read_file", json!({ "path": "notes/todo.md" })),
        ScenarioStep::tool_calls([
            (
                "edit_file",
                json!({ "path": "notes/todo.md", "old_string": "- buy bread\n", "new_string": "" }),
            ),
            ("write_file", json!({ "path": "notes/done.md", "content": "- buy bread\n" })),
            ("write_file", json!({ "path": "../outside.md", "content": "no" })),
        ]),
        ScenarioStep::final_answer("The bread is bought."),
    ]);
    let agent = AgentBuilder::base()
        .with(UseLlm::from_model(model))
        .with(UseFileTools::in_dir(folder.path()))
        .with(UseGuards::new(Budget::unlimited().with_steps(10)))
        .build()?;

    let state = agent.execute(AgentState::new().with_user_message("I bought the bread.")).await;
    for (call, result) in state.tool_calls() {
        println!("{} {}\n{}\n", call.name, call.arguments, result.to_text());
    }
    println!("{}", state.text());
    println!("{}", std::fs::read_to_string(folder.path().join("notes/todo.md"))?);
    Ok(())
}
