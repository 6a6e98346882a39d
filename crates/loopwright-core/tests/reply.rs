//! A question and its answer.

use std::error::Error as _;

use loopwright_core::{
    AgentLoop, AgentState, ApprovalDecision, ApprovalRequest, AskError, Budget, CallableHook,
    FailureKind, Reply, StopReason, ToolDecision, messages::Usage,
};
use loopwright_testing::{FakeDriver, MockTool, ScenarioStep, block_on, test_loop};

use crate::support::{agent, hooked, said};

fn with_tool(steps: impl IntoIterator<Item = ScenarioStep>) -> AgentLoop {
    agent(steps).with_tool(MockTool::scripted())
}

/// A state that may take one step.
fn one_step() -> AgentState {
    AgentState::new().with_budget(Budget { steps: Some(1), ..Budget::unlimited() })
}

#[test]
fn a_reply_has_text_usage_and_state() {
    let steps = [ScenarioStep::final_answer("Yes.").with_usage(Usage::new(8, 2))];
    let reply = block_on(agent(steps).ask("Is it?")).unwrap();
    assert_eq!(reply, "Yes.");
    assert_eq!((reply.text(), format!("{reply:>6}"), reply.len()), ("Yes.", "  Yes.".into(), 4));
    assert_eq!(reply.usage(), Usage::new(8, 2));
    assert_eq!(said(reply.state()), ["Is it?", "Yes."]);
}

#[test]
fn a_reply_is_the_beginning_of_the_next_turn() {
    let agent = test_loop(FakeDriver::steps(["A town.".into(), "Small.".into()]));
    let second = block_on(async {
        let reply = agent.ask("What is it?").await?;
        agent.ask_in(reply, "How large?").await
    });
    let second = second.unwrap();
    assert_eq!(said(second.state()), ["What is it?", "A town.", "How large?", "Small."]);
    assert_eq!(second.into_state().execution_count(), 2);
}

#[test]
fn the_future_of_an_ask_can_outlive_the_agent_and_go_to_another_thread() {
    let asked = agent(["Yes.".into()]).ask(String::from("Is it?"));
    let reply = std::thread::spawn(|| block_on(asked)).join().unwrap();
    assert_eq!(reply.unwrap(), "Yes.");
}

#[test]
fn a_failed_run_is_an_error_with_its_cause_and_its_state() {
    let error = block_on(agent([ScenarioStep::error("down")]).ask("Go.")).unwrap_err();
    assert_eq!((error.to_string(), error.source().unwrap().to_string()), {
        let cause = error.state().clone().into_result().unwrap_err().to_string();
        ("run failed".to_owned(), cause)
    });
    let AskError::Failed { failure, state } = error else { panic!("{error:?}") };
    assert_eq!((failure.kind, said(&state)), (FailureKind::Driver, vec!["Go.".to_owned()]));
}

#[test]
fn a_stopped_run_is_an_error_from_whose_state_a_run_resumes() {
    let agent = with_tool([ScenarioStep::tool("I look."), "Found.".into()]);
    let error = block_on(agent.ask_in(one_step(), "Look.")).unwrap_err();
    assert_eq!(error.to_string(), "run stopped: steps_limit: the step limit of 1 was reached");
    let AskError::Stopped { signal, .. } = &error else { panic!("{error:?}") };
    assert_eq!(signal.reason, StopReason::StepsLimitReached);
    let reply = block_on(agent.ask_in(error, "Go on.")).unwrap();
    assert_eq!((reply.text(), reply.state().execution_count()), ("Found.", 1));
}

#[test]
fn a_run_that_needs_approval_is_an_error_until_the_call_is_decided() {
    let ask = CallableHook::new("ask").before_tool(|_, _, _| {
        let question = ApprovalRequest::new("really?", "ask");
        Ok(ToolDecision::Ask(question))
    });
    let agent = hooked(&with_tool([ScenarioStep::tool("I look."), "Found.".into()]), ask);
    let error = block_on(agent.ask("Look.")).unwrap_err();
    let expect =
        "the run is paused; calls that wait for a decision: 1; decide with `AgentState::decide`";
    assert_eq!((&*error.to_string(), error.state().pending().len()), (expect, 1));
    let state = error.into_state().decide(0, ApprovalDecision::Approve);
    let reply = Reply::try_from(block_on(agent.execute(state))).unwrap();
    assert_eq!(reply, "Found.");
}

#[test]
fn an_answer_without_text_is_an_error() {
    let error = block_on(agent([ScenarioStep::final_answer(" ")]).ask("Go.")).unwrap_err();
    assert!(matches!(error, AskError::NoAnswer { .. }), "{error:?}");
    assert!(error.to_string().starts_with("the run has no answer: "), "{error}");
}

#[test]
fn the_debug_form_of_an_error_leaves_the_state_out() {
    let error = block_on(agent([ScenarioStep::error("down")]).ask("secret")).unwrap_err();
    let text = format!("{error:?}");
    assert!(text.starts_with("Failed { failure: ") && !text.contains("secret"), "{text}");
}
