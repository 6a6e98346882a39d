use loopwright_agent::{AgentBuilder, UseLlmConfig, UseTools};
use loopwright_core::{AgentState, Budget, LlmConfig, StopReason, messages::Usage};
use loopwright_testing::{FakeModel, ScenarioStep, block_on, tool_results};
use serde_json::json;

use super::*;

fn run(other: &FakeModel, queries: &[&str], budget: Budget) -> AgentState {
    let calls = queries.iter().map(|query| ("llm_query", json!({ "query": query })));
    let model = FakeModel::script([ScenarioStep::tool_calls(calls), "done".into()]);
    let query = LlmQueryTool::new(other.clone())
        .with_system_prompt("Be brief.")
        .with_llm(LlmConfig::named("small"));
    let agent = AgentBuilder::base()
        .with_capability(UseLlmConfig::model(model))
        .with_capability(UseTools::new().with_tool(query))
        .build()
        .unwrap();
    block_on(agent.execute(AgentState::new().with_user_message("go").with_budget(budget)))
}

#[test]
fn a_question_is_answered_by_the_model_that_was_named_and_charged_to_the_run() {
    let answer = ScenarioStep::final_answer("42").with_usage(Usage::new(7, 3));
    let other = FakeModel::script([answer]);
    let state = run(&other, &[" What is it? "], Budget::default());
    assert_eq!(tool_results(&state), ["42"]);
    assert_eq!(state.usage(), Usage::new(7, 3));
    let request = &other.requests()[0];
    let said: Vec<_> = request.prompt.turns.iter().map(|it| it.message().text()).collect();
    assert_eq!(said, ["What is it?"]);
    assert_eq!(
        (request.system.as_deref(), request.model.as_deref()),
        (Some("Be brief."), Some("small"))
    );
    assert!(request.tools.is_empty());
}

#[test]
fn a_query_without_an_answer_is_reported() {
    let other = FakeModel::script([ScenarioStep::final_answer(" "), ScenarioStep::error("down")]);
    let state = run(&other, &["one", "two", " "], Budget::default());
    let expect = ["(no answer)", "Error: down", "Error: the query cannot be empty"];
    assert_eq!(tool_results(&state), expect);
    assert_eq!(state.text(), "done");
}

#[test]
fn the_budget_of_the_run_is_the_limit() {
    let answer = ScenarioStep::final_answer("42").with_usage(Usage::new(70, 30));
    let other = FakeModel::script([answer]);
    let budget = Budget { tokens: Some(50), ..Budget::default() };
    let state = run(&other, &["one"], budget);
    let reason = state.stop_signal().map(|it| it.reason);
    assert_eq!((reason, state.step_count()), (Some(StopReason::TokenLimitReached), 1));
}
