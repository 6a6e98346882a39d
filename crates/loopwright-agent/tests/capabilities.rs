//! The core capabilities, each by what it adds.

use std::{
    borrow::Cow,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use loopwright_agent::{
    AgentBuilder, AgentLoopExt as _, BuildError, Capability, ContinuationCriteria, ErrorPolicy,
    StateProcessor, UseCachedContext, UseContextCompiler, UseContextCompilerDecorator,
    UseContextConfig, UseContinuation, UseDriver, UseDriverDecorator, UseErrorPolicy, UseGuards,
    UseHook, UseInterceptor, UseLlmConfig, UseReActConfig, UseStateProcessor, UseToolFactory,
    UseToolSource, UseTools,
};
use loopwright_core::{
    AgentLoop, AnyTool, BoxError, Budget, CallableHook, ErrorDecision, ExecutionStatus, Flow, Hook,
    HookCx, HookPoint, HookPoints, Interceptor, Priority, StateEdit, StopReason, StopSignal,
    ToolSet,
    events::HookExecuted,
    messages::{Content, Message, Part, ResponseFormat, Role, ToolCall},
};
use loopwright_testing::{
    FakeDriver, FakeModel, FullTranscript, MockTool, SCRIPTED_TOOL, ScenarioStep,
    ScriptedToolSource, Timeline,
};
use serde_json::json;

use crate::support::{
    asked, asking, execute, hook_names, recorded, scripted, stopped, tool_names, with,
};

#[test]
fn each_capability_is_known_by_its_name() {
    let model = FakeModel::default;
    let names: Vec<Cow<'static, str>> = [
        &UseTools::new() as &dyn Capability,
        &UseToolFactory::new(|_| Ok::<_, BuildError>(MockTool::scripted())),
        &UseToolSource::new(ScriptedToolSource::new("server", ToolSet::new())),
        &UseHook::new(CallableHook::new("hook")),
        &UseGuards::default(),
        &UseDriver::new(FakeDriver::default()),
        &UseDriverDecorator::new(|driver| driver),
        &UseContextCompiler::new(FullTranscript),
        &UseContextCompilerDecorator::new(|compiler| compiler),
        &UseContextConfig::new(""),
        &UseLlmConfig::model(model()),
        &UseReActConfig::model(model()),
        &UseCachedContext::new([]),
        &UseStateProcessor::new(Bracket::new("one", &Timeline::new())),
        &UseInterceptor(Interceptor::default()),
        &UseErrorPolicy(ErrorPolicy::retry_all(1)),
        &UseContinuation(ContinuationCriteria::new()),
    ]
    .iter()
    .map(|it| it.name())
    .collect();
    let expect = [
        "use_tools",
        "use_tool_factory",
        "use_tool_source",
        "use_hook",
        "use_guards",
        "use_driver",
        "use_driver_decorator",
        "use_context_compiler",
        "use_context_compiler_decorator",
        "use_context_config",
        "use_llm_config",
        "use_react_config",
        "use_cached_context",
        "use_state_processor",
        "use_interceptor",
        "use_error_policy",
        "use_continuation",
    ];
    assert_eq!(names, expect);
}

/// Notes when it opens and closes, and can be told to stop or fail when it closes.
struct Bracket {
    name: &'static str,
    timeline: Timeline,
    closes: Closes,
}

#[derive(Clone, Copy)]
enum Closes {
    Well,
    Stopping(StopReason),
    Failing,
}

impl Bracket {
    fn new(name: &'static str, timeline: &Timeline) -> Self {
        Self { name, timeline: timeline.clone(), closes: Closes::Well }
    }

    fn closing(name: &'static str, timeline: &Timeline, closes: Closes) -> Self {
        Self { closes, ..Self::new(name, timeline) }
    }
}

#[async_trait]
impl StateProcessor for Bracket {
    async fn before(&self, _: &mut StateEdit<'_>, _: &HookCx<'_>) -> Result<Flow, BoxError> {
        self.timeline.note(format!("{} opens", self.name));
        Ok(Flow::Continue)
    }

    async fn after(&self, _: &mut StateEdit<'_>, _: &HookCx<'_>) -> Result<Flow, BoxError> {
        self.timeline.note(format!("{} closes", self.name));
        match self.closes {
            Closes::Well => Ok(Flow::Continue),
            Closes::Stopping(reason) => Ok(Flow::Stop(StopSignal::new(reason, self.name, ""))),
            Closes::Failing => Err("no paper".into()),
        }
    }
}

const NESTED: [&str; 4] = ["outer opens", "inner opens", "inner closes", "outer closes"];

