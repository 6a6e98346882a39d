//! Questions about code: two readers search concurrently, and the agent combines their results.
//!
//! `cargo run -p loopwright --example code_search`

#![expect(clippy::print_stdout, reason = "an example prints")]

use loopwright::{
    agent::{AgentDefinition, DefinitionRegistry},
    capabilities::subagents::UseSubagents,
    prelude::*,
};
use loopwright_testing::{FakeModel, ScenarioStep};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("money.rs"), "pub fn tax(net: u64) -> u64 { net / 5 }\n")?;
    std::fs::write(folder.path().join("main.rs"), "mod money;\nfn main() { money::tax(1); }\n")?;
    // The model recognizes its caller by the question, so the order of calls does not matter.
    let model = FakeModel::from_fn(|request| {
        let said = format!("{:?}", request.prompt.turns);
        let readers = ["Where is the tax made?", "Who asks for it?"];
        let [where_, who] = readers.map(|it| json!({ "subagent": "reader", "prompt": it }));
        let step: ScenarioStep = match &*said {
            it if it.contains("[Subagent:") => {
                "It is a fifth, made in money.rs for main.rs.".into()
            }
            it if it.contains("pub fn tax") => "In money.rs: a fifth of the net.".into(),
            it if it.contains("mod money") => "main.rs asks for it once.".into(),
            it if it.contains("Where is") => {
                ScenarioStep::tool_call("read_file", json!({ "path": "money.rs" }))
            }
            it if it.contains("Who asks") => {
                ScenarioStep::tool_call("read_file", json!({ "path": "main.rs" }))
            }
            it if it.contains("search") => {
                ScenarioStep::tool_calls([("spawn_subagent", where_), ("spawn_subagent", who)])
            }
            _ => ScenarioStep::tool_call("search_files", json!({ "pattern": "*.rs" })),
        };
        step.to_response()
    });
    let mut agents = DefinitionRegistry::new();
    agents.register(AgentDefinition::new("reader", "Reads code.", "Read, then answer in a line."));
    let agent = AgentBuilder::base()
        .with(UseLlm::from_model(model))
        .with(UseFileTools::in_dir(folder.path()))
        .with(UseSubagents::new(agents))
        .build()?;

    let state = agent.execute(AgentState::new().with_user_message("How is tax made?")).await;
    for (call, result) in state.tool_calls() {
        println!("{}\n  {}", call.name, result.to_text().replace('\n', "\n  "));
    }
    println!("{}", state.text());
    Ok(())
}
