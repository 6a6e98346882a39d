use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use futures_util::StreamExt as _;
use loopwright_agent::{
    AgentContract, AgentContractRegistry, AgentDescriptor, AgentFactory as _, BuildError,
    ContractAgent, ContractError, ContractLoopFactory, InvalidDescriptor, LoopFactory,
};
use loopwright_core::{
    AgentEvent, AgentLoop, AgentState, EventEnvelope, events,
    messages::{InferenceRequest, Role},
};
use loopwright_testing::{
    FakeDriver, FakeModel, MockTool, ModelDriver, SCRIPTED_TOOL, ScenarioStep, block_on, test_loop,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Greets in some way, after a look around.
#[derive(Serialize, Deserialize)]
struct Greeter {
    greeting: String,
}

impl AgentContract for Greeter {
    fn descriptor(&self) -> Result<AgentDescriptor, InvalidDescriptor> {
        let descriptor = AgentDescriptor::new("greeter", "Greets.")?;
        Ok(descriptor.with_tools([SCRIPTED_TOOL]).with_capabilities(["greeting"]))
    }

    fn build(&self) -> Result<AgentLoop, BuildError> {
        let answer = ScenarioStep::final_answer(self.greeting.as_str());
        let steps = |request: &InferenceRequest| {
            let turns = request.prompt.turns.iter();
            turns.filter(|turn| turn.message().role() != Role::User).count()
        };
        let model = FakeModel::script_by(steps, [ScenarioStep::tool("look"), answer]);
        Ok(test_loop(ModelDriver::new(model)).with_tool(MockTool::scripted()))
    }
}

fn registry() -> AgentContractRegistry {
    AgentContractRegistry::new().register::<Greeter>("greeter")
}

fn asked() -> AgentState {
    AgentState::new().with_user_message("hello")
}

fn greeter(greeting: &str) -> ContractAgent {
    let config = json!({ "greeting": greeting });
    registry().create("greeter", &config).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn an_agent_describes_itself() {
    let expect = json!({
        "name": "greeter", "description": "Greets.",
        "tools": [SCRIPTED_TOOL], "capabilities": ["greeting"],
    });
    let descriptor = greeter("hello").descriptor().clone();
    assert_eq!((descriptor.name(), descriptor.description()), ("greeter", "Greets."));
    assert_eq!(serde_json::to_value(&descriptor).unwrap(), expect);
    assert_eq!(serde_json::from_value::<AgentDescriptor>(expect).unwrap(), descriptor);
}

#[test]
fn a_descriptor_without_name_or_description_is_refused() {
    for (name, description, missing) in [(" ", "x", "name"), ("x", "", "description")] {
        let refused = AgentDescriptor::new(name, description).unwrap_err().to_string();
        assert_eq!(refused, format!("the agent has no {missing}; set a non-empty {missing}"));
        let stored = json!({ "name": name, "description": description });
        let unread = serde_json::from_value::<AgentDescriptor>(stored).unwrap_err().to_string();
        assert_eq!(unread, refused);
    }
}

#[test]
fn a_registry_makes_agents_of_their_configurations() {
    let (empty, registry) = (AgentContractRegistry::new(), registry());
    assert_eq!((empty.contains("greeter"), registry.contains("greeter")), (false, true));
    assert_eq!(registry.names().collect::<Vec<_>>(), ["greeter"]);
    let config = json!({ "greeting": "hi" });
    let agent = registry.create("greeter", &config).unwrap();
    assert_eq!(agent.config(), &config);
    assert_eq!(block_on(agent.run(asked())).unwrap().text(), "hi");
}

#[test]
fn an_agent_that_there_is_not_is_an_error_that_lists_those_that_there_are() {
    let refused = registry().create("writer", &json!({})).unwrap_err();
    assert_eq!(refused.to_string(), "unknown agent `writer`; available: greeter");
    let refused = registry().create("greeter", &json!({ "greeting": 1 })).unwrap_err();
    assert!(matches!(refused, ContractError::Config { .. }), "{refused:?}");
}

#[test]
fn steps_are_taken_one_by_one_and_the_states_can_be_handed_on() {
    let mut state = asked();
    let mut texts = Vec::new();
    for _ in 0..5 {
        if !ContractAgent::has_next_step(&state) {
            break;
        }
        state = block_on(greeter("hi").next_step(state)).unwrap();
        texts.push((state.step_count(), state.status().as_str()));
    }
    assert_eq!(texts, [(1, "in_progress"), (2, "completed")]);
    assert_eq!(state.execution_count(), 1);
    assert_eq!(block_on(greeter("hi").final_step(state.clone())).unwrap(), state);
}

#[test]
fn an_iterated_agent_ends_like_one_that_is_executed() {
    let agent = greeter("hi");
    let states = agent.iterator(asked()).unwrap();
    let texts: Vec<_> = block_on(states.map(|state| state.step_count()).collect());
    assert_eq!(texts, [1, 2]);
    assert_eq!(block_on(agent.final_step(asked())).unwrap().step_count(), 2);
}

#[test]
fn a_deferred_loop_is_built_once_on_first_use() {
    #[derive(Serialize, Deserialize)]
    struct Counted;
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    impl AgentContract for Counted {
        fn descriptor(&self) -> Result<AgentDescriptor, InvalidDescriptor> {
            AgentDescriptor::new("counted", "Counts.")
        }
        fn build(&self) -> Result<AgentLoop, BuildError> {
            COUNT.fetch_add(1, SeqCst);
            Ok(test_loop(FakeDriver::responses(["done"])))
        }
    }
    let agent = ContractAgent::new(Counted).unwrap();
    assert_eq!(COUNT.load(SeqCst), 0);
    for agent in [agent.clone(), agent] {
        block_on(agent.run(AgentState::new())).unwrap();
    }
    assert_eq!(COUNT.load(SeqCst), 1);
}

#[test]
fn listeners_hear_each_event_once_whenever_they_were_added() {
    let heard = [const { AtomicUsize::new(0) }; 3].map(Arc::new);
    let count = |at: usize| {
        let heard = Arc::clone(&heard[at]);
        move || heard.fetch_add(1, SeqCst)
    };
    let (before, after, handled) = (count(0), count(1), count(2));
    let ended =
        |envelope: &EventEnvelope| matches!(envelope.event, AgentEvent::ExecutionCompleted(_));
    let agent = greeter("hi").wiretap(move |envelope| {
        if ended(envelope) {
            before();
        }
    });
    agent.agent().unwrap();
    let agent = agent.with_event_handler(Arc::new(|_: &EventEnvelope| panic!("it is replaced")));
    let agent = agent
        .on_event(move |_: &events::ExecutionCompleted, _| {
            after();
        })
        .with_event_handler(Arc::new(move |envelope: &EventEnvelope| {
            if ended(envelope) {
                handled();
            }
        }));
    block_on(agent.run(asked())).unwrap();
    assert_eq!(heard.map(|it| it.load(SeqCst)), [1, 1, 1]);
}

#[test]
fn a_definition_is_all_that_a_worker_needs() {
    struct Nobody;
    impl LoopFactory for Nobody {
        fn instantiate(
            &self,
            _: &loopwright_agent::AgentDefinition,
        ) -> Result<AgentLoop, BuildError> {
            Err(BuildError::NoDriver)
        }
    }
    let definition = greeter("good morning").definition();
    let stored = serde_json::to_string(&definition).unwrap();
    let definition = serde_json::from_str(&stored).unwrap();
    let factory = ContractLoopFactory::new(registry());
    let agent = factory.instantiate(&definition).unwrap();
    assert_eq!(block_on(agent.execute(asked())).text(), "good morning");
    let other = loopwright_agent::AgentDefinition { name: "writer".to_owned(), ..definition };
    let refused = factory.instantiate(&other).unwrap_err().to_string();
    assert!(refused.contains("greeter"), "{refused}");
    assert!(matches!(factory.with_fallback(Nobody).instantiate(&other), Err(BuildError::NoDriver)));
}
