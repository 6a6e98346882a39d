//! A definition that names a capability and allows some of the tools; offline.
//!
//! `cargo run -p loopwright --example template_with_tools_and_capabilities`

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;

use loopwright::{
    agent::{CapabilityRegistry, DefinitionLoopFactory, LoopFactory as _},
    prelude::*,
    runtime::ToolRegistry,
    templates::{DefinitionFormat, DefinitionLoader},
};
use loopwright_testing::{FakeModel, MockTool, ScenarioStep};

const FILE: &str = "
name: helper
description: Helps within limits.
capabilities: [guards.basic]
tools: [look]
systemPrompt: You help.
";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let yaml = DefinitionFormat::Yaml.extension();
    let helper = DefinitionLoader::new().read(yaml, FILE)?.definition;

    // Names in definitions refer to capabilities that the program registers.
    let mut capabilities = CapabilityRegistry::new();
    capabilities
        .register_factory("guards.basic", || Ok(UseGuards::new(Budget::unlimited().with_steps(2))));
    let mut tools = ToolRegistry::new();
    tools.register(MockTool::returning("look", "Looks.", "nothing new"));
    tools.register(MockTool::returning("change", "Changes.", "changed"));

    let again = || ScenarioStep::tool("look");
    let model = FakeModel::script([again(), again(), again()]);
    let agent = DefinitionLoopFactory::new(AgentBuilder::base().with(UseLlm::from_model(model)))
        .with_capabilities(Arc::new(capabilities))
        .with_tools(tools)
        .instantiate(&helper)?;
    println!("tools: {:?}", agent.tools().names());

    let state = agent.execute(AgentState::new().with_user_message("Look around.")).await;
    println!("{} steps: {}", state.steps().count(), state.explain_stop());
    Ok(())
}
