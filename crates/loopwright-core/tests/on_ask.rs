//! Runs that do not wait for answers, and the list of what was denied.

use loopwright_core::{
    AgentLoop, AgentState, ApprovalDecision, ApprovalRequest, Arguments, CallableHook, DeniedCall,
    ExecutionStatus, ExternalTool, OnAsk, OnInterrupted, RunOptions, ToolDecision, ToolPause,
    events::{ToolCallBlocked, ToolCallCompleted},
};
use loopwright_testing::{
    EventRecorder, FrozenClock, MemoryJournal, MockTool, ScenarioStep, block_on, run_until_stuck,
};
use serde_json::{Value, json};

use crate::support::{agent, asked, execute, hooked, journaled, replay, told};

/// An agent that calls a tool that asks, one that runs elsewhere, and one that a hook asks about.
fn needing() -> AgentLoop {
    let question = MockTool::with_cx("ask", "", |_, _| {
        Box::pin(async { Err(ToolPause::ask("Which?").into()) })
    });
    let calls = ["ask", "locate", "pay"].map(|tool| (tool, json!({ "n": 1 })));
    let agent = agent([ScenarioStep::tool_calls(calls), "done".into()])
        .with_tool(question)
        .with_tool(ExternalTool::new("locate", ""))
        .with_tool(MockTool::returning("pay", "", "paid"));
    let policy = CallableHook::new("policy").before_tool(|call, _, _| match &*call.name {
        "pay" => Ok(ToolDecision::Ask(ApprovalRequest::new("may it?", "policy"))),
        _ => Ok(ToolDecision::Run),
    });
    hooked(&agent, policy)
}

fn run(agent: &AgentLoop, state: AgentState, options: RunOptions) -> AgentState {
    let options = RunOptions { env: FrozenClock::new().env(1), ..options };
    block_on(agent.start(state, options).finish())
}

fn denied(tool: &str, arguments: Value, reason: &str) -> DeniedCall {
    let reason = reason.to_owned();
    DeniedCall { agents: Vec::new(), tool: tool.into(), arguments, reason }
}

const ANSWER: &str = "the question was declined: no user is present; continue without an answer";
const RESULT: &str =
    "the tool runs elsewhere, and this run does not wait for the result; continue without it";
const APPROVAL: &str = "not permitted without approval (may it?); continue without it";

#[test]
fn a_run_that_does_not_wait_denies_what_asks_and_lists_it() {
    let journal = MemoryJournal::new();
    let options = RunOptions { on_ask: OnAsk::Deny, ..journaled(&journal) };
    let done = run(&needing(), asked(), options);
    assert_eq!((done.status(), done.text()), (&ExecutionStatus::Completed, "done".into()));
    let calls = [("ask", ANSWER), ("locate", RESULT), ("pay", APPROVAL)];
    assert_eq!(told(&done), calls.map(|(_, reason)| format!("Blocked: {reason}")));
    let expect = calls.map(|(tool, reason)| denied(tool, json!({ "n": 1 }), reason));
    assert_eq!(done.denied_calls(), expect);
    assert_eq!(replay(&journal), done);
}

#[test]
fn a_run_that_must_not_ask_stops_and_names_the_call() {
    for (tool, needs) in [
        ("ask", "`ask` needs an answer (Which?)"),
        (
            "locate",
            "`locate` needs a result from outside the run (`locate` runs elsewhere; pass the result of the call)",
        ),
        ("pay", "`pay` needs approval (may it?)"),
    ] {
        let steps = [ScenarioStep::tool_call(tool, json!({ "n": 2 })), "done".into()];
        let scripted = agent(steps).with_tools(needing().tools().clone());
        let policy = CallableHook::new("policy").before_tool(|call, _, _| match &*call.name {
            "pay" => Ok(ToolDecision::Ask(ApprovalRequest::new("may it?", "policy"))),
            _ => Ok(ToolDecision::Run),
        });
        let options = RunOptions { on_ask: OnAsk::Fail, ..RunOptions::default() };
        let state = run(&hooked(&scripted, policy), asked(), options);
        let signal = state.stop_signal().unwrap();
        assert_eq!((&*signal.message, signal.source.as_deref()), (needs, Some(OnAsk::SOURCE)));
        assert_eq!(state.denied_calls(), [denied(tool, json!({ "n": 2 }), needs)]);
        assert_eq!(state.pending(), []);
    }
}

#[test]
fn an_interrupted_call_that_is_asked_about_in_a_run_that_does_not_wait_has_an_unknown_outcome() {
    let steps = || [ScenarioStep::tool_call("pay", json!({})), "done".into()];
    for (on_ask, answer) in [(OnAsk::Deny, "done"), (OnAsk::Fail, "")] {
        let journal = MemoryJournal::new();
        let first = agent(steps()).with_tool(MockTool::hanging("pay"));
        run_until_stuck(first.start(asked(), journaled(&journal)).finish());
        let second = agent(steps()).with_tool(MockTool::returning("pay", "", "paid"));
        let on_interrupted = OnInterrupted::RequireApproval;
        let options = RunOptions { on_interrupted, on_ask, ..journaled(&journal) };
        let state = run(&second, replay(&journal), options);
        assert_eq!((state.text(), state.pending().len()), (answer.into(), 0));
        assert!(told(&state)[0].starts_with("Unknown: "), "{:?}", told(&state));
    }
}

