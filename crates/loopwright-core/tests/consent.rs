//! Tools that run elsewhere, declared approvals, deadlines, and decisions that stop the run.

use std::{sync::Arc, time::Duration};

use loopwright_core::{
    AgentLoop, AgentState, AnyTool, ApprovalDecision, ApprovalRequest, BoxError, CallableHook,
    DecisionError, ExecutionStatus, ExternalTool, IntoTool as _, OnInterrupted, RequestKind,
    RunOptions, SideEffects, StopReason, ToolApproval, ToolDecision, ToolOptions, ToolOutput,
    ToolPause, tool_fn,
};
use loopwright_testing::{
    FrozenClock, MemoryJournal, MockTool, ScenarioStep, block_on, run_until_stuck,
};
use serde_json::{Value, json};

use crate::support::{agent, asked, execute, execute_with, hooked, replay, told};

const HOUR: Duration = Duration::from_hours(1);

fn external() -> ExternalTool {
    let number = json!({ "type": "object", "properties": { "id": { "type": "integer" } } });
    ExternalTool::new("locate", "Finds a thing.")
        .with_parameters(number)
        .with_result_schema(json!({ "type": "array" }))
}

/// Two calls of a tool that runs elsewhere, and one of a tool that runs here.
fn locating() -> (AgentLoop, MockTool) {
    let look = MockTool::returning("look", "", "seen");
    let calls =
        [("locate", json!({ "id": 1 })), ("look", json!({})), ("locate", json!({ "id": 2 }))];
    let agent = agent([ScenarioStep::tool_calls(calls), "done".into()]);
    (agent.with_tool(external()).with_tool(look.clone()), look)
}

fn reply(value: impl Into<Value>) -> ApprovalDecision {
    ApprovalDecision::Reply(value.into())
}

fn fail(message: &str) -> ApprovalDecision {
    ApprovalDecision::Fail { message: message.to_owned() }
}

fn deny_and_stop(reason: &str) -> ApprovalDecision {
    ApprovalDecision::DenyAndStop { reason: reason.to_owned() }
}

#[test]
fn calls_of_external_tools_wait_for_a_result_or_an_error_in_any_order_and_any_process() {
    let (agent, look) = locating();
    let journal = MemoryJournal::new();
    let paused = execute_with(&agent, asked(), &journal);
    let pending = paused.pending();
    let schema = Some(json!({ "type": "array" }).into());
    let waiting: Vec<_> = pending.iter().map(|it| (it.address(), it.kind.clone())).collect();
    let kind = RequestKind::External { schema };
    assert_eq!(waiting, [(vec![0], kind.clone()), (vec![2], kind)]);
    assert_eq!((look.keys().len(), pending[0].kind.as_str()), (1, "result"));

    let state = agent.decide(&replay(&journal), &[2], fail("no signal")).unwrap();
    let paused = execute_with(&agent, state, &journal);
    assert_eq!(
        paused.pending().iter().map(loopwright_core::PendingApproval::address).collect::<Vec<_>>(),
        [[0]]
    );
    let state = replay(&journal).try_decide(&[0], reply(json!([46, 7]))).unwrap();
    let done = execute_with(&agent, state, &journal);
    let expect = ["[46,7]", "seen", "Error: no signal"].map(str::to_owned).to_vec();
    assert_eq!((told(&done), done.text()), (expect, "done".into()));
    assert_eq!(replay(&journal), done);
}

#[test]
fn a_result_that_does_not_match_the_schema_is_refused_and_the_call_still_waits() {
    let (agent, _) = locating();
    let paused = execute(&agent, asked());
    let error = agent.decide(&paused, &[0], reply("here")).unwrap_err();
    assert!(matches!(error, DecisionError::InvalidReply { .. }), "{error}");
    let wrong = DecisionError::WrongKind { tool: "locate".into(), waits_for: "result" };
    assert_eq!(agent.decide(&paused, &[0], ApprovalDecision::Approve).unwrap_err(), wrong);
    assert_eq!(execute(&agent, paused.clone()).pending(), paused.pending());
}

#[test]
fn arguments_that_an_external_tool_does_not_take_never_reach_its_users() {
    let steps = [ScenarioStep::tool_call("locate", json!({ "id": "x" })), "done".into()];
    let done = execute(&agent(steps).with_tool(external()), asked());
    assert!(told(&done)[0].contains("do not match the schema of `locate`"), "{:?}", told(&done));
    assert_eq!(done.pending(), []);
}

#[test]
fn an_external_tool_is_data() {
    let json = json!({
        "name": "locate",
        "description": "Finds a thing.",
        "parameters": { "type": "object", "properties": { "id": { "type": "integer" } } },
        "result": { "type": "array" },
    });
    assert_eq!(serde_json::to_value(external()).unwrap(), json);
    assert_eq!(serde_json::from_value::<ExternalTool>(json).unwrap(), external());
    let tool = external().read_only().into_tool();
    assert!(tool.is_external());
    assert_eq!(tool.options().side_effects, SideEffects::ReadOnly);
}

