//! What a child has of its parent.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use loopwright_agent::{Capability, UseToolSource};
use loopwright_core::{
    AgentLoop, AgentState, Budget, CallableHook, ChatModel, Delta, Edit, Flow, HookStack, InferCx,
    LlmConfig, ModelError, ModelErrorKind, Priority, RunOptions, StopReason, ToolDecision,
    ToolOutput, ToolSet,
    messages::{InferenceRequest, InferenceResponse},
};
use loopwright_testing::{
    FakeModel, MockTool, ModelDriver, ScenarioStep, ScriptedToolSource, block_on, test_env,
    test_loop,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::tasks::UseTaskPlanning;

use super::{ChildAgent, ChildError, ChildOutcome, DEPTH};

/// What the child of an agent became, and what its model was asked.
struct Seen {
    ended: Option<ChildOutcome>,
    requests: Vec<InferenceRequest>,
}

type Change = dyn for<'a> Fn(ChildAgent<'a>) -> ChildAgent<'a> + Send + Sync;

/// Lets an agent with these tools make a child, and looks at it.
fn child_of(
    change_agent: impl FnOnce(AgentLoop) -> AgentLoop,
    state: AgentState,
    change: &'static Change,
) -> Seen {
    let seen: Arc<Mutex<Option<ChildOutcome>>> = Arc::default();
    let kept = Arc::clone(&seen);
    let spawn = MockTool::with_cx("spawn", "", move |_, cx| {
        let kept = Arc::clone(&kept);
        Box::pin(async move {
            let child = change(ChildAgent::of(cx, "helper"));
            let ended = child.run("look", |state| state.with_user_message("look")).await;
            let ended = ended.map_err(|error| loopwright_core::ToolError::Failed(error.into()))?;
            let text = ended.answer().map_or_else(|it| it.to_string(), |it| it.to_text());
            *kept.lock().unwrap() = Some(ended);
            Ok(ToolOutput::text(text))
        })
    });
    let model = FakeModel::script([ScenarioStep::tool_call("spawn", json!({})), "done".into()]);
    let tools = ["read", "write"].map(|name| MockTool::returning(name, "", "ok"));
    let tools: ToolSet = tools.into_iter().collect();
    let agent = test_loop(ModelDriver::new(model.clone())).with_tools(tools.with(spawn));
    let options = RunOptions { env: test_env(1), ..RunOptions::default() };
    let run = change_agent(agent).start(state.with_user_message("go"), options);
    block_on(run.finish());
    let ended = seen.lock().unwrap().take();
    Seen { ended, requests: model.requests() }
}

impl Seen {
    /// The tools that the child was shown.
    fn tools(&self) -> Vec<&str> {
        self.requests[1].tools.iter().map(|it| &*it.name).collect()
    }

    fn state(&self) -> &AgentState {
        &self.ended.as_ref().unwrap().state
    }
}

#[test]
fn a_child_has_the_tools_that_its_parent_has_when_it_is_made() {
    let as_it_is = child_of(|it| it, AgentState::new(), &|it| it);
    assert_eq!(as_it_is.tools(), ["read", "write", "spawn"]);
    let narrowed = child_of(
        |agent| {
            let tools = agent.tools().filter(|it| &**it.name() != "write");
            agent.with_tools(tools)
        },
        AgentState::new(),
        &|it| it,
    );
    assert_eq!(narrowed.tools(), ["read", "spawn"]);
    let kept = child_of(|it| it, AgentState::new(), &|it| it.keep_tools(|name| name == "read"));
    assert_eq!(kept.tools(), ["read"]);
}

#[test]
fn a_child_has_the_tools_that_sources_of_its_parent_list_and_follows_no_source() {
    let listed = MockTool::returning("search", "Searches.", "found");
    let source = ScriptedToolSource::new("server", ToolSet::new().with(listed));
    let parent = source.clone();
    let seen = child_of(
        move |agent| agent.with(|parts| parts.sources.add(Arc::new(parent))),
        AgentState::new(),
        &|it| it,
    );
    assert_eq!(seen.tools(), ["read", "write", "spawn", "search"]);
    assert_eq!((source.listings(), source.closings()), (1, 0));
    let kept_source = source.clone();
    let kept = child_of(
        move |agent| agent.with(|parts| parts.sources.add(Arc::new(kept_source))),
        AgentState::new(),
        &|it| it.keep_tools(|name| name == "read"),
    );
    assert_eq!(kept.tools(), ["read"]);
}

