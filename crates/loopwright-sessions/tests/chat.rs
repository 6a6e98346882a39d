//! Kept conversations as questions and answers.

use std::sync::Arc;

use futures::executor::block_on;
use loopwright_agent::{AgentDefinition, LoopFactory as _};
use loopwright_core::{
    AgentEvent, AgentLoop, AskError, FailureKind, SideEffects, ToolOptions, ToolOutput,
};
use loopwright_sessions::{
    Chat, ChatError, ChatStream, ChatUpdate, FileStore, MemoryStore, SessionError, SessionRuntime,
    SessionStore, StoreError,
};
use loopwright_testing::{FakeModel, FrozenClock, MockTool, ModelDriver, ScenarioStep, test_loop};

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

/// The texts of a turn, the names of its other events, and what it ended with.
async fn taken(mut turn: ChatStream<'_>) -> (Vec<String>, Vec<String>, Result<String, ChatError>) {
    let (mut texts, mut events) = (Vec::new(), Vec::new());
    let ended = loop {
        match turn.next().await {
            Some(Ok(ChatUpdate::Text(text))) => texts.push(text),
            Some(Ok(ChatUpdate::Event(envelope))) => events.push(envelope.event.name().to_owned()),
            Some(Ok(ChatUpdate::Reply(reply))) => break Ok(reply.text().to_owned()),
            Some(Err(error)) => break Err(error),
            other => panic!("{other:?}"),
        }
    };
    assert!(turn.next().await.is_none());
    (texts, events, ended)
}

fn streaming(steps: impl IntoIterator<Item = ScenarioStep>) -> (AgentLoop, FakeModel) {
    let model = FakeModel::script(steps).with_fragment_size(4);
    (test_loop(ModelDriver::new(model.clone())), model)
}

async fn opened(store: Arc<dyn SessionStore>, agent: AgentLoop) -> Chat {
    runtime(store, agent).open("a").await.unwrap()
}

#[test]
fn several_turns_are_streamed_each_with_its_texts_events_and_reply() {
    let (agent, _) = streaming(["A town.".into(), ScenarioStep::tool("looking"), "Small.".into()]);
    block_on(async {
        let mut chat = opened(Arc::new(MemoryStore::new()), agent).await;
        let (texts, events, reply) = taken(chat.stream("What is Piran?")).await;
        assert_eq!((texts.concat().as_str(), reply.unwrap().as_str()), ("A town.", "A town."));
        assert!(texts.len() > 1, "{texts:?}");
        assert_eq!(
            (&*events[0], events.last().unwrap().as_str()),
            ("ExecutionStarted", "ExecutionCompleted")
        );
        let (texts, events, reply) = taken(chat.stream("How large?")).await;
        assert_eq!((texts.concat().as_str(), reply.unwrap().as_str()), ("lookingSmall.", "Small."));
        let tools = events.iter().filter(|name| *name == "ToolCallCompleted").count();
        assert_eq!(tools, 1);
        assert_eq!(chat.session().await.unwrap().state().transcript().len(), 5);
    });
}

#[test]
fn a_turn_that_is_streamed_fails_with_the_error_of_the_turn() {
    let (agent, _) = streaming([ScenarioStep::error("down"), "Here I am.".into()]);
    block_on(async {
        let mut chat = opened(Arc::new(MemoryStore::new()), agent).await;
        let (texts, _, ended) = taken(chat.stream("Hello?")).await;
        assert_eq!(texts.len(), 0);
        assert!(matches!(ended, Err(ChatError::Ask(AskError::Failed { .. }))), "{ended:?}");
        assert_eq!(chat.stream("Still there?").reply().await.unwrap(), "Here I am.");
    });
}

#[test]
fn a_stream_without_its_updates_is_the_reply() {
    let (agent, _) = streaming(["A town.".into(), "Small.".into()]);
    block_on(async {
        let mut chat = opened(Arc::new(MemoryStore::new()), agent).await;
        assert_eq!(chat.stream("What is Piran?").reply().await.unwrap(), "A town.");
        let mut turn = chat.stream("How large?");
        while turn.next().await.is_some() {}
        assert!(matches!(turn.reply().await, Err(ChatError::Ended)));
    });
}

#[test]
fn nothing_happens_before_a_stream_is_polled() {
    let (agent, model) = streaming(["A town.".into()]);
    block_on(async {
        let mut chat = opened(Arc::new(MemoryStore::new()), agent).await;
        drop(chat.stream("What is Piran?"));
        assert_eq!(chat.session().await.unwrap().state().transcript().len(), 0);
    });
    assert_eq!(model.asked(), 0);
}

/// A turn that is dropped in the middle of a tool call, and the next one.
fn a_turn_is_dropped_and_the_next_one_resumes(store: Arc<dyn SessionStore>) {
    let entered = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let options = ToolOptions { side_effects: SideEffects::Idempotent, ..ToolOptions::default() };
    let tool = MockTool::with_cx("look", "Looks.", move |_, _| {
        let is_first = entered.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0;
        Box::pin(async move {
            if is_first {
                std::future::pending::<()>().await;
            }
            Ok(ToolOutput::text("seen"))
        })
    });
    let steps = [ScenarioStep::tool_call("look", serde_json::json!({})), "A small town.".into()];
    let (agent, _) = streaming(steps);
    // No time passes, so that a lease that is left would be waited for without end.
    let env = FrozenClock::manual().env(1);
    let agent = agent.with_tool(tool.with_options(options));
    let runtime = SessionRuntime::new(store, agent).with_env(env);
    let mut chat = block_on(runtime.open("a")).unwrap();
    {
        let mut turn = chat.stream("What is Piran?");
        block_on(async {
            while let Some(update) = turn.next().await {
                let ChatUpdate::Event(envelope) = update.unwrap() else { continue };
                if matches!(envelope.event, AgentEvent::ToolCallStarted(_)) {
                    break;
                }
            }
        });
    }
    let reply = block_on(chat.stream("And how large is it?").reply()).unwrap();
    assert_eq!(reply, "A small town.");
    let said: Vec<_> = reply.state().transcript().iter().map(|it| it.message().text()).collect();
    assert_eq!(said.last().unwrap(), "A small town.");
    assert!(said.contains(&"And how large is it?".to_owned()), "{said:?}");
}

#[test]
fn a_dropped_turn_is_resumed_by_the_next_one_in_memory() {
    a_turn_is_dropped_and_the_next_one_resumes(Arc::new(MemoryStore::new()));
}

#[test]
fn a_dropped_turn_is_resumed_by_the_next_one_in_files() {
    let folder = tempfile::tempdir().unwrap();
    a_turn_is_dropped_and_the_next_one_resumes(Arc::new(FileStore::open(folder.path()).unwrap()));
}