/// A tool that declares that it needs approval.
fn paying(approval: ToolApproval) -> (AnyTool, MockTool) {
    let pay = MockTool::new("pay", "", |it| Ok::<_, BoxError>(it.to_string()));
    let pay = pay.with_options(ToolOptions { approval, ..ToolOptions::default() });
    (pay.clone().into_tool(), pay)
}

fn pays(sum: u64) -> [ScenarioStep; 2] {
    [ScenarioStep::tool_call("pay", json!({ "sum": sum })), "done".into()]
}

#[test]
fn a_declared_approval_pauses_with_or_without_hooks_and_is_asked_once() {
    let (tool, pay) = paying(ToolApproval::Always("Pay?".into()));
    let plain = agent(pays(1)).with_tool(tool);
    let watched =
        hooked(&plain, CallableHook::new("watch").before_tool(|_, _, _| Ok(ToolDecision::Run)));
    for agent in [plain, watched] {
        let paused = execute(&agent, asked());
        let question = ApprovalRequest::new("Pay?", "pay");
        let asked = paused.pending()[0].question.clone();
        assert_eq!(ApprovalRequest { parameters: None, ..asked }, question);
        let state = agent.decide(&paused, &[0], ApprovalDecision::Approve).unwrap();
        assert_eq!(told(&execute(&agent, state)), [r#"{"sum":1}"#]);
        let denied = ApprovalDecision::Deny { reason: "too much".into() };
        let state = agent.decide(&paused, &[0], denied).unwrap();
        assert_eq!(told(&execute(&agent, state)), ["Blocked: too much"]);
    }
    assert_eq!(pay.keys().len(), 2);
}

#[test]
fn a_hook_that_allows_a_call_stands_for_its_declared_approval_and_others_can_still_block_it() {
    let (tool, pay) = paying(ToolApproval::Always("Pay?".into()));
    let allowed = CallableHook::new("rules").before_tool(|_, _, _| Ok(ToolDecision::Allow));
    let done = execute(&hooked(&agent(pays(1)).with_tool(tool), allowed), asked());
    assert_eq!((done.status(), pay.keys().len()), (&ExecutionStatus::Completed, 1));
}

#[test]
fn a_tool_decides_by_its_arguments_which_calls_need_approval() {
    struct Pay;
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Sum {
        sum: u64,
    }
    impl loopwright_core::Tool for Pay {
        type Args = Sum;
        type Output = u64;
        type Error = BoxError;
        fn name(&self) -> &'static str {
            "pay"
        }
        fn description(&self) -> &'static str {
            "Pays."
        }
        fn options(&self) -> ToolOptions {
            ToolOptions { approval: ToolApproval::PerCall, ..ToolOptions::default() }
        }
        fn approval(&self, args: &Sum) -> Option<String> {
            (args.sum > 100).then(|| format!("Pay {}?", args.sum))
        }
        async fn call(&self, args: Sum, _: &loopwright_core::ToolCx<'_>) -> Result<u64, BoxError> {
            Ok(args.sum)
        }
    }
    let run = |sum| execute(&agent(pays(sum)).with_tool(Pay), asked());
    assert_eq!(told(&run(100)), ["100"]);
    assert_eq!(run(101).pending()[0].question.text, "Pay 101?");
}

/// Runs by a clock that only the test moves.
fn at(clock: &FrozenClock, agent: &AgentLoop, state: AgentState) -> AgentState {
    let options = RunOptions { env: clock.env(1), ..RunOptions::default() };
    block_on(agent.start(state, options).finish())
}

fn with_limit(agent: &AgentLoop) -> AgentLoop {
    agent.with(|parts| parts.executor.answer_within = Some(HOUR))
}

#[test]
fn a_request_without_an_answer_before_its_deadline_is_denied_when_the_run_resumes() {
    let (tool, pay) = paying(ToolApproval::Always("Pay?".into()));
    let calls = [("pay", json!({})), ("locate", json!({})), ("ask", json!({}))];
    let ask = MockTool::with_cx("ask", "", |_, _| {
        Box::pin(async { Err(ToolPause::ask("What?").into()) })
    });
    let agent = agent([ScenarioStep::tool_calls(calls), "done".into()]);
    let agent = with_limit(&agent.with_tool(tool).with_tool(external()).with_tool(ask));
    let clock = FrozenClock::manual();
    let paused = at(&clock, &agent, asked());
    let end = clock.env(1).clock.now().plus(HOUR);
    let deadlines: Vec<_> = paused.pending().iter().map(|it| it.question.deadline).collect();
    assert_eq!((deadlines, paused.waits_until()), (vec![Some(end); 3], Some(end)));

    clock.advance(HOUR.checked_sub(Duration::from_millis(1)).unwrap());
    let still = at(&clock, &agent, paused.clone());
    assert_eq!(still.pending(), paused.pending(), "the deadline does not move");
    clock.advance(Duration::from_millis(1));
    let done = at(&clock, &agent, still);
    let expect = "Blocked: no decision or answer arrived before the deadline".to_owned();
    assert_eq!(told(&done), [expect.clone(), expect.clone(), expect]);
    assert_eq!((done.text(), pay.keys().len()), ("done".into(), 0));
}

