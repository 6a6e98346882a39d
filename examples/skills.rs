//! Skills: listed in one line each, loaded when needed, with restricted tools while they are active.
//!
//! `cargo run -p loopwright --example skills`

#![expect(clippy::print_stdout, reason = "an example prints")]

use loopwright::{
    capabilities::skills::{SkillAudience, SkillLibrary, SkillShell, UseSkills},
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
    let project = tempfile::tempdir()?;
    std::fs::write(project.path().join("money.rs"), "fn tax(net: u64) -> u64 { net / 5 }\n")?;
    let library = SkillLibrary::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/skills"));
    println!("{}\n", library.to_text(SkillAudience::Models));
    println!("for people: {:?}\n", library.names(SkillAudience::Users));

    let load = |name: &str, arguments: &str| {
        let arguments = json!({ "skill_name": name, "arguments": arguments });
        ScenarioStep::tool_call("load_skill", arguments)
    };
    let model = FakeModel::script([
        load("project-context", "the tax"),
        load("fix-issue", "17 soon"),
        load("code-review", "money.rs"),
        // While the last skill is active, its allowed tools run without approval.
        ScenarioStep::tool_call("read_file", json!({ "path": "money.rs" })),
        ScenarioStep::final_answer("The tax is rounded down; nobody says so."),
    ]);
    let agent = AgentBuilder::base()
        .with(UseLlm::from_model(model))
        .with(UseFileTools::in_dir(project.path()))
        .with(UseSkills::new(library).with_shell(SkillShell::in_dir(project.path())))
        .build()?;

    let state = agent.execute(AgentState::new().with_user_message("Review the money.")).await;
    for (call, result) in state.tool_calls() {
        println!("{} {}\n{}\n", call.name, call.arguments, result.to_text());
    }
    println!("{}", state.text());
    Ok(())
}
