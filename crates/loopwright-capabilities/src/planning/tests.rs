//! What a planner is given, and what comes back.

use loopwright_agent::{AgentBuilder, AgentDefinition, DefinitionRegistry, UseLlmConfig, UseTools};
use loopwright_core::{AgentState, Budget, messages::Usage};
use loopwright_testing::{FakeModel, MockTool, ScenarioStep, block_on, tool_results};
use serde_json::json;

use super::UsePlanningSubagent;
use crate::subagents::UseSubagents;

/// Runs an agent that asks for one plan, and tells what it was told and what the model was asked.
fn plans(
    planning: UsePlanningSubagent,
    specification: &str,
    answer: impl Into<ScenarioStep>,
) -> (AgentState, FakeModel) {
    let ask = json!({ "specification": specification });
    let call = ScenarioStep::tool_call("plan_with_subagent", ask);
    let model = FakeModel::script([call, answer.into(), "done".into()]);
    let tools = ["read_file", "write_file"].map(|it| MockTool::returning(it, "", "ok"));
    let mut agents = DefinitionRegistry::new();
    agents.register(AgentDefinition::new("helper", "Helps.", "You help."));
    let agent = AgentBuilder::base()
        .with_capability(UseLlmConfig::model(model.clone()))
        .with_capability(tools.into_iter().fold(UseTools::new(), UseTools::with_tool))
        .with_capability(UseSubagents::new(agents))
        .with_capability(planning)
        .build()
        .unwrap();
    (block_on(agent.execute(AgentState::new().with_user_message("go"))), model)
}

fn tools_of(model: &FakeModel) -> Vec<String> {
    model.requests()[1].tools.iter().map(|it| it.name.to_string()).collect()
}

#[test]
fn the_planner_sees_only_the_specification() {
    let plan = ScenarioStep::final_answer(" 1. Look.\n").with_usage(Usage::new(9, 0));
    let (state, model) = plans(UsePlanningSubagent::default(), " Goal: it. ", plan);
    assert_eq!(tool_results(&state), ["1. Look."]);
    assert_eq!(state.usage(), Usage::new(9, 0));
    let requests = model.requests();
    assert!(requests[0].system.as_deref().unwrap().contains("plan_with_subagent"));
    assert!(requests[1].system.as_deref().unwrap().starts_with("You plan work"));
    let said: Vec<_> = requests[1].prompt.stable().map(|it| it.message().text()).collect();
    assert_eq!(said, ["Goal: it."]);
    // It neither plans nor delegates.
    assert_eq!(tools_of(&model), ["read_file", "write_file"]);
}

#[test]
fn a_planner_has_the_tools_that_it_is_left_and_those_that_it_is_given() {
    let own = MockTool::returning("sketch", "", "ok");
    let planning = UsePlanningSubagent::default().with_planner_tool(own).with_planner_tools([
        "read_file",
        "sketch",
        "plan_with_subagent",
        "spawn_subagent",
    ]);
    let (_, model) = plans(planning, "it", "ok");
    assert_eq!(tools_of(&model), ["read_file", "sketch"]);
    let all = UsePlanningSubagent::default().with_planner_tools([""; 0]);
    assert_eq!(tools_of(&plans(all, "it", "ok").1), ["read_file", "write_file"]);
}

#[test]
fn a_plan_needs_a_specification() {
    let (state, model) = plans(UsePlanningSubagent::default(), "  ", "unused");
    let expect = "Error: `specification` is missing; describe the work to plan";
    assert_eq!((tool_results(&state), model.asked()), (vec![expect.to_owned()], 2));
}

#[test]
fn a_planner_that_fails_is_an_error_and_one_that_says_nothing_has_no_plan() {
    let (state, _) = plans(UsePlanningSubagent::default(), "it", ScenarioStep::error("down"));
    let told_of_failure = tool_results(&state).remove(0);
    assert!(
        told_of_failure.starts_with("Error: `planner` failed after 1 steps"),
        "{told_of_failure}"
    );
    let (state, _) = plans(UsePlanningSubagent::default(), "it", " ");
    assert_eq!(tool_results(&state), ["(the planner returned no plan)"]);
    let budget = Budget { steps: Some(0), ..Budget::unlimited() };
    let (state, _) =
        plans(UsePlanningSubagent::default().with_planner_budget(budget), "it", "unused");
    let told_of_limit = tool_results(&state).remove(0);
    let says_why = told_of_limit.starts_with("(no answer: ") && told_of_limit.contains("steps");
    assert!(says_why, "{told_of_limit}");
}

#[test]
fn blank_texts_are_not_said() {
    let planning =
        UsePlanningSubagent::default().with_parent_instructions(" ").with_planner_prompt("");
    let (_, model) = plans(planning, "it", "ok");
    let systems: Vec<_> = model.requests().iter().map(|it| it.system.clone()).collect();
    assert_eq!(systems, [None, None, None]);
}