#[test]
fn the_processor_that_was_added_first_is_outermost() {
    let timeline = Timeline::new();
    let agent = scripted([ScenarioStep::tool("looking"), ScenarioStep::error("down")])
        .with_capability(UseStateProcessor::new(Bracket::new("outer", &timeline)))
        .with_capability(UseStateProcessor::new(Bracket::new("inner", &timeline)))
        .build()
        .unwrap();
    assert_eq!(hook_names(&agent), ["state_processors"; 2]);
    let state = execute(&agent, asked());
    // Of the two steps the second one failed.
    assert!(matches!(state.status(), ExecutionStatus::Failed(_)));
    assert_eq!(timeline.notes(), [NESTED, NESTED].concat());
}

/// Runs one step within two processors that close in these ways.
#[track_caller]
fn closed(outer: Closes, inner: Closes) -> (Vec<String>, loopwright_core::AgentState) {
    let timeline = Timeline::new();
    let bracket = |name, closes| UseStateProcessor::new(Bracket::closing(name, &timeline, closes));
    let agent = scripted([ScenarioStep::tool("looking")])
        .with_capability(UseGuards::new(Budget::unlimited().with_steps(3)))
        .with_capability(bracket("outer", outer))
        .with_capability(bracket("inner", inner))
        .build()
        .unwrap();
    let state = execute(&agent, asked());
    (timeline.notes(), state)
}

#[test]
fn every_processor_that_was_opened_is_closed() {
    use Closes::{Failing, Stopping, Well};
    let requested = Stopping(StopReason::StopRequested);
    let (notes, state) = closed(Well, requested);
    assert_eq!(
        (notes, stopped(&state)),
        (NESTED.map(String::from).to_vec(), Some((StopReason::StopRequested, "inner".into())))
    );
    let (notes, state) = closed(Well, Failing);
    assert_eq!(notes, NESTED);
    let ExecutionStatus::Failed(failure) = state.status() else { panic!("{:?}", state.status()) };
    let expect = "hook `state_processors` failed at after_step: no paper";
    assert_eq!(failure.to_string(), expect);
}

#[test]
fn the_strongest_stop_of_processors_counts_and_then_the_first() {
    use Closes::Stopping;
    let by = |outer, inner| stopped(&closed(Stopping(outer), Stopping(inner)).1).unwrap();
    let (strong, weak) = (StopReason::StopRequested, StopReason::Unknown);
    assert_eq!(by(weak, strong), (strong, "inner".into()));
    assert_eq!(by(strong, weak), (strong, "outer".into()));
    assert_eq!(by(strong, strong), (strong, "inner".into()));
}

#[test]
fn cached_messages_of_the_system_are_instructions_and_the_others_stand_first() {
    let model = FakeModel::default();
    let cached = UseCachedContext::new([
        Message::system("You know the house."),
        Message::user("example"),
        Message::new(Role::Developer, [Part::text("Use its words.")]),
    ])
    .with_response_format(ResponseFormat::JsonObject);
    let agent = with(asking(&model), cached);
    drop(execute(&agent, asked()));
    let request = model.requests().pop().unwrap();
    assert_eq!(request.system.as_deref(), Some("You know the house.\n\nUse its words."));
    let shown: Vec<_> = request.prompt.stable().map(|turn| turn.message().text()).collect();
    assert_eq!(shown, ["example", "go"]);
    assert_eq!(request.response_format, Some(ResponseFormat::JsonObject));
}

#[test]
fn cached_parts_of_two_capabilities_add_up() {
    let model = FakeModel::default();
    let cached = |system: &str, user: &str| {
        UseCachedContext::new([Message::system(system), Message::user(user)])
    };
    let builder = asking(&model).with_capability(cached("One.", "first"));
    drop(execute(&with(builder, cached("Two.", "second")), asked()));
    let request = model.requests().pop().unwrap();
    assert_eq!(request.system.as_deref(), Some("One.\n\nTwo."));
    let shown: Vec<_> = request.prompt.stable().map(|turn| turn.message().text()).collect();
    assert_eq!(shown, ["first", "second", "go"]);
}

#[test]
fn messages_that_call_tools_cannot_be_cached() {
    let call = Part::new(Content::ToolCall(ToolCall::new("1", "look", "{}")));
    let cached = UseCachedContext::new([Message::new(Role::Assistant, [call])]);
    let error = scripted(["done"]).with_capability(cached).build().unwrap_err();
    let expect = "capability `use_cached_context` cannot be used: only messages without tool calls \
                  can be cached";
    assert_eq!(error.to_string(), expect);
    assert!(std::error::Error::source(&error).is_some());
}

