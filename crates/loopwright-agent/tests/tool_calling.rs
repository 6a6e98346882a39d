//! The driver for models that call tools, and the request it makes.

use std::sync::{Arc, Mutex};

use loopwright_agent::{
    AgentBuilder, Capability, ToolCallingDriver, UseCachedContext, UseContextConfig, UseDriver,
    UseGuards, UseHook, UseLlmConfig, UseTools,
};
use loopwright_core::{
    AgentLoop, AgentState, CallableHook, ChatModel, ExecutionStatus, Failure, FailureKind, Flow,
    InferenceDecision, LlmConfig, ModelError, ModelErrorKind, ModelProvider,
    messages::{
        CacheBreak, InferenceOptions, InferenceRequest, InferenceResponse, Message,
        ReasoningEffort, ResponseFormat, Role, SectionName, ToolChoice, ToolResult, Transcript,
        Turn, TurnBody, Usage,
    },
};
use loopwright_testing::{EventRecorder, FakeModel, MockTool, ScenarioStep};
use serde_json::{Value, json};

use crate::support::{asked, asking, breaks, execute, recorded, said, with};

/// Finds the same model for every caller, and notes who asked for what.
#[derive(Clone)]
struct Catalogue {
    model: FakeModel,
    asked: Arc<Mutex<Vec<Option<LlmConfig>>>>,
}

impl Catalogue {
    fn new() -> Self {
        Self { model: FakeModel::default(), asked: Arc::default() }
    }

    /// What was asked for last, as `provider/model`, and the model that the request names.
    fn last(&self) -> (String, Option<String>) {
        let selection = self.asked.lock().unwrap().pop().unwrap();
        let name = |it: Option<Arc<str>>| it.map_or_else(|| "-".to_owned(), |it| it.to_string());
        let selected = selection.map_or_else(
            || "default".to_owned(),
            |it| format!("{}/{}", name(it.provider), name(it.model)),
        );
        let request = self.model.requests().pop().unwrap();
        (selected, request.model.map(|it| it.to_string()))
    }
}

impl ModelProvider for Catalogue {
    fn resolve(&self, llm: Option<&LlmConfig>) -> Result<Arc<dyn ChatModel>, ModelError> {
        self.asked.lock().unwrap().push(llm.cloned());
        Ok(Arc::new(self.model.clone()))
    }
}

#[test]
fn a_state_selects_provider_and_model_and_the_driver_fills_in_what_it_leaves_open() {
    let check = |own: &str, state: Option<&str>, expect: (&str, Option<&str>)| {
        let catalogue = Catalogue::new();
        let llm =
            UseLlmConfig::from_models(Arc::new(catalogue.clone())).with_llm(LlmConfig::named(own));
        let agent = with(AgentBuilder::base(), llm);
        let state = state.map_or_else(asked, |name| asked().with_llm(LlmConfig::named(name)));
        drop(execute(&agent, state));
        let (selected, model) = catalogue.last();
        assert_eq!((selected.as_str(), model.as_deref()), expect);
    };
    check("", None, ("default", None));
    check("house/small", None, ("house/small", Some("small")));
    check("house/small", Some("other/large"), ("other/large", Some("large")));
    check("house/small", Some("large"), ("house/large", Some("large")));
    check("house/small", Some("house/"), ("house/small", Some("small")));
    // The driver's model belongs to the driver's provider.
    check("house/small", Some("other/"), ("other/-", None));
    check("house/small", Some(""), ("house/small", Some("small")));
    check("", Some("other/large"), ("other/large", Some("large")));
    check("", Some("large"), ("-/large", Some("large")));
}

#[test]
fn a_model_that_cannot_be_found_fails_the_step() {
    struct Nothing;
    impl ModelProvider for Nothing {
        fn resolve(&self, _: Option<&LlmConfig>) -> Result<Arc<dyn ChatModel>, ModelError> {
            Err(ModelError::new(ModelErrorKind::NoModel, "set a key"))
        }
    }
    let agent = with(AgentBuilder::base(), UseLlmConfig::from_models(Arc::new(Nothing)));
    let failure = Failure::new(FailureKind::NoModel, "set a key");
    assert_eq!(execute(&agent, asked()).status(), &ExecutionStatus::Failed(failure));
}

fn object(value: Value) -> serde_json::Map<String, Value> {
    serde_json::from_value(value).unwrap()
}

