//! What becomes of a parent whose child waits.

use std::sync::Arc;

use loopwright_core::{
    AgentLoop, AgentState, ApprovalDecision, Arguments, DecisionError, ExecutionStatus, RunOptions,
    SideEffects, ToolOptions, ToolOutput, ToolPause,
};
use loopwright_testing::{
    FakeModel, MemoryJournal, MockTool, ModelDriver, ScenarioStep, block_on, test_env, test_loop,
};
use serde_json::json;

use super::{ChildAgent, ChildError};

/// A tool that lets a child of this name work.
fn spawning(tool: &'static str, child: &'static str) -> MockTool {
    let spawn = MockTool::with_cx(tool, "", move |_, cx| {
        Box::pin(async move {
            let agent = ChildAgent::of(cx, child);
            let ended = agent.run("work", |state| state.with_user_message("work")).await;
            let ended = ended.map_err(ChildError::into_tool_error)?;
            let answer = ended.answer().map_err(ChildError::into_tool_error)?;
            Ok(ended.to_output(answer.to_text()))
        })
    });
    let side_effects = SideEffects::Resumable;
    spawn.with_options(ToolOptions { side_effects, ..ToolOptions::default() })
}

/// An agent whose sub-agent has a sub-agent that asks twice, and the tool that asks.
fn two_levels() -> (AgentLoop, MockTool) {
    let paint = MockTool::with_cx("paint", "", |arguments, cx| {
        Box::pin(async move {
            let Some(answer) = cx.answer() else {
                let schema = json!({ "enum": ["red", "blue"] });
                return Err(ToolPause::ask("Which color?").with_schema(schema).into());
            };
            Ok(ToolOutput::text(format!("{} is {answer}", arguments["n"])))
        })
    });
    let model = FakeModel::script([
        ScenarioStep::tool_call("outer", json!({})),
        ScenarioStep::tool_call("inner", json!({})),
        ScenarioStep::tool_calls([("paint", json!({ "n": 1 })), ("paint", json!({ "n": 2 }))]),
        "painted".into(),
        "the inner one painted".into(),
        "all is painted".into(),
    ]);
    let agent = test_loop(ModelDriver::new(model))
        .with_tool(spawning("outer", "helper"))
        .with_tool(spawning("inner", "painter"))
        .with_tool(paint.clone());
    (agent, paint)
}

fn run(agent: &AgentLoop, state: AgentState, journal: Option<&MemoryJournal>) -> AgentState {
    let journal = journal.map(|it| Arc::new(it.clone()) as _);
    let options = RunOptions { env: test_env(1), journal, ..RunOptions::default() };
    block_on(agent.start(state, options).finish())
}

fn reply(color: &str) -> ApprovalDecision {
    ApprovalDecision::Reply(color.into())
}

/// Answers what the innermost agent asks, and lets all of them go on.
#[track_caller]
fn answer_at_the_root(journal: Option<&MemoryJournal>) {
    let (agent, paint) = two_levels();
    let paused = run(&agent, AgentState::new().with_user_message("go"), journal);
    assert_eq!(paused.status(), &ExecutionStatus::Paused);
    let pending = paused.pending();
    let asked: Vec<_> = pending
        .iter()
        .map(|it| {
            let agents: Vec<_> = it.path.iter().map(|it| &*it.agent).collect();
            (it.address(), agents, &*it.call.arguments, &*it.question.text)
        })
        .collect();
    let agents = || vec!["helper", "painter"];
    let first = (vec![0, 0, 0], agents(), r#"{"n":1}"#, "Which color?");
    assert_eq!(asked, [first, (vec![0, 0, 1], agents(), r#"{"n":2}"#, "Which color?")]);
    let refused = agent.decide(&paused, &[0, 0, 0], reply("green")).unwrap_err();
    assert!(matches!(refused, DecisionError::InvalidReply { .. }), "{refused}");
    let spent = paused.total_spent();
    let state = agent.decide(&paused, &[0, 0, 1], reply("red")).unwrap();
    let state = agent.decide(&state, &[0, 0, 0], reply("blue")).unwrap();
    // In another process.
    let state = match journal {
        Some(journal) => {
            let mut state = state;
            block_on(state.save(journal, &*test_env(1).clock)).unwrap();
            AgentState::new().replay(journal.changes()).unwrap()
        }
        None => serde_json::from_value(json!(state)).unwrap(),
    };
    let done = run(&agent, state, journal);
    assert_eq!(done.text(), "all is painted");
    assert_eq!(paint.keys().len(), 4, "each was asked once and painted once");
    let grown = done.total_spent().usage.total() - spent.usage.total();
    assert_eq!(grown, spent.usage.total(), "three of six answers came after the pause");
}

#[test]
fn what_a_child_two_levels_down_asks_is_answered_at_the_root_and_the_child_goes_on() {
    answer_at_the_root(Some(&MemoryJournal::new()));
}

#[test]
fn a_child_without_a_journal_is_kept_by_the_call_of_its_parent() {
    answer_at_the_root(None);
}

#[test]
fn arguments_that_are_edited_at_the_root_fit_the_tool_of_the_child() {
    use loopwright_core::{ApprovalRequest, CallableHook, Interceptor, ToolDecision};
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    let pay = MockTool::returning("pay", "", "paid").with_schema(schema);
    let model = FakeModel::script([
        ScenarioStep::tool_call("outer", json!({})),
        ScenarioStep::tool_call("pay", json!({ "n": 900 })),
        "paid nine".into(),
        "done".into(),
    ]);
    let hook = CallableHook::new("policy").before_tool(|call, _, _| {
        let question = ApprovalRequest { text: "may it?".into(), source: "policy".into() };
        Ok(if &*call.name == "pay" { ToolDecision::Ask(question) } else { ToolDecision::Run })
    });
    let agent = test_loop(ModelDriver::new(model))
        .with_tool(spawning("outer", "helper"))
        .with_tool(pay.clone())
        .with_interceptor(Interceptor::from_hook(Arc::new(hook)));
    let paused = run(&agent, AgentState::new().with_user_message("go"), None);
    let with = |json: &str| ApprovalDecision::ApproveWith { arguments: Arguments::new(json) };
    let refused = agent.decide(&paused, &[0, 0], with(r#"{"n":"x"}"#)).unwrap_err();
    assert!(matches!(refused, DecisionError::InvalidArguments { .. }), "{refused}");
    let done = run(&agent, agent.decide(&paused, &[0, 0], with(r#"{"n":9}"#)).unwrap(), None);
    assert_eq!((done.text().as_str(), pay.calls()), ("done", vec![json!({ "n": 9 })]));
}
