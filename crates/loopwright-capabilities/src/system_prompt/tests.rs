use loopwright_agent::{AgentBuilder, UseContextConfig, UseLlmConfig, UseTools};
use loopwright_core::{AgentState, ToolOptions, ToolVisibility};
use loopwright_testing::{FakeModel, MockTool, ScenarioStep, block_on};

use super::*;

const HIDDEN: ToolOptions = ToolOptions {
    visibility: ToolVisibility::Deferred,
    side_effects: loopwright_core::SideEffects::AtMostOnce,
    timeout: None,
    exclusive: false,
    retry: loopwright_core::ToolRetry { attempts: 1, delay: std::time::Duration::ZERO },
    namespace: None,
    instructions: None,
    reach: loopwright_core::Reach::World,
    approval: loopwright_core::ToolApproval::Never,
};

fn builder(model: &FakeModel) -> AgentBuilder {
    let tools = UseTools::new()
        .with_tool(MockTool::scripted())
        .with_tool(MockTool::returning("bash", "Runs commands. Carefully.", ""))
        .with_tool(MockTool::returning("hidden", "Is not shown.", "").with_options(HIDDEN));
    AgentBuilder::base()
        .with_capability(
            UseSystemPrompt::new(" You build things. ")
                .with_guideline("Be concise.")
                .with_guideline(" Test. ")
                .append("Good luck."),
        )
        .with_capability(UseContextConfig::new("You are Ada."))
        .with_capability(UseLlmConfig::model(model.clone()))
        .with_capability(tools)
}

fn asked() -> AgentState {
    AgentState::new().with_system_prompt("Answer in French.").with_user_message("go")
}

const WHOLE: &str = "\
Answer in French.

You are Ada.

You build things.

Tools:
- scripted: Does nothing.
- bash: Runs commands.
There may be other tools besides these.

Guidelines:
- Be concise.
- Test.
- Use bash to list and search files.
- Refer to files by their paths.
- Report truthfully what you did and found, including failures.

Good luck.";

#[test]
fn the_prompt_tells_of_the_tools_whatever_the_order_and_leaves_other_prompts_alone() {
    let model = FakeModel::script([ScenarioStep::tool("work"), "done".into(), "again".into()]);
    let agent = builder(&model).build().unwrap();
    let state = block_on(agent.execute(asked()));
    drop(block_on(agent.execute(state.with_user_message("more"))));
    let prompts: Vec<_> = model.requests().into_iter().map(|it| it.system.unwrap()).collect();
    assert_eq!(prompts, [WHOLE, WHOLE, WHOLE].map(std::sync::Arc::from));
}

#[test]
fn a_copy_of_the_agent_with_other_tools_is_told_of_those() {
    let model = FakeModel::script(["done"]);
    let agent = builder(&model).build().unwrap();
    let fewer = agent.tools().filter(|it| &**it.name() == "hidden");
    drop(block_on(agent.with_tools(fewer).execute(AgentState::new().with_user_message("go"))));
    let prompt = model.requests()[0].system.clone().unwrap();
    assert!(prompt.contains("Tools:\n(none)\n"), "{prompt}");
    assert!(!prompt.contains("bash"), "{prompt}");
}

#[test]
fn an_agent_with_search_tools_is_asked_to_use_them() {
    let model = FakeModel::script(["done"]);
    let grep = UseTools::new().with_tool(MockTool::returning("grep", &"ü".repeat(200), ""));
    let agent = builder(&model).with_capability(grep).build().unwrap();
    drop(block_on(agent.execute(AgentState::new().with_user_message("go"))));
    let prompt = model.requests()[0].system.clone().unwrap();
    assert!(prompt.contains("- To search and list files, prefer grep"), "{prompt}");
    assert!(prompt.contains(&format!("- grep: {}...\n", "ü".repeat(157))), "{prompt}");
}