#[test]
fn a_decision_before_the_deadline_counts_whenever_the_run_resumes() {
    let (tool, pay) = paying(ToolApproval::Always("Pay?".into()));
    let agent = with_limit(&agent(pays(1)).with_tool(tool));
    let clock = FrozenClock::manual();
    let paused = at(&clock, &agent, asked());
    let state = agent.decide(&paused, &[0], ApprovalDecision::Approve).unwrap();
    clock.advance(HOUR * 2);
    assert_eq!(told(&at(&clock, &agent, state)), [r#"{"sum":1}"#]);
    assert_eq!(pay.keys().len(), 1);
}

#[test]
fn a_deadline_of_the_request_itself_goes_before_that_of_the_agent() {
    let clock = FrozenClock::manual();
    let soon = clock.env(1).clock.now().plus(Duration::from_secs(1));
    let hook = CallableHook::new("policy").before_tool(move |_, _, _| {
        Ok(ToolDecision::Ask(ApprovalRequest::new("may it?", "policy").with_deadline(soon)))
    });
    let pay = MockTool::returning("pay", "", "paid");
    let agent = hooked(&with_limit(&agent(pays(1)).with_tool(pay)), hook);
    assert_eq!(at(&clock, &agent, asked()).pending()[0].question.deadline, Some(soon));
}

#[test]
fn an_interrupted_call_whose_deadline_passes_is_reported_as_unknown() {
    let hang = MockTool::with_cx("pay", "", |_, _| Box::pin(std::future::pending()));
    let agent = with_limit(&agent(pays(1)).with_tool(hang));
    let (clock, journal) = (FrozenClock::manual(), MemoryJournal::new());
    let options = || RunOptions {
        env: clock.env(1),
        journal: Some(Arc::new(journal.clone())),
        on_interrupted: OnInterrupted::RequireApproval,
        ..RunOptions::default()
    };
    assert!(run_until_stuck(agent.start(asked(), options()).finish()).is_none());
    let paused = block_on(agent.start(replay(&journal), options()).finish());
    assert!(paused.pending()[0].question.is_recovery());
    clock.advance(HOUR);
    let done = block_on(agent.start(paused, options()).finish());
    assert!(told(&done)[0].starts_with("Unknown: "), "{:?}", told(&done));
}

#[test]
fn deny_and_stop_ends_the_run_and_all_that_waits() {
    let (tool, pay) = paying(ToolApproval::Always("Pay?".into()));
    let calls = [("pay", json!({})), ("locate", json!({})), ("pay", json!({}))];
    for waiting in [0, 1] {
        let agent = agent([ScenarioStep::tool_calls(calls.clone()), "done".into()]);
        let agent = agent.with_tool(tool.clone()).with_tool(external());
        let paused = execute(&agent, asked());
        let state = agent.decide(&paused, &[waiting], deny_and_stop("not today")).unwrap();
        let done = execute(&agent, state);
        let signal = done.stop_signal().unwrap();
        assert_eq!((signal.reason, signal.is_final), (StopReason::StopRequested, true));
        let tool = ["pay", "locate"][usize::from(waiting)];
        assert_eq!(signal.message, format!("`{tool}` was denied: not today"));
        assert_eq!(told(&done)[usize::from(waiting)], "Blocked: not today");
        assert_eq!((done.pending(), pay.keys().len()), (vec![], 0));
    }
}

#[test]
fn a_result_can_have_parts_that_are_no_json() {
    let (agent, _) = locating();
    let paused = execute(&agent, asked());
    let output = ApprovalDecision::Answer(ToolOutput::text("a picture"));
    let state = agent.decide(&paused, &[0], output).unwrap();
    assert_eq!(execute(&agent, state).pending().len(), 1);
}

#[test]
fn a_tool_from_a_closure_runs_without_approval_by_default() {
    let tool = tool_fn("pay", "", |_: loopwright_core::NoArgs| async { Ok::<_, BoxError>("paid") });
    assert_eq!(tool.into_tool().options().approval, ToolApproval::Never);
}