#[test]
fn settings_of_the_state_lie_over_those_of_the_driver() {
    let mut own = LlmConfig::named("small");
    own.options.max_output_tokens = Some(100);
    own.options.temperature = Some(0.5);
    own.options.top_p = Some(0.9);
    own.options.stop = vec!["END".to_owned()];
    own.options.extra = object(json!({"user": "driver", "tier": "low"}));
    own.options.headers = [("x-a".to_owned(), "driver".to_owned())].into();
    let mut chosen = LlmConfig::default();
    chosen.options.temperature = Some(0.0);
    chosen.options.seed = Some(7);
    chosen.options.reasoning_effort = Some(ReasoningEffort::Low);
    chosen.options.stream = Some(false);
    chosen.options.extra = object(json!({"user": "state"}));
    chosen.options.headers = [("x-b".to_owned(), "state".to_owned())].into();

    let sent = |state: AgentState| -> InferenceOptions {
        let model = FakeModel::default();
        let llm = UseLlmConfig::model(model.clone()).with_llm(own.clone());
        drop(execute(&with(AgentBuilder::base(), llm), state));
        model.requests().pop().unwrap().options
    };
    assert_eq!(sent(asked()), own.options);
    let mut merged = own.options.clone();
    merged.temperature = Some(0.0);
    merged.seed = Some(7);
    merged.reasoning_effort = Some(ReasoningEffort::Low);
    merged.stream = Some(false);
    merged.extra = object(json!({"user": "state", "tier": "low"}));
    merged.headers.insert("x-b".to_owned(), "state".to_owned());
    assert_eq!(sent(asked().with_llm(chosen)), merged);
}

#[track_caller]
fn request_of(agent: &AgentLoop, model: &FakeModel, state: AgentState) -> InferenceRequest {
    drop(execute(agent, state));
    model.requests().pop().unwrap()
}

#[test]
fn choice_and_parallel_calls_are_only_spoken_of_where_there_are_tools() {
    let model = FakeModel::default();
    let llm = || {
        UseLlmConfig::model(model.clone())
            .with_tool_choice(ToolChoice::Required)
            .with_parallel_tool_calls(false)
    };
    let spoken = |builder: AgentBuilder| {
        let request = request_of(&builder.build().unwrap(), &model, asked());
        (request.tools.len(), request.tool_choice, request.parallel_tool_calls)
    };
    let base = AgentBuilder::base().with_capability(llm());
    let tools = UseTools::new().with_tool(MockTool::scripted());
    assert_eq!(spoken(base.clone()), (0, ToolChoice::Auto, None));
    assert_eq!(spoken(base.with_capability(tools)), (1, ToolChoice::Required, Some(false)));
    assert_eq!(spoken(asking(&model)), (1, ToolChoice::Auto, None));
}

/// The words and the number of calls of the reply that is kept of an answer.
#[track_caller]
fn kept(step: ScenarioStep) -> (String, usize) {
    let model = FakeModel::script([step, "done".into()]);
    let state = execute(&asking(&model).build().unwrap(), asked());
    let message = state.step_at(0).unwrap().message().unwrap();
    (message.text(), message.tool_calls().count())
}

