//! The builder: the test suite that its design asks for, and what follows from its rules.

use std::{
    borrow::Cow,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use loopwright_agent::{
    AgentBuilder, BuildError, Capability, Configurator, ConversationWithCurrentToolTrace,
    DeferredToolCx, DeferredTools, StateProcessor, UseContextCompiler, UseContextCompilerDecorator,
    UseDriver, UseDriverDecorator, UseGuards, UseHook, UseInterceptor, UseLlmConfig,
    UseStateProcessor, UseToolFactory, UseTools,
};
use loopwright_core::{
    AgentLoop, AgentState, AnyTool, BoxError, Budget, CallableHook, CompileError, ContextCompiler,
    Flow, HookCx, HookPoint, Interceptor, IntoTool as _, Priority, StateEdit,
    events::StepStarted,
    messages::{Message, Prompt, ResponseFormat, Transcript, Turn},
};
use loopwright_testing::{
    EventRecorder, FakeDriver, FakeModel, MockTool, SCRIPTED_TOOL, ScenarioStep, Timeline,
};
use serde_json::json;

use crate::support::{
    Noting, asked, asking, execute, hook_names, recorded, said, scripted, texts, tool_names, with,
};

/// A compiler around another one, which says something at the tail.
struct Tail(Arc<dyn ContextCompiler>, &'static str);

#[async_trait]
impl ContextCompiler for Tail {
    async fn compile(
        &self,
        state: &AgentState,
        previous: Option<Prompt>,
    ) -> Result<Prompt, CompileError> {
        let mut prompt = self.0.compile(state, previous).await?;
        prompt.tail.push(Message::user(self.1));
        Ok(prompt)
    }
}

/// Notes when it opens and closes.
struct Bracket(&'static str, Timeline);

#[async_trait]
impl StateProcessor for Bracket {
    async fn before(&self, _: &mut StateEdit<'_>, _: &HookCx<'_>) -> Result<Flow, BoxError> {
        self.1.note(format!("before {}", self.0));
        Ok(Flow::Continue)
    }

    async fn after(&self, _: &mut StateEdit<'_>, _: &HookCx<'_>) -> Result<Flow, BoxError> {
        self.1.note(format!("after {}", self.0));
        Ok(Flow::Continue)
    }
}

/// A hook that notes its name before each step.
fn noting(name: &'static str, timeline: &Timeline) -> CallableHook {
    let timeline = timeline.clone();
    CallableHook::new(name).before_step(move |_, _| {
        timeline.note(name);
        Ok(Flow::Continue)
    })
}

fn tool(name: &str, answer: &str) -> MockTool {
    MockTool::returning(name, "Answers.", answer)
}

/// One capability that adds to every channel there is.
struct Everything(Timeline);

impl Capability for Everything {
    fn name(&self) -> Cow<'static, str> {
        "everything".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        let timeline = self.0.clone();
        agent.tools.add(tool("direct", "done"));
        agent.tools.defer(Arc::new(|cx: &DeferredToolCx<'_>| {
            let seen = format!("after {:?} by {}", cx.tools, cx.driver.name());
            Ok(MockTool::returning("deferred", &seen, "done"))
        }));
        agent.hooks.add_at(Priority::GUARD, noting("hook", &timeline));
        agent.prompt.add(0, "everything", "Be complete.");
        let head: Transcript =
            [Turn::from_message(Message::user("example")).unwrap()].into_iter().collect();
        agent.prompt.extend_head(&head);
        agent.prompt.set_response_format(ResponseFormat::JsonObject);
        agent.compiler.wrap(|inner| Arc::new(Tail(inner, "tail")));
        let notes = timeline.clone();
        agent.driver.wrap(move |inner| Noting::around(inner, "decorator", &notes));
        agent.add_processor(Arc::new(Bracket("processor", timeline.clone())));
        agent.sinks.on_event::<StepStarted>(move |_, _| timeline.note("event"));
        Ok(())
    }
}

#[test]
fn builder_essence() {
    let driver = || UseDriver::new(FakeDriver::default());
    let base = AgentBuilder::base();
    assert_eq!(base.capability_names(), [""; 0]);
    assert!(matches!(base.build(), Err(BuildError::NoDriver)));

    let agent = base.with_capability(driver()).build().unwrap();
    let (tools, hooks) = (tool_names(&agent), hook_names(&agent));
    assert_eq!((tools, hooks), (vec![], vec![]));
    assert_eq!((agent.sinks().is_empty(), agent.preamble().is_empty()), (true, true));
    assert_eq!((agent.instructions().fragments().count(), agent.response_format()), (0, None));
    assert_eq!(agent.driver().name(), "fake");

    let standard = AgentBuilder::standard();
    let same = AgentBuilder::base().with_capability(UseGuards::new(Budget::standard()));
    assert_eq!(standard.capability_names(), ["use_guards"]);
    assert_eq!(standard.capability_names(), same.capability_names());
    let wiring = |builder: AgentBuilder| wiring(&with(builder, driver()));
    assert_eq!(wiring(standard), wiring(same));
}

#[test]
fn channel_dispatch() {
    let timeline = Timeline::new();
    let model = FakeModel::script(["{}"]);
    let agent = AgentBuilder::base()
        .with_capability(UseLlmConfig::model(model.clone()))
        .with_capability(Everything(timeline.clone()))
        .build()
        .unwrap();
    assert_eq!(tool_names(&agent), ["direct", "deferred"]);
    let deferred = agent.tools().get("deferred").unwrap();
    assert_eq!(&*deferred.spec().description, r#"after ["direct"] by decorator"#);
    assert_eq!(hook_names(&agent), ["state_processors", "hook", "state_processors"]);

    let state = execute(&agent, asked());
    assert_eq!(said(&state), ["go", "{}"]);
    let expect = ["event", "hook", "before processor", "decorator", "after processor"];
    assert_eq!(timeline.notes(), expect);
    let [request] = &model.requests()[..] else { panic!("one request") };
    let shown: Vec<_> = request.prompt.stable().map(|turn| turn.message().text()).collect();
    assert_eq!(shown, ["example", "go"]);
    assert_eq!(texts(&request.prompt.tail), ["tail"]);
    assert_eq!(request.system.as_deref(), Some("Be complete."));
    assert_eq!(request.response_format, Some(ResponseFormat::JsonObject));
    let offered: Vec<_> = request.tools.iter().map(|it| &*it.name).collect();
    assert_eq!(offered, ["direct", "deferred"]);
}

#[test]
fn determinism() {
    let timeline = Timeline::new();
    let builder = || {
        scripted([ScenarioStep::tool("looking"), "done".into()])
            .with_capability(Everything(timeline.clone()))
            .with_capability(UseGuards::default())
            .with_capability(UseHook::new(noting("late", &timeline)))
    };
    let one = builder();
    let (first, again, other) =
        (one.build().unwrap(), one.build().unwrap(), builder().build().unwrap());
    assert_eq!(wiring(&first), wiring(&again));
    assert_eq!(wiring(&first), wiring(&other));

    let run = |agent: &AgentLoop| {
        let (state, events) = recorded(agent, asked());
        (serde_json::to_value(&state).unwrap(), events.envelopes())
    };
    let expect = run(&first);
    assert_eq!(run(&again), expect);
    assert_eq!(run(&other), expect);
    // The loop keeps nothing of a run.
    assert_eq!(run(&first), expect);
}

#[test]
fn hook_ordering() {
    let timeline = Timeline::new();
    let hook =
        |name, priority| UseHook::new(noting(name, &timeline)).with_priority(Priority(priority));
    let agent = scripted(["done"])
        .with_capability(hook("tie one", 0))
        .with_capability(hook("low", -10))
        .with_capability(hook("high", 10))
        .with_capability(hook("tie two", 0))
        .with_capability(hook("highest", 200))
        .build()
        .unwrap();
    let expect = ["highest", "high", "tie one", "tie two", "low"];
    assert_eq!(hook_names(&agent), expect);
    drop(execute(&agent, asked()));
    assert_eq!(timeline.notes(), expect);
}

#[test]
fn event_commutativity() {
    let capabilities = |builder: AgentBuilder| {
        builder
            .with_capability(UseHook::new(noting("hook", &Timeline::new())))
            .with_capability(UseTools::new().with_tool(MockTool::scripted()))
            .with_capability(UseDriver::new(FakeDriver::steps([
                ScenarioStep::tool("looking"),
                "done".into(),
            ])))
            .with_capability(UseDriverDecorator::new(|inner| inner))
    };
    let heard = |build: &dyn Fn(AgentBuilder, &EventRecorder) -> AgentBuilder| {
        let events = EventRecorder::new();
        let agent = build(AgentBuilder::base(), &events).build().unwrap();
        drop(execute(&agent, asked()));
        events.envelopes()
    };
    let before = heard(&|builder, events| capabilities(tapped(builder, events)));
    let after = heard(&|builder, events| tapped(capabilities(builder), events));
    assert_eq!(before, after);
    let names: Vec<_> = before.iter().map(|it| it.event.name()).collect();
    assert_eq!(names.iter().filter(|it| **it == "StepCompleted").count(), 2);
    assert!(names.contains(&"ToolCallStarted") && names.contains(&"HookExecuted"));
    // The same of a sink that is held elsewhere.
    let held = heard(&|builder, events| capabilities(builder.with_event_sink(events.sink())));
    assert_eq!(held, before);
}

fn tapped(builder: AgentBuilder, events: &EventRecorder) -> AgentBuilder {
    let sink = events.sink();
    builder.wiretap(move |envelope| sink.emit(envelope))
}

#[test]
fn tool_factory_timing() {
    let timeline = Timeline::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let factory = |name: &'static str| {
        let seen = Arc::clone(&seen);
        UseToolFactory::new(move |cx| {
            let tools: Vec<_> = cx.tools.names().iter().map(ToString::to_string).collect();
            seen.lock().unwrap().push((Arc::clone(cx.driver), tools));
            Ok::<_, BuildError>(tool(name, "made"))
        })
    };
    let decorator = |name| {
        let timeline = timeline.clone();
        UseDriverDecorator::new(move |inner| Noting::around(inner, name, &timeline))
    };
    // The factories come first, and all that they want to see comes later.
    let agent = AgentBuilder::base()
        .with_capability(factory("one"))
        .with_capability(factory("two"))
        .with_capability(decorator("inner"))
        .with_capability(UseDriver::new(FakeDriver::default()))
        .with_capability(decorator("outer"))
        .with_capability(UseTools::new().with_tool(tool("direct", "done")))
        .build()
        .unwrap();
    assert_eq!(tool_names(&agent), ["direct", "one", "two"]);
    let seen = seen.lock().unwrap();
    let tools: Vec<_> = seen.iter().map(|(_, tools)| tools.join(" ")).collect();
    assert_eq!(tools, ["direct", "direct one"]);
    assert!(seen.iter().all(|(driver, _)| Arc::ptr_eq(driver, agent.driver())));
    drop(execute(&agent, asked()));
    assert_eq!(timeline.notes(), ["outer", "inner"]);
}

/// All that can be seen of how an agent is put together.
fn wiring(agent: &AgentLoop) -> String {
    let hooks: Vec<_> = agent
        .interceptor()
        .hooks()
        .iter()
        .map(|it| (it.name().to_owned(), it.priority(), it.points()))
        .collect();
    let fragments: Vec<_> = agent.instructions().fragments().collect();
    let head: Vec<_> = agent.preamble().iter().map(|turn| turn.message()).collect();
    let (driver, tools) = (agent.driver().name(), agent.tools().specs());
    format!("{driver} {tools:?} {hooks:?} {fragments:?} {head:?}")
}

#[test]
fn each_build_is_an_agent_of_its_own() {
    let timeline = Timeline::new();
    let builder = scripted(["one", "two"])
        .with_capability(Everything(timeline.clone()))
        .with_capability(UseGuards::default())
        .with_capability(UseHook::new(noting("again", &timeline)));
    let [one, other, third] = [(); 3].map(|()| builder.build().unwrap());
    // What a build adds up does not add up over builds.
    assert_eq!(wiring(&one), wiring(&other));
    assert_eq!(wiring(&one), wiring(&third));
    for (one, other) in [(&one, &other), (&other, &third), (&one, &third)] {
        let hooks = [one, other].map(|it| it.interceptor().hooks().as_ptr());
        assert_ne!(hooks[0], hooks[1], "each has an interceptor of its own");
        let drivers = [one, other].map(|it| Arc::as_ptr(it.driver()).cast::<()>());
        assert_ne!(drivers[0], drivers[1], "each has wrapped the driver for itself");
    }
}

#[test]
fn an_agent_that_is_changed_or_listened_to_leaves_others_of_its_builder_alone() {
    let builder = scripted(["one", "two"]);
    let (one, other) = (builder.build().unwrap(), builder.build().unwrap());
    let changed = one.with_tool(tool("more", "more"));
    assert_eq!(tool_names(&changed), [SCRIPTED_TOOL, "more"]);
    assert_eq!(
        (tool_names(&one), tool_names(&other)),
        (vec![SCRIPTED_TOOL.into()], vec![SCRIPTED_TOOL.into()])
    );
    let events = EventRecorder::new();
    let heard = one.with_event_sink(events.sink());
    drop(execute(&other, asked()));
    assert_eq!(events.names(), [""; 0]);
    drop(execute(&heard, asked()));
    assert_ne!(events.names(), [""; 0]);
}

#[test]
fn a_builder_is_a_value() {
    let base = scripted(["done"]);
    let more = base.clone().with_capability(UseGuards::default());
    assert_eq!(base.capability_names(), ["use_driver", "use_tools"]);
    assert_eq!(more.capability_names(), ["use_driver", "use_tools", "use_guards"]);
}

#[test]
fn an_explicit_interceptor_is_the_one_of_the_agent() {
    let timeline = Timeline::new();
    let explicit = Interceptor::from_hook(Arc::new(noting("explicit", &timeline)));
    let agent = with(scripted(["done"]), UseInterceptor(explicit));
    assert_eq!(hook_names(&agent), ["explicit"]);
    assert_eq!(execute(&agent, asked()).text(), "done");
    assert_eq!(timeline.notes(), ["explicit"]);
}

#[test]
fn an_explicit_interceptor_beside_guards_hooks_or_processors_is_an_error() {
    let timeline = Timeline::new();
    let interceptor = || UseInterceptor(Interceptor::default());
    let check = |builder: AgentBuilder, hooks: &str| {
        let text = format!(
            "capability `use_interceptor` cannot be used: an interceptor replaces all hooks, but the agent has {hooks}; remove those hooks, or add your own hooks with `UseHook`"
        );
        assert_eq!(builder.build().unwrap_err().to_string(), text);
    };
    let steps = || UseGuards::new(Budget::unlimited().with_steps(1));
    let hook = UseHook::new(noting("hook", &timeline));
    let both = scripted(["done"]).with(interceptor()).with(hook).with(steps());
    check(both, "`guard:steps_limit`, `hook`");
    check(scripted(["done"]).with(steps()).with(interceptor()), "`guard:steps_limit`");
    let processor = UseStateProcessor::new(Bracket("processor", timeline.clone()));
    check(scripted(["done"]).with(processor).with(interceptor()), "`state_processors`");
}

#[test]
fn decorators_go_around_whatever_is_set_in_the_end() {
    let model = FakeModel::script(["done"]);
    let timeline = Timeline::new();
    let notes = timeline.clone();
    let agent = AgentBuilder::base()
        .with_capability(UseContextCompilerDecorator::new(|inner| Arc::new(Tail(inner, "one"))))
        .with_capability(UseDriverDecorator::new(move |it| Noting::around(it, "around", &notes)))
        .with_capability(UseDriver::new(FakeDriver::responses(["replaced"])))
        .with_capability(UseLlmConfig::model(model.clone()))
        .with_capability(UseContextCompiler::new(ConversationWithCurrentToolTrace))
        .with_capability(UseContextCompilerDecorator::new(|inner| Arc::new(Tail(inner, "two"))))
        .build()
        .unwrap();
    assert_eq!(execute(&agent, asked()).text(), "done");
    assert_eq!(timeline.notes(), ["around"]);
    assert_eq!(texts(&model.requests()[0].prompt.tail), ["one", "two"]);
}

#[test]
fn a_compiler_reaches_the_driver_whichever_came_first() {
    for first in [true, false] {
        let model = FakeModel::default();
        let compiler =
            UseContextCompiler::new(Tail(Arc::new(ConversationWithCurrentToolTrace), "tail"));
        let driver = UseLlmConfig::model(model.clone());
        let base = AgentBuilder::base();
        let agent = if first {
            with(base.with_capability(compiler), driver)
        } else {
            with(base.with_capability(driver), compiler)
        };
        drop(execute(&agent, asked()));
        assert_eq!(texts(&model.requests()[0].prompt.tail), ["tail"]);
    }
}

#[test]
fn the_last_of_two_drivers_wins() {
    let driver = |text| UseDriver::new(FakeDriver::responses([text]));
    let agent = with(AgentBuilder::base().with_capability(driver("first")), driver("second"));
    assert_eq!(execute(&agent, asked()).text(), "second");
}

#[test]
fn a_tool_takes_the_place_of_one_that_has_its_name() {
    let model = FakeModel::script([ScenarioStep::tool_call("a", json!({})), "done".into()]);
    let agent = asking(&model)
        .with_capability(UseTools::new().with_tool(tool("a", "old")).with_tool(tool("b", "b")))
        .with_capability(UseTools::new().with_tool(tool("a", "new")))
        .build()
        .unwrap();
    assert_eq!(tool_names(&agent), [SCRIPTED_TOOL, "a", "b"]);
    let state = execute(&agent, asked());
    let step = state.step_at(0).unwrap();
    let results: Vec<_> = step.tool_executions().map(|(_, it)| it.to_result().to_text()).collect();
    assert_eq!(results, ["new"]);
}

/// Makes two tools, of which the second one knows of what was there before.
struct Pair;

impl DeferredTools for Pair {
    fn provide(&self, cx: &DeferredToolCx<'_>) -> Result<Vec<AnyTool>, BuildError> {
        let known = format!("{:?}", cx.tools);
        Ok(vec![tool("left", "left").into_tool(), tool("right", &known).into_tool()])
    }
}

#[test]
fn deferred_tools_come_after_all_others_and_may_replace_them() {
    let agent = scripted(["done"])
        .with_capability(UseToolFactory::of(Arc::new(Pair)))
        .with_capability(UseToolFactory::new(|cx| {
            Ok(MockTool::returning("left", &format!("{:?}", cx.tools), "replaced"))
        }))
        .with_capability(UseTools::new().with_tool(tool("direct", "done")))
        .build()
        .unwrap();
    assert_eq!(tool_names(&agent), [SCRIPTED_TOOL, "direct", "left", "right"]);
    let left = agent.tools().get("left").unwrap();
    let expect = r#"["scripted", "direct", "left", "right"]"#;
    assert_eq!(&*left.spec().description, expect);
}

#[test]
fn build_errors_name_the_remedy() {
    let missing = AgentBuilder::standard().build().unwrap_err().to_string();
    let expect = "the agent has no driver; add `UseLlmConfig` with a model, or `UseDriver`";
    assert_eq!(missing, expect);

    let refuse = UseToolFactory::new(|_| {
        Err::<AnyTool, _>(BuildError::capability("research", "add a search key"))
    });
    let refused = scripted(["done"]).with_capability(refuse).build().unwrap_err();
    let expect = "capability `research` cannot be used: add a search key";
    assert_eq!(refused.to_string(), expect);
}

#[test]
fn an_unused_hook_point_costs_nothing() {
    let agent = with(scripted(["done"]), UseHook::new(CallableHook::new("idle")));
    assert!(HookPoint::ALL.iter().all(|point| !agent.interceptor().contains(*point)));
}