#[test]
fn a_source_of_a_capability_of_a_child_gives_it_nothing_that_its_parent_lacks() {
    fn with_source(child: ChildAgent<'_>) -> ChildAgent<'_> {
        let listed = MockTool::returning("delete", "Deletes everything.", "gone");
        let source = ScriptedToolSource::new("server", ToolSet::new().with(listed));
        let capability: Arc<dyn Capability> = Arc::new(UseToolSource::new(source));
        child.with_capabilities([capability])
    }

    let seen = child_of(|it| it, AgentState::new(), &|it| with_source(it));
    assert_eq!(seen.tools(), ["read", "write", "spawn"]);
}

#[test]
fn the_tools_that_a_child_keeps_are_also_those_of_its_capabilities() {
    fn planning(child: ChildAgent<'_>) -> ChildAgent<'_> {
        let planning: Arc<dyn Capability> = Arc::new(UseTaskPlanning::default());
        child.with_capabilities([planning])
    }

    let open = child_of(|it| it, AgentState::new(), &|it| planning(it));
    assert_eq!(open.tools(), ["read", "write", "spawn", "todo_write"]);
    let kept =
        child_of(|it| it, AgentState::new(), &|it| planning(it).keep_tools(|name| name == "read"));
    assert_eq!(kept.tools(), ["read"]);
}

fn hooked(agent: &AgentLoop, hooks: Vec<(i16, CallableHook)>) -> AgentLoop {
    let mut stack = HookStack::default();
    for (priority, hook) in hooks {
        stack.add_at(Priority(priority), hook);
    }
    agent.with_interceptor(stack.into_interceptor())
}

#[test]
fn guards_and_what_stands_around_tools_bind_children_and_nothing_else_does() {
    let called: Arc<Mutex<Vec<(&str, bool)>>> = Arc::default();
    let note = |name: &'static str| {
        let called = Arc::clone(&called);
        move |state: &AgentState| called.lock().unwrap().push((name, state.parent().is_some()))
    };
    let (guard, other, around) = (note("guard"), note("other"), note("around"));
    let hooks = vec![
        (
            200,
            CallableHook::new("guard").before_step(move |state, _| {
                guard(state);
                Ok(Flow::Continue)
            }),
        ),
        (
            0,
            CallableHook::new("other").before_step(move |state, _| {
                other(state);
                Ok(Flow::Continue)
            }),
        ),
        (
            0,
            CallableHook::new("around").before_tool(move |_, state, _| {
                around(state);
                Ok(ToolDecision::Run)
            }),
        ),
    ];
    let read = ScenarioStep::tool_call("read", json!({}));
    let steps = [ScenarioStep::tool_call("spawn", json!({})), read, "read".into(), "done".into()];
    let model = FakeModel::script(steps);
    let driver = Arc::new(ModelDriver::new(model));
    child_of(|agent| hooked(&agent.with_driver(driver), hooks), AgentState::new(), &|it| it);
    let called = called.lock().unwrap();
    let by_children: Vec<_> = called.iter().filter(|it| it.1).map(|it| it.0).collect();
    assert_eq!(by_children, ["guard", "around", "guard"]);
    assert!(called.contains(&("other", false)));
}

fn budget(steps: u32, tokens: u64) -> Budget {
    Budget { steps: Some(steps), tokens: Some(tokens), ..Budget::unlimited() }
}

#[test]
fn the_budget_is_what_is_left_of_the_parents_and_capped_by_its_own() {
    let of = |parent: Budget, change: &'static Change| {
        *child_of(|it| it, AgentState::new().with_budget(parent), change).state().budget()
    };
    assert_eq!(of(budget(100, 5000), &|it| it.cap(&budget(10, 1000))), budget(10, 1000));
    assert_eq!(of(budget(5, 500), &|it| it.cap(&budget(10, 1000))), budget(5, 500));
    assert_eq!(of(Budget::unlimited(), &|it| it.cap(&budget(10, 1000))), budget(10, 1000));
    assert_eq!(of(budget(5, 500), &|it| it), budget(5, 500));
}

#[test]
fn whatever_the_first_state_says_its_budget_is_capped() {
    let greedy = |state: AgentState| state.with_budget(Budget::unlimited());
    let spawn = MockTool::with_cx("spawn", "", move |_, cx| {
        Box::pin(async move {
            let child = ChildAgent::of(cx, "helper").cap(&budget(2, 20));
            let ended = child.run("x", |state| greedy(state).with_user_message("x")).await;
            Ok(ToolOutput::json(json!(ended.unwrap().state.budget())))
        })
    });
    let model = FakeModel::script([ScenarioStep::tool_call("spawn", json!({})), "done".into()]);
    let agent = test_loop(ModelDriver::new(model)).with_tool(spawn);
    let state = block_on(agent.execute(AgentState::new().with_user_message("go")));
    let step = state.step_at(0).unwrap();
    let told = step.tool_executions().next().unwrap().1.to_result().to_text();
    assert_eq!(told, json!(budget(2, 20)).to_string());
}