#[test]
fn arguments_that_are_repeated_as_content_are_dropped_and_prose_is_kept() {
    let call = || ScenarioStep::raw_tool_calls([("scripted", r#"{"city": "Paris", "n": 1}"#)]);
    let check = |text: &str, expect: &str| {
        assert_eq!(kept(call().with_text(text)), (expect.to_owned(), 1));
    };
    check(r#"{"city": "Paris", "n": 1}"#, "");
    check(r#"  {"n":1,"city":"Paris"} "#, "");
    check("I look it up.", "I look it up.");
    check(r#"{"city": "Rome"}"#, r#"{"city": "Rome"}"#);
    check(r#"{"city": "Paris""#, r#"{"city": "Paris""#);
    let both = ScenarioStep::raw_tool_calls([("scripted", "{}"), ("scripted", r#"{"a":1}"#)]);
    assert_eq!(kept(both.with_text(r#"{ "a": 1 }"#)), (String::new(), 2));
    // An answer that is JSON is an answer.
    assert_eq!(kept(r#"{"city": "Paris"}"#.into()), (r#"{"city": "Paris"}"#.to_owned(), 0));
}

#[test]
fn prose_and_calls_are_one_message_with_the_results_beside_it() {
    let step = ScenarioStep::tool("I look it up.");
    let model = FakeModel::script([step, "done".into()]);
    let state = execute(&asking(&model).build().unwrap(), asked());
    assert_eq!(said(&state), ["go", "I look it up.", "done"]);
    let TurnBody::ToolExchange(exchange) = state.transcript().get(1).unwrap().body() else {
        panic!("an exchange");
    };
    let results: Vec<_> = exchange.results().iter().map(ToolResult::to_text).collect();
    assert_eq!((exchange.reply().role(), results), (Role::Assistant, vec!["done".to_owned()]));
}

#[test]
fn the_drivers_form_of_answers_wins_over_the_states_and_the_states_over_the_agents() {
    let model = FakeModel::default();
    let form = |name: &str| ResponseFormat::json_schema(name, json!({"type": "object"}));
    let driver = ToolCallingDriver::new(model.clone());
    let agents = UseContextConfig::new("").with_response_format(form("agent"));
    let used = |builder: AgentBuilder, state: AgentState| {
        request_of(&builder.build().unwrap(), &model, state).response_format
    };
    let plain = AgentBuilder::base().with_capability(UseDriver::new(driver.clone()));
    let formed = driver.with_response_format(form("driver"));
    let strict = AgentBuilder::base().with_capability(UseDriver::new(formed));
    let stated = || asked().with_response_format(form("state"));
    assert_eq!(used(plain.clone(), asked()), None);
    let formed = plain.with_capability(agents.clone());
    assert_eq!(used(formed.clone(), asked()), Some(form("agent")));
    assert_eq!(used(formed, stated()), Some(form("state")));
    assert_eq!(used(strict.with_capability(agents), stated()), Some(form("driver")));
}

/// Adds one fragment of instructions.
struct Fragment(i16, &'static str, &'static str);

impl Capability for Fragment {
    fn name(&self) -> std::borrow::Cow<'static, str> {
        self.1.into()
    }

    fn configure(
        &self,
        agent: &mut loopwright_agent::Configurator,
    ) -> Result<(), loopwright_agent::BuildError> {
        agent.prompt.add(self.0, self.1, self.2);
        Ok(())
    }
}

#[test]
fn instructions_are_the_states_own_then_the_agents_fragments_in_their_order() {
    let model = FakeModel::default();
    let base = || AgentBuilder::base().with_capability(UseLlmConfig::model(model.clone()));
    let system = |builder: AgentBuilder, state: AgentState| {
        let request = request_of(&builder.build().unwrap(), &model, state);
        request.system.map(|it| it.to_string())
    };
    assert_eq!(system(base(), asked()), None);
    assert_eq!(system(base(), asked().with_system_prompt("  ")), None);
    let own = || asked().with_system_prompt("Be brief.");
    assert_eq!(system(base(), own()).as_deref(), Some("Be brief."));

    let full = base()
        .with_capability(Fragment(10, "last", "Last."))
        .with_capability(Fragment(0, "one", "One."))
        .with_capability(Fragment(0, "two", "Two."))
        .with_capability(Fragment(0, "blank", " "))
        .with_capability(UseContextConfig::new("You help."));
    let expect = "Be brief.\n\nYou help.\n\nOne.\n\nTwo.\n\nLast.";
    assert_eq!(system(full.clone(), own()).as_deref(), Some(expect));
    // A fragment takes the place of one that has its name.
    let replaced = full.with_capability(Fragment(20, "one", "Another one."));
    let expect = "You help.\n\nTwo.\n\nLast.\n\nAnother one.";
    assert_eq!(system(replaced, asked()).as_deref(), Some(expect));
}

#[test]
fn the_request_says_what_agent_and_state_say_and_nothing_else() {
    let model = FakeModel::default();
    let agent = asking(&model)
        .with_capability(
            UseLlmConfig::model(model.clone())
                .with_tool_choice(ToolChoice::Tool("scripted".into())),
        )
        .with_capability(UseContextConfig::new("You help."))
        .with_capability(UseCachedContext::new([Message::user("example")]))
        .build()
        .unwrap();
    let request = request_of(&agent, &model, asked().with_response_format(ResponseFormat::Text));
    assert_eq!(request.system.as_deref(), Some("You help."));
    assert!(request.tools.ptr_eq(agent.tools().specs()));
    assert_eq!(request.tool_choice, ToolChoice::Tool("scripted".into()));
    assert_eq!(request.response_format, Some(ResponseFormat::Text));
    // Neither the instructions nor the tools are messages.
    let shown: Vec<_> =
        request.prompt.stable().map(|it| (it.message().role(), it.message().text())).collect();
    let user = |text: &str| (Role::User, text.to_owned());
    assert_eq!((shown, request.prompt.tail), (vec![user("example"), user("go")], vec![]));
}

#[test]
fn the_cached_head_stands_before_the_conversation_of_every_request_and_is_not_recorded() {
    let model = FakeModel::script([ScenarioStep::tool("looking"), "done".into()]);
    let head = UseCachedContext::new([Message::user("example"), Message::assistant("like that")]);
    let agent = with(asking(&model), head);
    let state = execute(&agent, asked());
    assert_eq!(said(&state), ["go", "looking", "done"]);
    let shown = |request: &InferenceRequest| -> Vec<String> {
        request.prompt.stable().map(|turn| turn.message().text()).collect()
    };
    let requests = model.requests();
    assert_eq!(shown(&requests[0]), ["example", "like that", "go"]);
    assert_eq!(shown(&requests[1]), ["example", "like that", "go", "looking"]);
    assert!(requests.iter().all(|it| it.prompt.head.mark() == agent.preamble().mark()));
}

/// Asks for a tool so many times, then answers.
fn busy(times: usize) -> FakeModel {
    let tools = std::iter::repeat_with(|| ScenarioStep::tool("looking")).take(times);
    FakeModel::script(tools.chain(["done".into()]).collect::<Vec<_>>())
}

#[test]
fn each_request_of_a_run_begins_with_the_one_before() {
    let model = busy(4);
    let agent = asking(&model)
        .with_capability(UseContextConfig::new("You help."))
        .with_capability(UseCachedContext::new([Message::user("example")]))
        .with_capability(UseGuards::default())
        .build()
        .unwrap();
    let asked = asked().with_system_prompt("Be brief.").with_llm(LlmConfig::named("small"));
    let (_, events) = recorded(&agent, asked);
    let requests = model.requests();
    assert_eq!((requests.len(), breaks(&events)), (5, vec![]));
    for pair in requests.windows(2) {
        assert_eq!(pair[0].prefix_broken_by(&pair[1]), None);
        assert!(pair[1].prompt.turns.starts_with(&pair[0].prompt.turns));
        assert!(pair[0].tools.ptr_eq(&pair[1].tools));
        assert!(Arc::ptr_eq(pair[0].system.as_ref().unwrap(), pair[1].system.as_ref().unwrap()));
    }
}

/// What is told of the prefix in a run of four steps with this hook.
#[track_caller]
fn broken_by(hook: CallableHook) -> Vec<(u32, CacheBreak)> {
    let (_, events): (_, EventRecorder) =
        recorded(&with(asking(&busy(3)), UseHook::new(hook)), asked());
    breaks(&events)
}

#[test]
fn a_request_that_does_not_begin_with_the_one_before_says_why() {
    let at_second = |state: &AgentState| state.step_count() == 1;
    let hook = || CallableHook::new("hook");

    let compaction = hook().before_step(move |state, _| {
        if at_second(state) {
            let turns = state.transcript().prefix(1);
            state.replace(SectionName::MESSAGES, turns, CacheBreak::Compaction);
        }
        Ok(Flow::Continue)
    });
    // What is left is the beginning of what was: the second request is the first one again.
    assert_eq!(broken_by(compaction), []);

    let summary = hook().before_step(move |state, _| {
        if at_second(state) {
            let turns: Transcript =
                [Turn::from_message(Message::user("summed up")).unwrap()].into_iter().collect();
            state.replace(SectionName::SUMMARY, turns, CacheBreak::Compaction);
        }
        Ok(Flow::Continue)
    });
    assert_eq!(broken_by(summary), [(2, CacheBreak::Compaction)]);

    // What a hook does to one request is not part of the next one.
    let tools = hook().before_inference(move |request, state, _| {
        if at_second(state) {
            request.tools = [].into_iter().collect();
        }
        Ok(InferenceDecision::Send)
    });
    let twice = |cause: CacheBreak| [(2, cause.clone()), (3, cause)];
    assert_eq!(broken_by(tools), twice(CacheBreak::ToolsChanged));

    let rewritten = hook().before_inference(move |request, state, _| {
        if at_second(state) {
            request.prompt.turns = Transcript::new();
            request.prompt.turns.push_message(Message::user("something else"))?;
        }
        Ok(InferenceDecision::Send)
    });
    assert_eq!(broken_by(rewritten), twice(CacheBreak::HookRewrote));
}

#[test]
fn a_hooks_text_in_the_prompts_tail_keeps_the_prefix() {
    let tail = CallableHook::new("tail").before_inference(|request, state, _| {
        let text = format!("{} steps are over", state.step_count());
        request.prompt.tail.push(Message::user(text));
        Ok(InferenceDecision::Send)
    });
    assert_eq!(broken_by(tail), []);
}

#[test]
fn the_first_request_of_a_run_breaks_nothing() {
    let model = busy(1);
    let agent = asking(&model).build().unwrap();
    let first = execute(&agent, asked());
    let (_, events) = recorded(&agent, first.with_user_message("and now?"));
    assert_eq!(breaks(&events), []);
}

#[test]
fn the_tokens_of_a_step_are_those_of_its_model_call() {
    let step = ScenarioStep::final_answer("done").with_usage(Usage::new(10, 2));
    let model = FakeModel::from_fn(move |_| -> Result<InferenceResponse, ModelError> {
        step.to_response()
    });
    let state = execute(&asking(&model).build().unwrap(), asked());
    assert_eq!(state.usage(), Usage::new(10, 2));
    assert_eq!(state.last_step().unwrap().usage(), Usage::new(10, 2));
}
