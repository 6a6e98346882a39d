//! Kept conversations as questions and answers.

use std::sync::Arc;

use futures::executor::block_on;
use loopwright_agent::{AgentDefinition, LoopFactory as _};
use loopwright_core::{AgentLoop, AskError, FailureKind};
use loopwright_sessions::{
    ChatError, FileStore, MemoryStore, SessionError, SessionRuntime, SessionStore, StoreError,
};
use loopwright_testing::{FrozenClock, MockTool, ScenarioStep};

use crate::support::answering;

/// A runtime by a frozen clock.
fn runtime(store: Arc<dyn SessionStore>, agent: AgentLoop) -> SessionRuntime {
    SessionRuntime::new(store, agent).with_env(FrozenClock::new().env(1))
}

/// Two turns in one process and a third in another one.
fn a_conversation_goes_on(store: impl Fn() -> Arc<dyn SessionStore>) {
    let turn = |answers: &[&'static str], questions: &[&str]| {
        let (agent, model) = answering(answers.iter().copied());
        let runtime = runtime(store(), agent);
        let mut chat = block_on(runtime.open("support-42")).unwrap();
        let replies: Vec<String> = questions
            .iter()
            .map(|text| block_on(chat.ask(*text)).unwrap().text().to_owned())
            .collect();
        (replies, model.requests().pop().unwrap().prompt.turns.len())
    };
    let first = turn(&["A town.", "Small."], &["What is Piran?", "How large?"]);
    assert_eq!(first, (vec!["A town.".to_owned(), "Small.".to_owned()], 3));
    assert_eq!(turn(&["In the north."], &["Where?"]), (vec!["In the north.".to_owned()], 5));
}

#[test]
fn a_conversation_in_memory_goes_on_in_another_runtime() {
    let store = Arc::new(MemoryStore::new());
    a_conversation_goes_on(|| Arc::clone(&store) as _);
}

#[test]
fn a_conversation_in_files_goes_on_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    a_conversation_goes_on(|| Arc::new(FileStore::open(folder.path()).unwrap()));
}

#[test]
fn a_failed_turn_is_an_error_and_the_conversation_goes_on() {
    let (agent, _) = answering([ScenarioStep::error("down"), "Here I am.".into()]);
    let runtime = runtime(Arc::new(MemoryStore::new()), agent);
    let mut chat = block_on(runtime.open("a")).unwrap();
    let error = block_on(chat.ask("Hello?")).unwrap_err();
    let ChatError::Ask(AskError::Failed { failure, state }) = error else { panic!("{error:?}") };
    assert_eq!((failure.kind, state.transcript().len()), (FailureKind::Model, 1));
    assert_eq!(block_on(chat.resume()).unwrap(), "Here I am.");
    assert_eq!(block_on(chat.session()).unwrap().state().transcript().len(), 2);
}

#[test]
fn a_wrong_name_and_a_deleted_session_cannot_be_opened() {
    let (agent, _) = answering(["Hello."]);
    let runtime = runtime(Arc::new(MemoryStore::new()), agent);
    let error = block_on(runtime.open("../etc")).unwrap_err();
    assert!(matches!(error, SessionError::Id(_)), "{error:?}");
    let chat = block_on(runtime.open("gone")).unwrap();
    block_on(runtime.delete(chat.id())).unwrap();
    let error = block_on(runtime.open("gone")).unwrap_err();
    assert!(matches!(error, SessionError::Store(StoreError::NotFound(_))), "{error:?}");
}

#[test]
fn a_session_that_exists_keeps_its_definition() {
    let (agent, _) = answering(["Hello."]);
    let runtime = runtime(Arc::new(MemoryStore::new()), agent);
    let guide = AgentDefinition::new("guide", "Knows harbours.", "Be brief.");
    block_on(runtime.open_as("a", guide.clone())).unwrap();
    let chat = block_on(runtime.open("a")).unwrap();
    assert_eq!(block_on(chat.session()).unwrap().definition(), &guide);
}

#[test]
fn an_agent_as_a_factory_obeys_the_tools_of_a_definition_and_refuses_what_it_lacks() {
    let (agent, _) = answering(["Hello."]);
    let agent = agent.with_tool(MockTool::scripted());
    let plain = AgentDefinition::new("plain", "", "");
    let names = |definition: &AgentDefinition| {
        agent
            .instantiate(definition)
            .map(|it| it.tools().names().len())
            .map_err(|it| it.to_string())
    };
    assert_eq!(names(&plain), Ok(1));
    let none = AgentDefinition { tools: Some([""; 0].into_iter().collect()), ..plain.clone() };
    assert_eq!(names(&none), Ok(0));
    let lacking = AgentDefinition { tools: Some(["bash"].into_iter().collect()), ..plain.clone() };
    assert_eq!(names(&lacking), Err("unknown tool `bash`; available: scripted".to_owned()));
    let capable =
        AgentDefinition { capabilities: ["use_bash"].into_iter().collect(), ..plain.clone() };
    let text = "capability `use_bash` cannot be used: an `AgentLoop` runs definitions without \
                capabilities; use `DefinitionLoopFactory`";
    assert_eq!(names(&capable), Err(text.to_owned()));
}
