//! What a model is asked.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::{
    AgentState, BoxError, CallableHook, CompileError, ContextCompiler, InferenceDecision,
    Instructions, LlmConfig, Status,
    kinds::{InferenceRequestStarted, PrefixBroken},
    messages::{
        InferenceOptions, Message, PrefixBreak, Prompt, ResponseFormat, ToolChoice, Transcript,
        Turn,
    },
};
use loopwright_testing::{
    EventRecorder, FakeModel, MockTool, ModelDriver, ScenarioStep, WholeConversation, loop_of,
};
use serde_json::json;

use crate::support::{asked, execute, hooked};

fn three_steps() -> FakeModel {
    FakeModel::script([ScenarioStep::tool("a"), ScenarioStep::tool("b"), "done".into()])
}

/// Adds what changes from step to step after the conversation.
struct WithTail;

#[async_trait]
impl ContextCompiler for WithTail {
    async fn compile(
        &self,
        state: &AgentState,
        previous: Option<Prompt>,
    ) -> Result<Prompt, CompileError> {
        let mut prompt = WholeConversation.compile(state, previous).await?;
        prompt.tail.push(Message::user(format!("step {}", state.step_count() + 1)));
        Ok(prompt)
    }
}

#[test]
fn the_stable_part_holds_instructions_tools_and_conversation_and_the_tail_what_is_volatile() {
    let model = three_steps();
    let format = ResponseFormat::JsonObject;
    let agent = loop_of(ModelDriver::new(model.clone())).with(|parts| {
        parts.compiler = Arc::new(WithTail);
        parts.instructions = Instructions::new([("role".into(), "You are brief.".into())]);
        parts.head = Transcript::from_iter([Turn::said(Message::user("example")).unwrap()]);
        parts.response_format = Some(format.clone());
    });
    let events = EventRecorder::new();
    let state = asked().with_system_prompt("Answer in French.");
    let state = execute(&agent.with_event_sink(events.sink()), state);
    let requests = model.requests();
    for (number, request) in (1..).zip(&requests) {
        assert_eq!(request.system.as_deref(), Some("Answer in French.\n\nYou are brief."));
        assert_eq!(request.response_format.as_ref(), Some(&format));
        assert_eq!(request.tool_choice, ToolChoice::Auto);
        assert_eq!(request.prompt.head.len(), 1);
        assert_eq!(request.prompt.tail, [Message::user(format!("step {number}"))]);
    }
    for pair in requests.windows(2) {
        assert!(pair[1].prompt.turns.starts_with(&pair[0].prompt.turns));
        assert!(pair[0].tools.is_same(&pair[1].tools), "the tools are written once");
        assert_eq!(pair[0].prefix_broken_by(&pair[1]), None);
    }
    assert_eq!(events.of::<PrefixBroken>(), []);
    assert_eq!(state.transcript().len(), 4, "the tail is not recorded");
    let shown: Vec<_> =
        events.of::<InferenceRequestStarted>().iter().map(|it| it.messages).collect();
    assert_eq!(shown, [3, 4, 5]);
}