/// An agent with one call that waits, which its argument names, of the kinds of `needing`.
fn needing_one(tool: &str) -> AgentLoop {
    let steps = [ScenarioStep::tool_call(tool, json!({ "n": 1 })), "done".into()];
    let scripted = agent(steps).with_tools(needing().tools().clone());
    let policy = CallableHook::new("policy").before_tool(|call, _, _| match &*call.name {
        "pay" => Ok(ToolDecision::Ask(ApprovalRequest::new("may it?", "policy"))),
        _ => Ok(ToolDecision::Run),
    });
    hooked(&scripted, policy)
}

/// What a run leaves: its text, the results of its calls, the denied ones, and why it stopped.
fn left(state: &AgentState) -> (String, Vec<String>, Vec<DeniedCall>, Option<String>) {
    let stopped = state.stop_signal().map(|it| it.message.clone());
    (state.text(), told(state), state.denied_calls(), stopped)
}

#[test]
fn a_request_that_already_waits_is_refused_like_a_new_one() {
    for tool in ["ask", "locate", "pay"] {
        for on_ask in [OnAsk::Deny, OnAsk::Fail] {
            let options = || RunOptions { on_ask, ..RunOptions::default() };
            let fresh = run(&needing_one(tool), asked(), options());
            let agent = needing_one(tool);
            let journal = MemoryJournal::new();
            let paused = run(&agent, asked(), journaled(&journal));
            assert_eq!((paused.pending().len(), paused.status()), (1, &ExecutionStatus::Paused));
            let resumed =
                run(&agent, replay(&journal), RunOptions { on_ask, ..journaled(&journal) });
            assert_eq!(left(&resumed), left(&fresh), "{tool} {on_ask:?}");
            assert_eq!((resumed.pending(), replay(&journal)), (vec![], resumed.clone()));
        }
    }
}

#[test]
fn an_interrupted_call_that_already_waits_is_not_repeated_by_a_run_that_does_not_wait() {
    let steps = || [ScenarioStep::tool_call("pay", json!({})), "done".into()];
    for (on_ask, answer) in [(OnAsk::Deny, "done"), (OnAsk::Fail, "")] {
        let journal = MemoryJournal::new();
        let first = agent(steps()).with_tool(MockTool::hanging("pay"));
        run_until_stuck(first.start(asked(), journaled(&journal)).finish());
        let pay = MockTool::returning("pay", "", "paid");
        let second = agent(steps()).with_tool(pay.clone());
        let on_interrupted = OnInterrupted::RequireApproval;
        let waiting = RunOptions { on_interrupted, ..journaled(&journal) };
        assert_eq!(run(&second, replay(&journal), waiting).pending().len(), 1);
        let options = RunOptions { on_interrupted, on_ask, ..journaled(&journal) };
        let state = run(&second, replay(&journal), options);
        assert_eq!((state.text(), state.pending().len(), pay.calls()), (answer.into(), 0, vec![]));
        assert!(told(&state)[0].starts_with("Unknown: "), "{:?}", told(&state));
    }
}

#[test]
fn of_several_requests_that_wait_the_undecided_ones_are_refused() {
    let agent = needing();
    let paused = execute(&agent, asked());
    let state = paused.try_decide(&[2], ApprovalDecision::Approve).unwrap();
    let options = RunOptions { on_ask: OnAsk::Deny, ..RunOptions::default() };
    let done = run(&agent, state, options);
    let results = [format!("Blocked: {ANSWER}"), format!("Blocked: {RESULT}"), "paid".into()];
    assert_eq!((told(&done), done.text()), (results.to_vec(), "done".into()));
}

#[test]
fn a_denied_call_is_listed_with_the_arguments_that_were_decided_about() {
    let policy = CallableHook::new("policy").before_tool(|call, _, _| {
        if call.arguments.contains("666") {
            return Ok(ToolDecision::Block { reason: "not that sum".into() });
        }
        Ok(ToolDecision::Ask(ApprovalRequest::new("may it?", "policy")))
    });
    let steps = [ScenarioStep::tool_call("pay", json!({ "sum": 1 })), "done".into()];
    let agent = hooked(&agent(steps).with_tool(MockTool::returning("pay", "", "paid")), policy);
    let edited = ApprovalDecision::ApproveWith { arguments: Arguments::new(r#"{"sum":666}"#) };
    let state = execute(&agent, asked()).try_decide(&[0], edited).unwrap();
    let events = EventRecorder::new();
    let state = execute(&agent.with_event_sink(events.sink()), state);
    let told = [
        events.events_of::<ToolCallBlocked>()[0].arguments.to_string(),
        events.events_of::<ToolCallCompleted>()[0].arguments.to_string(),
    ];
    assert_eq!(told, [r#"{"sum":666}"#; 2]);
    let expect = [denied("pay", json!({ "sum": 666 }), "not that sum")];
    assert_eq!(state.denied_calls(), expect);
    let stored = serde_json::to_string(&state).unwrap();
    assert_eq!(serde_json::from_str::<AgentState>(&stored).unwrap().denied_calls(), expect);
}
