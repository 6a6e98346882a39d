//! Pauses of a parent whose sub-agent waits, and failures to save the sub-agent.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use async_trait::async_trait;
use loopwright_core::{
    AgentLoop, AgentState, ApprovalDecision, Arguments, ChangeRecord, DecisionError,
    ExecutionStatus, FailureKind, IdempotencyKey, Journal, JournalError, OnAsk, OnInterrupted,
    RunOptions, Seq, SideEffects, ToolOptions, ToolOutput, ToolPause, messages::TurnBody,
};
use loopwright_testing::{
    FakeModel, MemoryJournal, MockTool, ModelDriver, ScenarioStep, block_on, run_until_stuck,
    test_env, test_loop,
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

/// What the user learns of a run: its text, and the path, the tool and the arguments of each denied call.
fn denials(state: &AgentState) -> (String, Vec<(Vec<String>, String)>) {
    let calls = state.denied_calls().into_iter().map(|it| {
        let path = it.agents.iter().map(ToString::to_string).collect();
        (path, format!("{} {}", it.tool, it.arguments))
    });
    (state.text(), calls.collect())
}

#[test]
fn a_question_of_a_sub_agent_that_already_waits_is_refused_like_a_new_one() {
    let denied =
        |n: u32| (vec!["helper".to_owned(), "painter".to_owned()], format!(r#"paint {{"n":{n}}}"#));
    let all = vec![denied(1), denied(2)];
    // The first one ends the run of the sub-agent.
    for (on_ask, calls) in [(OnAsk::Deny, all), (OnAsk::Fail, vec![denied(1)])] {
        let refusing = |agent: &AgentLoop, state, journal: Option<&MemoryJournal>| {
            let journal = journal.map(|it| Arc::new(it.clone()) as _);
            let options = RunOptions { env: test_env(1), journal, on_ask, ..RunOptions::default() };
            block_on(agent.start(state, options).finish())
        };
        let asked = || AgentState::new().with_user_message("go");
        let fresh = denials(&refusing(&two_levels().0, asked(), None));
        assert_eq!(fresh.1, calls, "{on_ask:?}");
        let journal = MemoryJournal::new();
        for journal in [None, Some(&journal)] {
            let (agent, paint) = two_levels();
            let paused = run(&agent, asked(), journal);
            assert_eq!((paused.pending().len(), paint.keys().len()), (2, 2));
            let resumed = refusing(&agent, paused, journal);
            assert_eq!(denials(&resumed), fresh, "{on_ask:?}");
            assert_eq!((resumed.pending().len(), paint.keys().len()), (0, 2), "{on_ask:?}");
        }
    }
}

/// Answers the question of the innermost agent, and resumes all of them.
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
fn a_question_two_levels_down_is_answered_at_the_root_and_the_child_resumes() {
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
        let question = ApprovalRequest::new("may it?", "policy");
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

#[test]
fn arguments_that_a_hook_of_a_child_rewrites_after_the_approval_wait_at_the_root_again() {
    use loopwright_core::{ApprovalRequest, CallableHook, Interceptor, ToolDecision};
    let pay = MockTool::returning("pay", "", "paid");
    let model = FakeModel::script([
        ScenarioStep::tool_call("outer", json!({})),
        ScenarioStep::tool_call("pay", json!({ "n": 900 })),
        "paid one".into(),
        "done".into(),
    ]);
    let hook = CallableHook::new("policy").before_tool(|call, _, _| {
        Ok(match &*call.arguments {
            r#"{"n":9}"# => ToolDecision::Rewrite(Arguments::new(r#"{"n":1}"#)),
            "{}" => ToolDecision::Run,
            _ => ToolDecision::Ask(ApprovalRequest::new("may it?", "policy")),
        })
    });
    let agent = test_loop(ModelDriver::new(model))
        .with_tool(spawning("outer", "helper"))
        .with_tool(pay.clone())
        .with_interceptor(Interceptor::from_hook(Arc::new(hook)));
    let paused = run(&agent, AgentState::new().with_user_message("go"), None);
    let edited = ApprovalDecision::ApproveWith { arguments: Arguments::new(r#"{"n":9}"#) };
    let paused = run(&agent, agent.decide(&paused, &[0, 0], edited).unwrap(), None);
    let pending = paused.pending();
    let shown: Vec<_> = pending.iter().map(|it| (it.address(), &*it.call.arguments)).collect();
    assert_eq!((shown, pay.calls()), (vec![(vec![0, 0], r#"{"n":1}"#)], vec![]));
    let state = agent.decide(&paused, &[0, 0], ApprovalDecision::Approve).unwrap();
    let done = run(&agent, state, None);
    assert_eq!((done.text().as_str(), pay.calls()), ("done", vec![json!({ "n": 1 })]));
}

/// A child whose payment never came back, and the tool that pays.
fn interrupted_payment(journal: &MemoryJournal) -> (AgentLoop, MockTool) {
    let hangs = std::sync::atomic::AtomicBool::new(true);
    let pay = MockTool::with_cx("pay", "", move |_, _| {
        let hang = hangs.swap(false, std::sync::atomic::Ordering::SeqCst);
        Box::pin(async move {
            if hang {
                std::future::pending::<()>().await;
            }
            Ok(ToolOutput::text("paid"))
        })
    });
    let side_effects = SideEffects::AtMostOnce;
    let pay = pay.with_options(ToolOptions { side_effects, ..ToolOptions::default() });
    let model = FakeModel::script([
        ScenarioStep::tool_call("outer", json!({})),
        ScenarioStep::tool_call("inner", json!({})),
        ScenarioStep::tool_call("pay", json!({})),
        "it is paid".into(),
        "the inner one paid".into(),
        "all is paid".into(),
    ]);
    let agent = test_loop(ModelDriver::new(model))
        .with_tool(spawning("outer", "helper"))
        .with_tool(spawning("inner", "payer"))
        .with_tool(pay.clone());
    let options = RunOptions {
        env: test_env(1),
        journal: Some(Arc::new(journal.clone()) as _),
        ..RunOptions::default()
    };
    let run = agent.start(AgentState::new().with_user_message("go"), options).finish();
    assert!(run_until_stuck(run).is_none());
    (agent, pay)
}

#[test]
fn an_interrupted_call_of_a_child_waits_for_a_decision_at_the_root_if_that_is_the_policy() {
    let answer = ApprovalDecision::Answer(ToolOutput::text("it was paid"));
    let denied = ApprovalDecision::Deny { reason: "not again".to_owned() };
    for (decision, calls) in [(ApprovalDecision::Approve, 2), (denied, 1), (answer, 1)] {
        let journal = MemoryJournal::new();
        let (agent, pay) = interrupted_payment(&journal);
        let resume = |state| {
            let options = RunOptions {
                env: test_env(1),
                journal: Some(Arc::new(journal.clone()) as _),
                on_interrupted: OnInterrupted::RequireApproval,
                ..RunOptions::default()
            };
            block_on(agent.start(state, options).finish())
        };
        let paused = resume(AgentState::new().replay(journal.changes()).unwrap());
        assert_eq!((paused.status(), pay.keys().len()), (&ExecutionStatus::Paused, 1));
        let [asked] = &paused.pending()[..] else { panic!("{paused:?}") };
        assert_eq!((asked.address(), &*asked.call.name), (vec![0, 0, 0], "pay"));
        assert!(asked.question.is_recovery(), "{asked:?}");
        let done = resume(agent.decide(&paused, &[0, 0, 0], decision).unwrap());
        assert_eq!((done.text().as_str(), pay.keys().len()), ("all is paid", calls));
    }
}

/// A journal whose children cannot reach their store at one of their appends, counted from zero.
struct Failing {
    inner: Arc<dyn Journal>,
    left: Arc<AtomicUsize>,
    is_child: bool,
}

#[async_trait]
impl Journal for Failing {
    async fn append(&self, first: Seq, changes: &[ChangeRecord]) -> Result<(), JournalError> {
        if self.is_child && self.left.fetch_sub(1, SeqCst) == 0 {
            return Err(JournalError::Unavailable("the disk is full".into()));
        }
        self.inner.append(first, changes).await
    }

    async fn load_changes(&self) -> Result<Vec<ChangeRecord>, JournalError> {
        self.inner.load_changes().await
    }

    fn child(&self, call: &IdempotencyKey) -> Arc<dyn Journal> {
        let (inner, left) = (self.inner.child(call), Arc::clone(&self.left));
        Arc::new(Self { inner, left, is_child: true })
    }
}

#[test]
fn a_journal_that_fails_in_a_child_ends_the_run_and_nothing_finished_is_repeated() {
    // The child appends five times.
    for append in 0..5 {
        let count = MockTool::returning("count", "", "counted");
        let side_effects = SideEffects::AtMostOnce;
        let count = count.with_options(ToolOptions { side_effects, ..ToolOptions::default() });
        // An answer that was not kept is asked for again.
        let model = FakeModel::from_fn(|request| {
            let turns = request.prompt.turns.iter();
            let calls = turns.filter(|it| matches!(it.body(), TurnBody::ToolExchange(_))).count();
            let is_child = request.prompt.stable().any(|it| it.message().text() == "work");
            let step: ScenarioStep = match (is_child, calls) {
                (true, 0) => ScenarioStep::tool_call("count", json!({})),
                (false, 0) => ScenarioStep::tool_call("outer", json!({})),
                (true, _) => "counted".into(),
                (false, _) => "done".into(),
            };
            step.to_response()
        });
        let agent = test_loop(ModelDriver::new(model))
            .with_tool(spawning("outer", "helper"))
            .with_tool(count.clone());
        let kept = MemoryJournal::new();
        let left = Arc::new(AtomicUsize::new(append));
        let run = |state| {
            let (inner, left) = (Arc::new(kept.clone()), Arc::clone(&left));
            let journal = Arc::new(Failing { inner, left, is_child: false });
            let options =
                RunOptions { env: test_env(1), journal: Some(journal), ..RunOptions::default() };
            block_on(agent.start(state, options).finish())
        };
        let failed = run(AgentState::new().with_user_message("go"));
        let is_journal = |it: &ExecutionStatus| matches!(it, ExecutionStatus::Failed(it) if it.kind == FailureKind::Journal);
        assert!(is_journal(failed.status()), "{append}: {:?}", failed.status());
        assert!(failed.explain_stop().contains("the disk is full"), "{}", failed.explain_stop());
        let done = run(AgentState::new().replay(kept.changes()).unwrap());
        assert_eq!((done.text().as_str(), count.keys().len()), ("done", 1), "{append}");
    }
}
