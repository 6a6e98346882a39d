//! What sessions and lists of sessions say.

use loopwright_agent::{AgentDefinition, StateFactory};
use loopwright_core::{AgentState, Timestamp};
use loopwright_sessions::{
    AgentSession, MemoryStore, SendMessage, SessionError, SessionFactory, SessionQuery,
    SessionStatus, StoreError,
};
use loopwright_testing::block_on;

use crate::support::{answering, id, runtime, session};

fn labelled(name: &str) -> AgentSession {
    let mut definition = AgentDefinition::new("helper", "helps", "You help.");
    definition.label = Some("The helper".to_owned());
    let now = Timestamp::from_millis(5);
    SessionFactory::new().create_from(definition, AgentState::new(), id(name), now)
}

#[test]
fn a_session_says_whose_it_is_and_where_it_stands() {
    let session = labelled("a").with_parent(id("b"));
    assert_eq!((session.id(), session.version()), (&id("a"), 0));
    assert_eq!(session.definition().name, "helper");
    assert_eq!(session.state().transcript().len(), 0);
    let header = session.header();
    assert_eq!((&header.id, &header.parent), (&id("a"), &Some(id("b"))));
    assert_eq!((&*header.agent_name, &*header.agent_label), ("helper", "The helper"));
    assert_eq!(
        (header.created_at, header.updated_at),
        (Timestamp::from_millis(5), Timestamp::from_millis(5))
    );
    assert_eq!((session.status(), header.status), (SessionStatus::Active, SessionStatus::Active));

    let status = |session: AgentSession| session.status();
    assert_eq!(session.clone().suspended().map(status), Ok(SessionStatus::Suspended));
    assert_eq!(session.clone().completed().map(status), Ok(SessionStatus::Completed));
    assert_eq!(session.clone().failed().map(status), Ok(SessionStatus::Failed));
    let deleted = session.clone().deleted().unwrap();
    assert_eq!(deleted.status(), SessionStatus::Deleted);
    assert!(deleted.resumed().is_err());
    let completed = session.completed().unwrap();
    assert_eq!(completed.resumed().map(status), Ok(SessionStatus::Active));
}

#[test]
fn a_runtime_shows_sessions_one_by_one_and_in_a_list() {
    let (agent, _) = answering(["done"]);
    let (runtime, _) = runtime(&MemoryStore::new(), &agent);
    for name in ["a", "b"] {
        block_on(runtime.create(session(name))).unwrap();
    }
    let after = block_on(runtime.execute(&id("b"), &SendMessage::text("go"))).unwrap();
    assert_eq!(after.state().text(), "done");

    let info = block_on(runtime.info(&id("b"))).unwrap();
    assert_eq!((&info, info.version), (after.header(), after.version()));
    assert!(info.version > 1 && info.length > 0, "{info:?}");
    let missing = block_on(runtime.info(&id("c")));
    assert!(matches!(missing, Err(SessionError::Store(StoreError::NotFound(_)))), "{missing:?}");
    let list = block_on(runtime.list(&SessionQuery::first(9))).unwrap();
    let mut names: Vec<&str> = list.sessions.iter().map(|it| it.id.as_str()).collect();
    names.sort_unstable();
    assert_eq!((names, list.next.is_none()), (vec!["a", "b"], true));
    assert_eq!(list.len(), 2);
    assert!(list.with_agent_name("other").is_empty());
}

/// Begins every conversation with the same message.
struct Greeting;

impl StateFactory for Greeting {
    fn instantiate(&self, definition: &AgentDefinition, seed: AgentState) -> AgentState {
        seed.with_user_message(format!("Hello, {}.", definition.name))
    }
}

#[test]
fn a_factory_makes_sessions_with_new_names_and_states_of_its_own() {
    let definition = || AgentDefinition::new("helper", "helps", "You help.");
    let now = Timestamp::from_millis(5);
    let plain = SessionFactory::new();
    let (one, other) = (plain.create(definition(), now), plain.create(definition(), now));
    assert_ne!(one.id(), other.id());
    assert_eq!((one.state().transcript().len(), one.header().created_at), (0, now));
    let greeted = SessionFactory::with_states(Greeting).create(definition(), now);
    let first = greeted.state().transcript().iter().next().unwrap();
    assert_eq!(first.message().text(), "Hello, helper.");
    let longer = greeted.state().clone().with_user_message("go");
    assert_eq!(greeted.with_state(longer).state().transcript().len(), 2);
}
