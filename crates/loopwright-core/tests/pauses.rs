//! Calls that wait for somebody, and what is decided about them.

use loopwright_core::{
    AgentLoop, AgentState, ApprovalDecision, ApprovalRequest, Arguments, BoxError, CallableHook,
    Change, DecisionError, ExecutionStatus, OnInterrupted, RequestKind, RunOptions, SideEffects,
    ToolDecision, ToolOptions, ToolOutput, ToolPause, ToolSet,
};
use loopwright_testing::{MemoryJournal, MockTool, ScenarioStep, block_on, run_until_stuck};
use serde_json::{Value, json};

use crate::support::{agent, asked, execute, execute_with, hooked, journaled, replay, told};

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
        let question = ApprovalRequest::new("may it?", "policy");
        Ok(ToolDecision::Ask(question))
    });
    (hooked(&agent(steps).with_tool(pay.clone()), hook), pay)
}

fn approve_with(json: &str) -> ApprovalDecision {
    ApprovalDecision::ApproveWith { arguments: Arguments::new(json) }
}

#[test]
fn a_call_runs_with_the_arguments_of_its_approval() {
    let (agent, pay) = careful();
    let paused = execute(&agent, asked());
    let decided = agent.decide(&paused, &[0], approve_with(r#"{"sum":9}"#)).unwrap();
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
    let decided = agent.decide(&paused, &[0], approve_with(r#"{"sum":666}"#)).unwrap();
    assert_eq!(told(&execute(&agent, decided)), ["Blocked: not that sum"]);
    assert_eq!(pay.keys().len(), 0);
}

#[test]
fn a_decision_that_does_not_fit_is_refused_and_not_recorded() {
    let (agent, _) = careful();
    let paused = execute(&agent, asked());
    let refused = |call, decision| agent.decide(&paused, &[call], decision).unwrap_err();
    assert_eq!(refused(1, ApprovalDecision::Approve), DecisionError::NotPending { path: vec![1] });
    let error = refused(0, approve_with(r#"{"sum":"much"}"#)).to_string();
    assert!(
        error.starts_with("the edited arguments do not match the schema of `pay`: at /sum"),
        "{error}"
    );
    let error = refused(0, approve_with("much"));
    assert!(matches!(error, DecisionError::InvalidArguments { .. }), "{error}");
    let without = agent.with_tools(ToolSet::default());
    assert_eq!(
        without.decide(&paused, &[0], approve_with(r#"{"sum":9}"#)).unwrap_err(),
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
    let decided = agent.decide(&paused, &[0], edited).unwrap();
    let text = serde_json::to_string(&decided).unwrap();
    let restored: AgentState = serde_json::from_str(&text).unwrap();
    assert_eq!(told(&execute(&agent, restored)), [r#"{"sum":9}"#]);
    assert_eq!(pay.calls(), [json!({ "sum": 9 })]);
}

/// A hook that rewrites each sum to this one, and asks about each call.
fn changing(sum: u64) -> CallableHook {
    CallableHook::new("change").before_tool(move |call, _, _| {
        let wanted = json!({ "sum": sum }).to_string();
        if *call.arguments != *wanted {
            return Ok(ToolDecision::Rewrite(Arguments::new(wanted)));
        }
        Ok(ToolDecision::Ask(ApprovalRequest::new("may it?", "change")))
    })
}

/// An agent that pays 900 under a hook, and the tool.
fn paying_under(hook: CallableHook) -> (AgentLoop, MockTool) {
    let pay = MockTool::new("pay", "", |it| Ok::<_, BoxError>(it.to_string()));
    let steps = [ScenarioStep::tool_call("pay", json!({ "sum": 900 })), "done".into()];
    (hooked(&agent(steps).with_tool(pay.clone()), hook), pay)
}

/// The arguments and the question of each request.
fn requests(state: &AgentState) -> Vec<(String, String)> {
    let pending = state.pending();
    let shown = |it: &loopwright_core::PendingApproval<'_>| {
        (it.call.arguments.to_string(), it.question.text.clone())
    };
    pending.iter().map(shown).collect()
}

fn one_request(sum: u64, text: &str) -> Vec<(String, String)> {
    vec![(json!({ "sum": sum }).to_string(), text.to_owned())]
}

#[test]
fn a_request_shows_the_arguments_that_a_hook_rewrote_and_they_run_without_the_hook_too() {
    let journal = MemoryJournal::new();
    let (agent, _) = paying_under(changing(1));
    let paused = execute_with(&agent, asked(), &journal);
    assert_eq!(requests(&paused), one_request(1, "may it?"));
    let restored: AgentState = serde_json::from_value(json!(paused)).unwrap();
    assert_eq!(requests(&restored), one_request(1, "may it?"));
    // A process without hooks resumes.
    let (other, pay) = paying_under(CallableHook::new("none"));
    let state = replay(&journal).try_decide(&[0], ApprovalDecision::Approve).unwrap();
    let done = execute_with(&other, state, &journal);
    assert_eq!(
        (told(&done), pay.calls()),
        (vec![r#"{"sum":1}"#.to_owned()], vec![json!({ "sum": 1 })])
    );
    assert_eq!(replay(&journal), done);
}

#[test]
fn arguments_that_a_hook_rewrites_after_the_approval_are_asked_about_again() {
    let journal = MemoryJournal::new();
    let (first, _) = paying_under(changing(1));
    execute_with(&first, asked(), &journal);
    // Another process has another hook.
    let (second, pay) = paying_under(changing(666));
    let state = replay(&journal).try_decide(&[0], ApprovalDecision::Approve).unwrap();
    let paused = execute_with(&second, state, &journal);
    assert_eq!((requests(&paused), pay.keys().len()), (one_request(666, "may it?"), 0));
    assert_eq!(replay(&journal), paused);
    let state = replay(&journal).try_decide(&[0], ApprovalDecision::Approve).unwrap();
    let done = execute_with(&second, state, &journal);
    assert_eq!(pay.calls(), [json!({ "sum": 666 })]);
    assert_eq!(done.text(), "done");
}

#[test]
fn edited_arguments_that_a_hook_rewrites_are_asked_about_even_if_the_hook_allows_them() {
    for decision in [ToolDecision::Run, ToolDecision::Allow] {
        let hook = CallableHook::new("change").before_tool(move |call, _, _| {
            Ok(match &*call.arguments {
                r#"{"sum":900}"# => ToolDecision::Ask(ApprovalRequest::new("may it?", "change")),
                r#"{"sum":9}"# => ToolDecision::Rewrite(Arguments::new(r#"{"sum":666}"#)),
                _ => decision.clone(),
            })
        });
        let (agent, pay) = paying_under(hook);
        let paused = execute(&agent, asked());
        let state = agent.decide(&paused, &[0], approve_with(r#"{"sum":9}"#)).unwrap();
        let paused = execute(&agent, state);
        let text = "hook `change` changed the arguments after the call was approved";
        assert_eq!((requests(&paused), pay.keys().len()), (one_request(666, text), 0));
        let state = agent.decide(&paused, &[0], ApprovalDecision::Approve).unwrap();
        assert_eq!(told(&execute(&agent, state)), [r#"{"sum":666}"#]);
    }
}

#[test]
fn the_request_about_an_interrupted_call_shows_the_arguments_with_which_it_started() {
    let journal = MemoryJournal::new();
    let rewriting = CallableHook::new("change").before_tool(|call, _, _| {
        let is_changed = &*call.arguments == r#"{"sum":1}"#;
        let to = Arguments::new(r#"{"sum":1}"#);
        Ok(if is_changed { ToolDecision::Run } else { ToolDecision::Rewrite(to) })
    });
    let (first, _) = paying_under(rewriting);
    let first = first.with_tool(MockTool::hanging("pay"));
    run_until_stuck(first.start(asked(), journaled(&journal)).finish());
    let (second, pay) = paying_under(CallableHook::new("none"));
    let options =
        RunOptions { on_interrupted: OnInterrupted::RequireApproval, ..journaled(&journal) };
    let paused = block_on(second.start(replay(&journal), options).finish());
    let text = "the call was interrupted and may have taken effect: run it again?";
    assert_eq!(requests(&paused), one_request(1, text));
    let state = replay(&journal).try_decide(&[0], ApprovalDecision::Approve).unwrap();
    execute_with(&second, state, &journal);
    assert_eq!(pay.calls(), [json!({ "sum": 1 })]);
}

fn color() -> Value {
    json!({ "enum": ["red", "blue"] })
}

/// Asks for a color when it is first called, and paints when it has the answer.
fn painter(effects: SideEffects) -> MockTool {
    let paint = MockTool::with_cx("paint", "", |arguments, cx| {
        Box::pin(async move {
            let Some(answer) = cx.answer() else {
                let pause = ToolPause::ask("Which color?").with_schema(color());
                return Err(pause.with_resume(json!({ "asked": arguments })).into());
            };
            let Some(kept) = cx.resume_value() else { panic!("the resume value is lost") };
            Ok(ToolOutput::text(format!("{answer} {kept}")))
        })
    });
    paint.with_options(ToolOptions { side_effects: effects, ..ToolOptions::default() })
}

/// Calls of the painter and of a tool that asks nothing.
fn painting(effects: SideEffects) -> (AgentLoop, MockTool, MockTool) {
    let (paint, look) = (painter(effects), MockTool::returning("look", "", "seen"));
    let calls = [("paint", json!({ "n": 1 })), ("look", json!({})), ("paint", json!({ "n": 2 }))];
    let agent = agent([ScenarioStep::tool_calls(calls), "done".into()]);
    (agent.with_tool(paint.clone()).with_tool(look.clone()), paint, look)
}

fn reply(value: impl Into<Value>) -> ApprovalDecision {
    ApprovalDecision::Reply(value.into())
}

#[test]
fn a_tool_that_asks_is_called_again_with_the_answer_in_any_order_and_any_process() {
    for effects in [SideEffects::ReadOnly, SideEffects::AtMostOnce, SideEffects::Resumable] {
        let (agent, paint, look) = painting(effects);
        let journal = MemoryJournal::new();
        let paused = execute_with(&agent, asked(), &journal);
        assert_eq!(paused.status(), &ExecutionStatus::Paused);
        assert_eq!((paint.keys().len(), look.keys().len()), (2, 1), "others go on meanwhile");
        let pending = paused.pending();
        let open: Vec<_> = pending
            .iter()
            .map(|it| (it.address(), &*it.call.name, &*it.question.text, &*it.question.source))
            .collect();
        let asks = |call| (vec![call], "paint", "Which color?", "paint");
        assert_eq!(open, [asks(0), asks(2)]);
        let schema = Some(color().into());
        assert_eq!(pending[0].kind, &RequestKind::Question { schema });

        // The last one first, and each in a process of its own.
        let restored = replay(&journal);
        assert_eq!(restored, paused);
        let state = agent.decide(&restored, &[2], reply("red")).unwrap();
        let paused = execute_with(&agent, state, &journal);
        assert_eq!((paused.status(), paint.keys().len()), (&ExecutionStatus::Paused, 2));
        assert_eq!(paused.pending()[0].address(), [0]);
        let state = agent.decide(&paused, &[0], reply("blue")).unwrap();
        let done = execute_with(&agent, state, &journal);
        let expect = [r#""blue" {"asked":{"n":1}}"#, "seen", r#""red" {"asked":{"n":2}}"#];
        assert_eq!((told(&done), done.text()), (expect.map(str::to_owned).to_vec(), "done".into()));
        assert_eq!((paint.keys().len(), look.keys().len()), (4, 1));
        assert_eq!(replay(&journal), done);
    }
}

#[test]
fn a_reply_that_does_not_fit_the_question_is_refused() {
    let (agent, ..) = painting(SideEffects::ReadOnly);
    let paused = execute(&agent, asked());
    let refused = |decision| agent.decide(&paused, &[0], decision).unwrap_err();
    let error = refused(reply("green")).to_string();
    assert!(error.starts_with("the reply to `paint` does not match its schema: at /: "), "{error}");
    let wrong = DecisionError::WrongKind { tool: "paint".into(), waits_for: "question" };
    assert_eq!(refused(ApprovalDecision::Approve), wrong);
    assert_eq!(refused(approve_with("{}")), wrong);
    let ignored = paused.clone().decide(0, ApprovalDecision::Approve);
    assert_eq!(ignored.pending(), paused.pending());
    let (agent, _) = careful();
    let paused = execute(&agent, asked());
    let wrong = DecisionError::WrongKind { tool: "pay".into(), waits_for: "approval" };
    assert_eq!(agent.decide(&paused, &[0], reply("yes")).unwrap_err(), wrong);
}

#[test]
fn a_question_can_be_declined_or_answered_in_the_place_of_the_tool() {
    let (agent, paint, _) = painting(SideEffects::AtMostOnce);
    let paused = execute(&agent, asked());
    let denied = ApprovalDecision::Deny { reason: "no paint".into() };
    let state = agent.decide(&paused, &[0], denied).unwrap();
    let by_hand = ApprovalDecision::Answer(ToolOutput::text("painted by hand"));
    let state = agent.decide(&state, &[2], by_hand).unwrap();
    let done = execute(&agent, state);
    assert_eq!(told(&done), ["Blocked: no paint", "seen", "painted by hand"]);
    assert_eq!(paint.keys().len(), 2);
}

/// Asks, and never comes back from the first call with an answer.
fn hanging(effects: SideEffects) -> (AgentLoop, MockTool) {
    let hangs = std::sync::atomic::AtomicBool::new(true);
    let tool = MockTool::with_cx("work", "", move |_, cx| {
        let answer = cx.answer().cloned();
        let hang = answer.is_some() && hangs.swap(false, std::sync::atomic::Ordering::SeqCst);
        Box::pin(async move {
            if hang {
                std::future::pending::<()>().await;
            }
            match answer {
                None => Err(ToolPause::ask("What?").into()),
                Some(answer) => Ok(ToolOutput::text(answer.to_string())),
            }
        })
    });
    let options = ToolOptions { side_effects: effects, ..ToolOptions::default() };
    let tool = tool.with_options(options);
    let steps = [ScenarioStep::tool_call("work", json!({})), "done".into()];
    (agent(steps).with_tool(tool.clone()), tool)
}

#[test]
fn the_answer_is_on_record_before_the_tool_is_called_again_and_survives_a_crash_in_it() {
    for (effects, expect, calls) in [
        (SideEffects::Idempotent, "7", 3),
        (SideEffects::ReadOnly, "7", 3),
        (
            SideEffects::AtMostOnce,
            "Unknown: the tool was interrupted after it started and may have taken effect; check before you call it again",
            2,
        ),
    ] {
        let (agent, tool) = hanging(effects);
        let journal = MemoryJournal::new();
        let paused = execute_with(&agent, asked(), &journal);
        let state = agent.decide(&paused, &[0], reply(7)).unwrap();
        assert!(run_until_stuck(agent.start(state, journaled(&journal)).finish()).is_none());
        let done = execute_with(&agent, replay(&journal), &journal);
        assert_eq!((told(&done), tool.keys().len()), (vec![expect.to_owned()], calls));
    }
}

#[test]
fn a_tool_that_runs_after_an_approval_with_edits_gets_them_again_after_its_question() {
    let tool = MockTool::with_cx("pay", "", |arguments, cx| {
        let answer = cx.answer().cloned();
        Box::pin(async move {
            match answer {
                None => Err(ToolPause::ask("Sure?").into()),
                Some(_) => Ok(ToolOutput::text(arguments.to_string())),
            }
        })
    });
    let (agent, _) = careful();
    let agent = agent.with_tool(tool);
    let paused = execute(&agent, asked());
    let state = agent.decide(&paused, &[0], approve_with(r#"{"sum":9}"#)).unwrap();
    let paused = execute(&agent, state);
    let state = agent.decide(&paused, &[0], reply(true)).unwrap();
    assert_eq!(told(&execute(&agent, state)), [r#"{"sum":9}"#]);
}

#[test]
fn a_question_is_stored_as_a_change_of_its_own() {
    let (agent, ..) = painting(SideEffects::ReadOnly);
    let journal = MemoryJournal::new();
    execute_with(&agent, asked(), &journal);
    let changes = journal.changes();
    let asked = changes.iter().map(|it| &it.change);
    let mut asked = asked.filter(|it| matches!(it, Change::AnswerRequested { .. }));
    let stored = serde_json::to_value(asked.next().unwrap()).unwrap();
    let request = json!({
        "question": { "text": "Which color?", "source": "paint" },
        "kind": { "question": { "schema": { "enum": ["red", "blue"] } } },
    });
    let pause = json!({ "requests": [request], "resume": { "asked": { "n": 1 } } });
    let expect = json!({
        "answer_requested": { "call": 0, "arguments": r#"{"n":1}"#, "pause": pause },
    });
    assert_eq!(stored, expect);
}

#[test]
fn a_conversation_that_goes_on_without_the_answer_says_that_the_call_had_begun() {
    let (agent, ..) = painting(SideEffects::ReadOnly);
    let paused = execute(&agent, asked());
    let cleared = paused.for_next_execution();
    assert!(told(&cleared)[0].starts_with("Cancelled: "), "{:?}", told(&cleared));
    assert!(told(&cleared)[0].contains("may have taken effect"), "{:?}", told(&cleared));
}

#[test]
fn a_reply_to_a_call_that_needs_an_approval_runs_nothing_and_the_call_asks_again() {
    let (agent, pay) = careful();
    let paused = execute(&agent, asked());
    let ignored = paused.clone().decide(0, reply("yes"));
    assert_eq!(ignored.pending(), paused.pending(), "it is not recorded");
    // A state that another program wrote.
    let approved = serde_json::to_string(&paused.decide(0, ApprovalDecision::Approve)).unwrap();
    let replied = approved.replace(r#"{"decided":"approve"}"#, r#"{"decided":{"reply":"yes"}}"#);
    assert_ne!(replied, approved);
    let again = execute(&agent, serde_json::from_str(&replied).unwrap());
    assert_eq!((again.status(), pay.keys().len()), (&ExecutionStatus::Paused, 0));
    let [asked] = &again.pending()[..] else { panic!("{again:?}") };
    assert!(asked.question.is_recovery(), "{asked:?}");
    let state = agent.decide(&again, &[0], approve_with(r#"{"sum":9}"#)).unwrap();
    assert_eq!(told(&execute(&agent, state)), [r#"{"sum":9}"#]);
}

#[test]
fn a_decision_is_checked_without_the_agent_also_if_it_edits_arguments() {
    let (agent, ..) = painting(SideEffects::ReadOnly);
    let paused = execute(&agent, asked());
    let refused = paused.try_decide(&[0], reply("green")).unwrap_err();
    assert!(matches!(refused, DecisionError::InvalidReply { .. }), "{refused}");
    let decided = paused.try_decide(&[0], reply("red")).unwrap();
    assert_eq!(decided, agent.decide(&paused, &[0], reply("red")).unwrap());
    let (agent, _) = careful();
    let paused = execute(&agent, asked());
    let refused = paused.try_decide(&[0], approve_with(r#"{"sum":"much"}"#)).unwrap_err();
    assert!(matches!(refused, DecisionError::InvalidArguments { .. }), "{refused}");
    let edited = paused.try_decide(&[0], approve_with(r#"{"sum":9}"#)).unwrap();
    assert_eq!(told(&execute(&agent, edited)), [r#"{"sum":9}"#]);
    // A state of an earlier version has no schema.
    let mut state = serde_json::to_value(&paused).unwrap();
    assert!(remove_key(&mut state, "parameters"));
    let paused: AgentState = serde_json::from_value(state).unwrap();
    let refused = paused.try_decide(&[0], approve_with("{}")).unwrap_err();
    assert!(matches!(refused, DecisionError::UnknownTool { .. }), "{refused}");
}

/// Removes all fields of a name, and returns whether there were any.
fn remove_key(value: &mut Value, key: &str) -> bool {
    match value {
        Value::Object(fields) => {
            let removed = fields.remove(key).is_some();
            fields.values_mut().fold(removed, |removed, it| remove_key(it, key) | removed)
        }
        Value::Array(items) => {
            items.iter_mut().fold(false, |removed, it| remove_key(it, key) | removed)
        }
        _ => false,
    }
}

#[test]
fn a_call_that_could_not_run_is_not_asked_about() {
    let steps = [
        ScenarioStep::tool_call("gone", json!({})),
        ScenarioStep::tool_call("pay", json!({ "sum": "much" })),
        "done".into(),
    ];
    let asking = CallableHook::new("ask")
        .before_tool(|_, _, _| Ok(ToolDecision::Ask(ApprovalRequest::new("may it?", "ask"))));
    let (_, pay) = careful();
    let done = execute(&hooked(&agent(steps).with_tool(pay), asking), asked());
    let failures = told(&done);
    let expect = ["unknown tool `gone`", "do not match the schema of `pay`"];
    assert!(expect.iter().zip(&failures).all(|(part, it)| it.contains(part)), "{failures:?}");
    assert_eq!((failures.len(), done.text().as_str()), (2, "done"));
}

#[test]
fn a_question_that_the_user_cancels_ends_its_call_unless_the_tool_takes_refusals() {
    let ended = |takes_refusals: bool, decision: ApprovalDecision| {
        let ask = MockTool::with_cx("ask", "", move |_, cx| {
            Box::pin(async move {
                let Some(refusal) = cx.refusal() else {
                    let pause = ToolPause::ask("Which?");
                    let pause = if takes_refusals { pause.with_refusals() } else { pause };
                    return Err(pause.into());
                };
                Ok(ToolOutput::text(format!("{refusal:?}")))
            })
        });
        let steps = [ScenarioStep::tool_call("ask", json!({})), "done".into()];
        let agent = self::agent(steps).with_tool(ask);
        let paused = execute(&agent, asked());
        let text = serde_json::to_string(&paused).unwrap();
        let restored: AgentState = serde_json::from_str(&text).unwrap();
        told(&execute(&agent, restored.try_decide(&[0], decision).unwrap()))
    };
    let deny = || ApprovalDecision::Deny { reason: "no".into() };
    assert_eq!(ended(true, deny()), ["Declined"]);
    assert_eq!(ended(true, ApprovalDecision::Cancel), ["Cancelled"]);
    assert_eq!(ended(false, deny()), ["Blocked: no"]);
    let dismissed = ["Blocked: the user dismissed the question without an answer"];
    assert_eq!(ended(false, ApprovalDecision::Cancel), dismissed);
    let (agent, _) = careful();
    let refused = execute(&agent, asked()).try_decide(&[0], ApprovalDecision::Cancel).unwrap_err();
    assert!(matches!(refused, DecisionError::WrongKind { .. }), "{refused}");
}