#[track_caller]
fn check_broken(
    edit: impl Fn(&mut loopwright_core::StateEdit<'_>) + Send + Sync + 'static,
    expect: &[PrefixBreak],
) {
    let hook = CallableHook::new("edit").after_step(move |state, _| {
        if state.step_count() == 2 {
            edit(state);
        }
        Ok(loopwright_core::Flow::Go)
    });
    let events = EventRecorder::new();
    let agent = hooked(&loop_of(ModelDriver::new(three_steps())), hook);
    drop(execute(&agent.with_event_sink(events.sink()), asked()));
    let causes: Vec<_> = events.of::<PrefixBroken>().into_iter().map(|it| it.cause).collect();
    assert_eq!(causes, expect);
}

#[test]
fn a_request_that_does_not_begin_with_the_one_before_says_why() {
    check_broken(|_| (), &[]);
    check_broken(|state| state.say(Message::user("more")), &[]);
    check_broken(
        |state| state.replace("messages", state.transcript().first(1), PrefixBreak::Compaction),
        &[PrefixBreak::Compaction],
    );
    check_broken(|state| state.set_system_prompt("Another."), &[PrefixBreak::PromptEdited]);
    check_broken(|state| state.set_llm(LlmConfig::named("other")), &[PrefixBreak::ModelChanged]);
}

#[test]
fn a_hook_that_rewrites_a_request_breaks_its_prefix() {
    let hook = CallableHook::new("rewrite").before_inference(|request, _, _| {
        if request.prompt.turns.len() == 2 {
            request.prompt.turns = Transcript::from_iter([Turn::said(Message::user("x"))?]);
        }
        Ok(InferenceDecision::Go)
    });
    let events = EventRecorder::new();
    let agent = hooked(&loop_of(ModelDriver::new(three_steps())), hook);
    drop(execute(&agent.with_event_sink(events.sink()), asked()));
    assert_eq!(events.of::<PrefixBroken>()[0].cause, PrefixBreak::HookRewrote);
}

#[test]
fn the_state_selects_the_model_and_its_settings() {
    let model = FakeModel::echo().named("default");
    let events = EventRecorder::new();
    let agent = loop_of(ModelDriver::new(model.clone())).with_event_sink(events.sink());
    let mut llm = LlmConfig::named("other");
    llm.options = {
        let mut options = InferenceOptions::default();
        options.temperature = Some(0.5);
        options
    };
    let state = execute(&agent, asked());
    drop(execute(&agent, state.with_llm(llm)));
    let asked: Vec<_> =
        events.of::<InferenceRequestStarted>().into_iter().map(|it| it.model).collect();
    assert_eq!(asked, [Some("default".into()), Some("other".into())]);
    assert_eq!(model.requests()[1].options.temperature, Some(0.5));
}

#[test]
fn a_compiler_that_fails_fails_the_step() {
    struct Failing;
    #[async_trait]
    impl ContextCompiler for Failing {
        async fn compile(&self, _: &AgentState, _: Option<Prompt>) -> Result<Prompt, CompileError> {
            Err(CompileError(BoxError::from("no room")))
        }
    }
    let agent = loop_of(ModelDriver::new(FakeModel::echo()))
        .with(|parts| parts.compiler = Arc::new(Failing));
    let state = execute(&agent, asked());
    let Status::Failed(failure) = state.status() else { panic!("{state:?}") };
    assert_eq!(failure.to_string(), "the context could not be compiled: no room");
}

#[test]
fn changing_a_part_of_a_loop_leaves_the_original_as_it_is() {
    let model = FakeModel::echo();
    let base = loop_of(ModelDriver::new(model.clone()));
    let other = base.with_tool(MockTool::returning("look", "", json!(1)));
    assert_eq!((base.tools().len(), other.tools().len()), (1, 2));
    let hooked = hooked(&base, CallableHook::new("one").after_execution(|_, _| Ok(())));
    assert_eq!((base.interceptor().hooks().len(), hooked.interceptor().hooks().len()), (0, 1));
    for agent in [&base, &base.clone()] {
        assert_eq!(execute(agent, asked()).text(), "go");
    }
}

#[test]
fn the_compiler_of_a_loop_reaches_whatever_driver_it_has() {
    for first in [true, false] {
        let model = FakeModel::echo();
        let driver = Arc::new(ModelDriver::new(model.clone()));
        let base = loop_of(ModelDriver::new(FakeModel::default()));
        let with_tail =
            |it: loopwright_core::AgentLoop| it.with(|parts| parts.compiler = Arc::new(WithTail));
        let agent = if first {
            with_tail(base).with_driver(driver)
        } else {
            with_tail(base.with_driver(driver))
        };
        assert_eq!(execute(&agent, asked()).text(), "step 1");
    }
}