#[test]
fn the_agents_prompt_overwrites_neither_the_states_nor_what_hooks_make_of_it() {
    let model = FakeModel::script([ScenarioStep::tool("looking"), "done".into()]);
    let hook = CallableHook::new("retrospective").before_execution(|state, _| {
        let own = state.context().system_prompt().map(ToString::to_string).unwrap_or_default();
        state.set_system_prompt(format!("{own} Look back."));
        Ok(Flow::Continue)
    });
    let agent = asking(&model)
        .with_capability(UseContextConfig::new("  You help.\n"))
        .with_capability(UseHook::new(hook))
        .build()
        .unwrap();
    let state = execute(&agent, asked().with_system_prompt("Be brief."));
    let systems: Vec<_> = model.requests().into_iter().map(|it| it.system.unwrap()).collect();
    assert!(systems.iter().all(|it| &**it == "Be brief. Look back.\n\nYou help."), "{systems:?}");
    assert_eq!(systems.len(), 2);
    // What the agent says is not made part of the state.
    let own = state.context().system_prompt().map(|it| &**it);
    assert_eq!(own, Some("Be brief. Look back."));
}

#[test]
fn the_last_of_two_prompts_of_the_agent_wins_and_a_blank_one_is_none() {
    let model = FakeModel::default();
    let builder = asking(&model)
        .with_capability(UseContextConfig::new("One."))
        .with_capability(UseContextConfig::new("Two."))
        .with_capability(UseContextConfig::new(" \n"));
    drop(execute(&builder.build().unwrap(), asked()));
    assert_eq!(model.requests().pop().unwrap().system.as_deref(), Some("Two."));
}

/// Notes each point it is called at.
struct Curious(Arc<Mutex<Vec<&'static str>>>);

impl Curious {
    fn note(&self, point: &'static str) {
        self.0.lock().unwrap().push(point);
    }
}

#[async_trait]
impl Hook for Curious {
    fn name(&self) -> Cow<'static, str> {
        "curious".into()
    }

    async fn before_step(&self, _: &mut StateEdit<'_>, _: &HookCx<'_>) -> Result<Flow, BoxError> {
        self.note("before_step");
        Ok(Flow::Continue)
    }

    async fn after_step(&self, _: &mut StateEdit<'_>, _: &HookCx<'_>) -> Result<Flow, BoxError> {
        self.note("after_step");
        Ok(Flow::Stop(StopSignal::requested("curious", "seen enough")))
    }

    async fn on_error(
        &self,
        _: &loopwright_core::Failure,
        _: &mut StateEdit<'_>,
        _: &HookCx<'_>,
    ) -> Result<ErrorDecision, BoxError> {
        self.note("on_error");
        Ok(ErrorDecision::Fail)
    }
}

#[test]
fn a_hook_is_added_at_a_priority_at_some_points_and_under_a_name() {
    let notes = Arc::new(Mutex::new(Vec::new()));
    let hook: Arc<dyn Hook> = Arc::new(Curious(Arc::clone(&notes)));
    let registered = |capability: UseHook| {
        let agent = with(scripted(["done"]), capability);
        let [hook] = agent.interceptor().hooks() else { panic!("one hook") };
        (hook.name().to_owned(), hook.priority(), hook.points())
    };
    let plain = UseHook::from_arc(Arc::clone(&hook));
    assert_eq!(registered(plain.clone()), ("curious".into(), Priority(0), HookPoints::ALL));
    let set = plain
        .with_priority(Priority::CONTEXT)
        .with_points(HookPoint::BeforeStep)
        .with_name("renamed");
    let points = HookPoint::BeforeStep.into();
    assert_eq!(registered(set.clone()), ("renamed".into(), Priority(100), points));

    let (state, events) = recorded(&with(scripted(["done"]), set), asked());
    assert_eq!(
        (state.status(), &*notes.lock().unwrap()),
        (&ExecutionStatus::Completed, &vec!["before_step"])
    );
    let told: Vec<_> =
        events.events_of::<HookExecuted>().into_iter().map(|it| (it.point, it.hook)).collect();
    assert_eq!(told, [("before_step".into(), "renamed".into())]);
}

#[test]
fn one_hook_may_be_shared_by_two_agents() {
    let notes = Arc::new(Mutex::new(Vec::new()));
    let hook: Arc<dyn Hook> = Arc::new(Curious(Arc::clone(&notes)));
    for _ in 0..2 {
        let agent = with(scripted(["done"]), UseHook::from_arc(Arc::clone(&hook)));
        drop(execute(&agent, asked()));
    }
    let expect = ["before_step", "after_step", "before_step", "after_step"];
    assert_eq!(*notes.lock().unwrap(), expect);
}

