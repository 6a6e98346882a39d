//! What a model is asked.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::{
    AgentLoop, AgentState, BoxError, CallableHook, ChatModel, CompileError, ContextCompiler,
    ExecutionStatus, Fragment, InferCx, InferenceDecision, Instructions, IntoTool as _, LlmConfig,
    ModelError, ModelLayer, ToolSet,
    events::{InferenceRequestStarted, PromptCacheBroken},
    messages::{
        CacheBreak, InferenceOptions, InferenceRequest, InferenceResponse, Message, Prompt,
        ResponseFormat, ToolChoice, Transcript, Turn, Usage,
    },
};
use loopwright_testing::{
    EventRecorder, FakeModel, FullTranscript, MockTool, ModelDriver, ScenarioStep, Timeline,
    test_loop,
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
        let mut prompt = FullTranscript.compile(state, previous).await?;
        prompt.tail.push(Message::user(format!("step {}", state.step_count() + 1)));
        Ok(prompt)
    }
}

#[test]
fn the_stable_part_holds_instructions_tools_and_conversation_and_the_tail_what_is_volatile() {
    let model = three_steps();
    let format = ResponseFormat::JsonObject;
    let agent = test_loop(ModelDriver::new(model.clone())).with(|parts| {
        parts.compiler = Arc::new(WithTail);
        parts.instructions = Instructions::new([("role".into(), "You are brief.".into())]);
        parts.preamble =
            Transcript::from_iter([Turn::from_message(Message::user("example")).unwrap()]);
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
        assert!(pair[0].tools.ptr_eq(&pair[1].tools), "the tools are written once");
        assert_eq!(pair[0].prefix_broken_by(&pair[1]), None);
    }
    assert_eq!(events.events_of::<PromptCacheBroken>(), []);
    assert_eq!(state.transcript().len(), 4, "the tail is not recorded");
    let shown: Vec<_> =
        events.events_of::<InferenceRequestStarted>().iter().map(|it| it.messages).collect();
    assert_eq!(shown, [3, 4, 5]);
}

#[track_caller]
fn check_broken(
    edit: impl Fn(&mut loopwright_core::StateEdit<'_>) + Send + Sync + 'static,
    expect: &[CacheBreak],
) {
    let hook = CallableHook::new("edit").after_step(move |state, _| {
        if state.step_count() == 2 {
            edit(state);
        }
        Ok(loopwright_core::Flow::Continue)
    });
    let events = EventRecorder::new();
    let agent = hooked(&test_loop(ModelDriver::new(three_steps())), hook);
    drop(execute(&agent.with_event_sink(events.sink()), asked()));
    let causes: Vec<_> =
        events.events_of::<PromptCacheBroken>().into_iter().map(|it| it.cause).collect();
    assert_eq!(causes, expect);
}

#[test]
fn a_request_that_does_not_begin_with_the_one_before_says_why() {
    check_broken(|_| (), &[]);
    check_broken(|state| state.push_message(Message::user("more")), &[]);
    check_broken(
        |state| state.replace("messages", state.transcript().prefix(1), CacheBreak::Compaction),
        &[CacheBreak::Compaction],
    );
    check_broken(|state| state.set_system_prompt("Another."), &[CacheBreak::PromptEdited]);
    check_broken(|state| state.set_llm(LlmConfig::named("other")), &[CacheBreak::ModelChanged]);
}

#[test]
fn more_tools_after_those_that_were_are_told_apart_from_other_tools() {
    let spec = |name: &str| MockTool::returning(name, "Tests.", "").into_tool().spec().clone();
    let asking = |names: &[&str]| InferenceRequest {
        tools: names.iter().map(|name| spec(name)).collect(),
        ..InferenceRequest::default()
    };
    let check = |before: &[&str], after: &[&str], expect: Option<CacheBreak>| {
        assert_eq!(asking(before).prefix_broken_by(&asking(after)), expect);
    };
    check(&["a"], &["a"], None);
    check(&["a"], &["a", "b"], Some(CacheBreak::ToolAdded));
    check(&["a"], &["b", "a"], Some(CacheBreak::ToolsChanged));
    check(&["a", "b"], &["a"], Some(CacheBreak::ToolsChanged));
    check(&[], &["a"], Some(CacheBreak::ToolsChanged));
}

#[test]
fn derived_instructions_are_made_of_the_agent_as_it_is() {
    let model = FakeModel::echo();
    let derive = |agent: &AgentLoop| {
        let names = agent.tools().names().join(", ");
        (!names.is_empty()).then(|| names.into())
    };
    let instructions = Instructions::from_fragments([
        ("fixed".into(), Fragment::Fixed("Be brief.".into())),
        ("derived".into(), Fragment::Derived(Arc::new(derive))),
    ]);
    let agent =
        test_loop(ModelDriver::new(model.clone())).with(|parts| parts.instructions = instructions);
    drop(execute(&agent, asked()));
    drop(execute(&agent.with_tools(ToolSet::new()), asked()));
    let systems: Vec<_> = model.requests().into_iter().filter_map(|it| it.system).collect();
    assert_eq!(systems, ["Be brief.\n\nscripted", "Be brief."].map(Arc::from));
}

#[test]
fn layers_stand_between_an_agent_and_its_models_and_what_they_answer_is_charged() {
    struct Noting(&'static str, Timeline, u32);
    #[async_trait]
    impl ModelLayer for Noting {
        async fn infer(
            &self,
            model: &dyn ChatModel,
            request: &InferenceRequest,
            cx: InferCx<'_>,
        ) -> Result<InferenceResponse, ModelError> {
            self.1.note(format!("{} asks {:?}", self.0, model.model()));
            if self.2 == 0 {
                let usage = Usage::new(2, 1);
                return Ok(InferenceResponse::new(Message::assistant("layered"), usage));
            }
            model.infer(request, cx).await
        }
    }
    let (model, timeline) = (FakeModel::echo().with_name("small"), Timeline::new());
    let with = |names: &[(&'static str, u32)]| {
        let agent = test_loop(ModelDriver::new(model.clone()));
        agent.with(|parts| {
            for (name, asks) in names {
                parts.layers.add(Arc::new(Noting(name, timeline.clone(), *asks)));
            }
        })
    };
    assert_eq!(execute(&with(&[("inner", 1), ("outer", 1)]), asked()).text(), "go");
    let state = execute(&with(&[("answering", 0)]), asked());
    assert_eq!((state.text().as_str(), state.usage()), ("layered", Usage::new(2, 1)));
    let asks = |name: &str| format!("{name} asks Some(\"small\")");
    assert_eq!(timeline.notes(), [asks("outer"), asks("inner"), asks("answering")]);
    assert_eq!(model.asked(), 1);
}

#[test]
fn a_hook_that_rewrites_a_request_breaks_its_prefix() {
    let hook = CallableHook::new("rewrite").before_inference(|request, _, _| {
        if request.prompt.turns.len() == 2 {
            request.prompt.turns = Transcript::from_iter([Turn::from_message(Message::user("x"))?]);
        }
        Ok(InferenceDecision::Send)
    });
    let events = EventRecorder::new();
    let agent = hooked(&test_loop(ModelDriver::new(three_steps())), hook);
    drop(execute(&agent.with_event_sink(events.sink()), asked()));
    assert_eq!(events.events_of::<PromptCacheBroken>()[0].cause, CacheBreak::HookRewrote);
}

#[test]
fn the_state_selects_the_model_and_its_settings() {
    let model = FakeModel::echo().with_name("default");
    let events = EventRecorder::new();
    let agent = test_loop(ModelDriver::new(model.clone())).with_event_sink(events.sink());
    let mut llm = LlmConfig::named("other");
    llm.options = {
        let mut options = InferenceOptions::default();
        options.temperature = Some(0.5);
        options
    };
    let state = execute(&agent, asked());
    drop(execute(&agent, state.with_llm(llm)));
    let asked: Vec<_> =
        events.events_of::<InferenceRequestStarted>().into_iter().map(|it| it.model).collect();
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
    let agent = test_loop(ModelDriver::new(FakeModel::echo()))
        .with(|parts| parts.compiler = Arc::new(Failing));
    let state = execute(&agent, asked());
    let ExecutionStatus::Failed(failure) = state.status() else { panic!("{state:?}") };
    assert_eq!(failure.to_string(), "the context could not be compiled: no room");
}

#[test]
fn changing_a_part_of_a_loop_leaves_the_original_as_it_is() {
    let model = FakeModel::echo();
    let base = test_loop(ModelDriver::new(model.clone()));
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
        let base = test_loop(ModelDriver::new(FakeModel::default()));
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