#[test]
fn a_child_knows_its_parent_its_depth_and_the_model_to_ask_and_no_word_of_the_conversation() {
    let state = AgentState::new()
        .with_system_prompt("the parent's own")
        .with_llm(LlmConfig::named("big"))
        .edit(Edit::Set(DEPTH.slot(), Some(json!(1))));
    let seen = child_of(|it| it, state, &|it| it);
    assert_eq!(seen.state().get(&DEPTH), Some(2));
    assert_eq!(seen.state().parent().is_some(), seen.state().id().is_some());
    assert_ne!(seen.state().parent(), seen.state().id());
    let request = &seen.requests[1];
    assert_eq!((request.system.as_deref(), request.model.as_deref()), (None, Some("big")));
    let said: Vec<_> = request.prompt.stable().map(|it| it.message().text()).collect();
    assert_eq!(said, ["look"]);
}

#[test]
fn a_child_that_would_be_too_deep_does_not_begin() {
    let state = AgentState::new().edit(Edit::Set(DEPTH.slot(), Some(json!(3))));
    let seen = child_of(|it| it, state, &|it| it);
    assert_eq!((seen.ended, seen.requests.len()), (None, 2));
    let error = ChildError::TooDeep { name: "helper".into(), current: 3, max: 3 };
    let told = "`helper` cannot run here: sub-agents are nested 3 deep, and the limit is 3; do the task yourself";
    assert_eq!(error.to_string(), told);
}

#[test]
fn a_child_that_was_stopped_says_so_and_one_that_failed_is_an_error() {
    let stopped = child_of(|it| it, AgentState::new(), &|it| {
        it.cap(&Budget { steps: Some(0), ..Budget::unlimited() })
    });
    let answer = stopped.ended.unwrap().answer().unwrap();
    assert_eq!(
        answer.to_text(),
        "(no answer: stopped after 0 steps by budget: steps_limit: the step limit of 0 was reached)"
    );
    let steps =
        [ScenarioStep::tool_call("spawn", json!({})), ScenarioStep::error("down"), "done".into()];
    let driver = Arc::new(ModelDriver::new(FakeModel::script(steps)));
    let failed = child_of(|agent| agent.with_driver(driver), AgentState::new(), &|it| it);
    let error = failed.ended.unwrap().answer().unwrap_err();
    assert!(matches!(&error, ChildError::Failed { steps: 1, tokens: 0, .. }), "{error:?}");
    assert!(
        error.to_string().starts_with("`helper` failed after 1 steps and 0 tokens: "),
        "{error}"
    );
}

#[test]
fn a_child_that_works_when_the_time_of_its_parent_is_up_is_stopped_by_that_limit() {
    let steps =
        [ScenarioStep::tool_call("spawn", json!({})), ScenarioStep::tool_call("hang", json!({}))];
    let driver = Arc::new(ModelDriver::new(FakeModel::script(steps)));
    let budget = Budget { time: Some(Duration::from_secs(5)), ..Budget::unlimited() };
    let state = AgentState::new().with_budget(budget);
    let change = |agent: AgentLoop| agent.with_driver(driver).with_tool(MockTool::hanging("hang"));
    let ended = child_of(change, state, &|it| it).ended.unwrap();
    let reason = ended.state.stop_signal().map(|signal| signal.reason);
    assert_eq!(reason, Some(StopReason::TimeLimitReached), "{}", ended.state.explain_stop());
}

/// Is interrupted in its answer.
struct Interrupted(CancellationToken);

#[async_trait]
impl ChatModel for Interrupted {
    async fn infer(
        &self,
        _request: &InferenceRequest,
        cx: InferCx<'_>,
    ) -> Result<InferenceResponse, ModelError> {
        cx.deltas.push(Delta::Text("as far as"));
        self.0.cancel();
        Err(ModelError::new(ModelErrorKind::Cancelled, "cancelled"))
    }
}

#[test]
fn a_child_that_was_interrupted_in_its_answer_has_said_what_came_of_it() {
    let cancel = CancellationToken::new();
    let agent = test_loop(ModelDriver::new(Interrupted(cancel.clone())));
    let options = RunOptions { cancel, env: test_env(1), ..RunOptions::default() };
    let state = block_on(agent.start(AgentState::new().with_user_message("go"), options).finish());
    let answer =
        ChildOutcome { name: "helper".into(), state, pause: None, left: None }.answer().unwrap();
    assert_eq!(answer.text, "as far as\n\n[interrupted by the user]");
    assert!(answer.cut_short.is_some(), "{answer:?}");
}
