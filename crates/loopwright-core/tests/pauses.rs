//! Calls that wait for somebody, and what is decided about them.

use loopwright_core::{
    AgentLoop, AgentState, ApprovalDecision, ApprovalRequest, Arguments, BoxError, CallableHook,
    DecisionError, ToolDecision,
};
use loopwright_testing::{MockTool, ScenarioStep};
use serde_json::json;

use crate::support::{agent, asked, execute, hooked, told};

/// An agent that asks before it pays, as long as hooks do not block the call.
fn careful() -> (AgentLoop, MockTool) {
    let pay = MockTool::new("pay", "", |it| Ok::<_, BoxError>(it.to_string())).with_schema(json!({
        "type": "object",
        "properties": { "sum": { "type": "integer" } },
        "required": ["sum"],
    }));
    let steps = [ScenarioStep::tool_call("pay", json!({ "sum": 900 })), "done".into()];
    let hook = CallableHook::new("policy").before_tool(|call, _, cx| {
        if call.arguments.contains("666") {
            return Ok(ToolDecision::Block { reason: "not that sum".into() });
        }
        assert_eq!(cx.already_approved, !call.arguments.contains("900"), "{}", call.arguments);
        let question = ApprovalRequest { text: "may it?".into(), source: "policy".into() };
        Ok(ToolDecision::Ask(question))
    });
    (hooked(&agent(steps).with_tool(pay.clone()), hook), pay)
}

fn approve_with(json: &str) -> ApprovalDecision {
    ApprovalDecision::ApproveWith { arguments: Arguments::new(json) }
}

#[test]
fn a_call_runs_with_the_arguments_that_whoever_approved_it_wrote() {
    let (agent, pay) = careful();
    let paused = execute(&agent, asked());
    let decided = agent.decide(&paused, 0, approve_with(r#"{"sum":9}"#)).unwrap();
    let state = execute(&agent, decided);
    assert_eq!((told(&state), state.text()), (vec![r#"{"sum":9}"#.to_owned()], "done".into()));
    assert_eq!(pay.calls(), [json!({ "sum": 9 })]);
    let written = state.step_at(0).unwrap().tool_executions().next().unwrap().0.arguments.clone();
    assert_eq!(&*written, r#"{"sum":900}"#, "the conversation keeps what the model wrote");
}

#[test]
fn hooks_see_edited_arguments_and_may_still_block_the_call() {
    let (agent, pay) = careful();
    let paused = execute(&agent, asked());
    let decided = agent.decide(&paused, 0, approve_with(r#"{"sum":666}"#)).unwrap();
    assert_eq!(told(&execute(&agent, decided)), ["Blocked: not that sum"]);
    assert_eq!(pay.keys().len(), 0);
}

#[test]
fn a_decision_that_does_not_fit_is_refused_and_not_recorded() {
    let (agent, _) = careful();
    let paused = execute(&agent, asked());
    let refused = |call, decision| agent.decide(&paused, call, decision).unwrap_err();
    assert_eq!(refused(1, ApprovalDecision::Approve), DecisionError::NotPending { path: vec![1] });
    let error = refused(0, approve_with(r#"{"sum":"much"}"#)).to_string();
    assert!(
        error.starts_with("the edited arguments do not fit the schema of `pay`: at /sum"),
        "{error}"
    );
    let error = refused(0, approve_with("much"));
    assert!(matches!(error, DecisionError::InvalidArguments { .. }), "{error}");
    let without = agent.with_tools(loopwright_core::ToolSet::default());
    assert_eq!(
        without.decide(&paused, 0, approve_with("{}")).unwrap_err(),
        DecisionError::UnknownTool { tool: "pay".into() }
    );
    assert_eq!(paused.pending().len(), 1);
}

#[test]
fn edited_arguments_are_stored_beside_approvals_without_edits() {
    let stored = |decision| serde_json::to_value(decision).unwrap();
    assert_eq!(stored(ApprovalDecision::Approve), json!("approve"));
    let edited = approve_with(r#"{"sum":9}"#);
    let json = json!({ "approve_with": { "arguments": r#"{"sum":9}"# } });
    assert_eq!(stored(edited.clone()), json);
    assert_eq!(serde_json::from_value::<ApprovalDecision>(json).unwrap(), edited);
    let (agent, pay) = careful();
    let paused = execute(&agent, asked());
    let decided = agent.decide(&paused, 0, edited).unwrap();
    let text = serde_json::to_string(&decided).unwrap();
    let restored: AgentState = serde_json::from_str(&text).unwrap();
    assert_eq!(told(&execute(&agent, restored)), [r#"{"sum":9}"#]);
    assert_eq!(pay.calls(), [json!({ "sum": 9 })]);
}