#[test]
fn a_tool_factory_makes_its_tool_once_for_each_agent() {
    let made = Arc::new(Mutex::new(0));
    let count = Arc::clone(&made);
    let builder = scripted(["done"]).with_capability(UseToolFactory::new(move |_| {
        *count.lock().unwrap() += 1;
        Ok::<_, BuildError>(MockTool::returning("made", "Was made.", "made"))
    }));
    assert_eq!(*made.lock().unwrap(), 0);
    let agent = builder.build().unwrap();
    drop(execute(&agent, execute(&agent, asked()).with_user_message("again")));
    assert_eq!(
        (tool_names(&agent), *made.lock().unwrap()),
        (vec![SCRIPTED_TOOL.into(), "made".into()], 1)
    );
    drop(builder.build().unwrap());
    assert_eq!(*made.lock().unwrap(), 2);
}

#[test]
fn a_whole_set_of_tools_is_a_capability() {
    let set = ToolSet::new().with(MockTool::scripted()).with(MockTool::failing("broken", "no"));
    let driver = UseDriver::new(FakeDriver::default());
    let agent = with(AgentBuilder::base().with_capability(driver), UseTools::from(set.clone()));
    assert_eq!(tool_names(&agent), [SCRIPTED_TOOL, "broken"]);
    let same = |one: &AnyTool| Arc::ptr_eq(one.name(), set.get(one.name()).unwrap().name());
    assert!(agent.tools().iter().all(same));
}

#[test]
fn a_driver_may_be_shared() {
    let driver: Arc<dyn loopwright_core::Driver> = Arc::new(FakeDriver::responses(["done"]));
    let agent = with(AgentBuilder::base(), UseDriver::from_arc(Arc::clone(&driver)));
    assert!(Arc::ptr_eq(agent.driver(), &driver));
    assert_eq!(execute(&agent, asked()).text(), "done");
}

#[test]
fn the_simplest_loop_is_a_model_with_the_default_compiler_and_nothing_else() {
    let model = FakeModel::script([ScenarioStep::tool("looking"), "one".into(), "two".into()]);
    let agent = AgentLoop::simple(model.clone()).with_tool(MockTool::scripted());
    assert_eq!((agent.driver().name(), hook_names(&agent)), ("tool_calling", vec![]));
    let state = execute(&agent, asked());
    let state = execute(&agent, state.with_user_message("and now?"));
    assert_eq!(state.text(), "two");
    let last = model.requests().pop().unwrap();
    let shown: Vec<_> = last.prompt.stable().map(|turn| turn.message().text()).collect();
    assert_eq!((shown.join(", "), last.system), ("go, looking, one, and now?".to_owned(), None));

    let driven = AgentLoop::from_driver(Arc::new(FakeDriver::responses(["done"])));
    assert_eq!((execute(&driven, asked()).text(), tool_names(&driven)), ("done".into(), vec![]));
}

fn offered(model: &FakeModel) -> Vec<String> {
    model.requests()[0].tools.iter().map(|it| it.name.to_string()).collect()
}

fn server(name: &str) -> ScriptedToolSource {
    let search = MockTool::returning("search", "Searches.", format!("{name} answered"));
    ScriptedToolSource::new(name, ToolSet::new().with(search))
}

#[test]
fn sources_with_prefixes_may_have_tools_of_the_same_name() {
    let calls = [("issues_search", json!({})), ("mail_search", json!({}))];
    let model = FakeModel::script([ScenarioStep::tool_calls(calls), "done".into()]);
    let agent = asking(&model)
        .with(UseToolSource::new(server("issues")).with_prefix("issues_"))
        .with(UseToolSource::new(server("mail")).with_prefix("mail_"))
        .build()
        .unwrap();
    let state = execute(&agent, asked());
    let outcomes = state.steps().flat_map(loopwright_core::Step::tool_executions);
    let answers: Vec<_> = outcomes.map(|(_, outcome)| outcome.to_result().to_text()).collect();
    assert_eq!(answers, ["issues answered", "mail answered"]);
    assert_eq!(offered(&model), [SCRIPTED_TOOL, "issues_search", "mail_search"]);
}

#[test]
fn tools_of_the_agent_come_first_however_capabilities_are_ordered() {
    let model = FakeModel::default();
    let agent = asking(&model)
        .with(UseToolSource::new(server("mail")))
        .with(UseTools::new().with_tool(MockTool::scripted()))
        .build()
        .unwrap();
    execute(&agent, asked());
    assert_eq!(offered(&model), [SCRIPTED_TOOL, "search"]);
}
