//! Loading, doing and saving: order, versions, events, hooks, and who may.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use loopwright_core::{AgentState, BoxError, Priority, Timestamp};
use loopwright_sessions::{
    AgentSession, ControlMessage, LeaseRequest, MemoryStore, Posted, SendMessage, SessionAction,
    SessionError, SessionEvent, SessionHeader, SessionHook, SessionId, SessionList, SessionQuery,
    SessionRepository, SessionStage, SessionStatus, SessionStore as _, Sessions, StoreError,
    SuspendSession, WriteMetadata, action_fn,
};
use loopwright_testing::{EventRecorder, FrozenClock, block_on};

use crate::support::{Notes, answering, id, runtime, session};

#[test]
fn a_session_goes_on_where_it_was_in_another_runtime() {
    let store = MemoryStore::new();
    let (agent, _) = answering(["one", "two"]);
    let (runtime, notes) = runtime(&store, &agent);
    block_on(runtime.create(session("a"))).unwrap();
    let first = block_on(runtime.execute(&id("a"), &SendMessage::text("1?"))).unwrap();
    assert_eq!(first.state().text(), "one");
    let (other, _) = crate::support::runtime(&store, &agent);
    let second = block_on(other.execute(&id("a"), &SendMessage::text("2?"))).unwrap();
    let said: Vec<_> = second.state().transcript().iter().map(|it| it.message().text()).collect();
    assert_eq!(said, ["1?", "one", "2?", "two"]);
    assert_eq!(block_on(other.session(&id("a"))).unwrap(), second);
    assert_eq!(notes.take()[0], "saved 1 active");
}

/// A program that shows what an agent answers.
async fn ask(sessions: &dyn Sessions, question: &str) -> Result<String, SessionError> {
    let page = sessions.list(&SessionQuery::first(9)).await?;
    let id = match page.sessions.first() {
        Some(header) => sessions.info(&header.id).await?.id,
        None => sessions.create(session("a")).await?.id().clone(),
    };
    sessions.execute(&id, &SendMessage::text(question)).await?;
    Ok(sessions.session(&id).await?.state().text())
}

/// Has no session, and creates none.
struct Empty;

#[async_trait]
impl Sessions for Empty {
    async fn create(&self, session: AgentSession) -> Result<AgentSession, SessionError> {
        Ok(session)
    }

    async fn execute(
        &self,
        id: &SessionId,
        _: &dyn SessionAction,
    ) -> Result<AgentSession, SessionError> {
        Err(StoreError::NotFound(id.clone()).into())
    }

    async fn session(&self, id: &SessionId) -> Result<AgentSession, SessionError> {
        Err(StoreError::NotFound(id.clone()).into())
    }

    async fn info(&self, id: &SessionId) -> Result<SessionHeader, SessionError> {
        Err(StoreError::NotFound(id.clone()).into())
    }

    async fn list(&self, _: &SessionQuery) -> Result<SessionList, SessionError> {
        Ok(SessionList::default())
    }
}

#[test]
fn a_program_can_be_given_a_runtime_or_a_fake() {
    let (agent, _) = answering(["one", "two"]);
    let (runtime, _) = runtime(&MemoryStore::new(), &agent);
    let asked = |question| block_on(ask(&runtime, question)).unwrap();
    assert_eq!([asked("1?"), asked("2?")], ["one", "two"]);
    let missing = block_on(ask(&Empty, "1?"));
    assert!(matches!(missing, Err(SessionError::Store(StoreError::NotFound(_)))), "{missing:?}");
}

#[test]
fn only_the_save_is_told_when_a_session_is_created() {
    let (agent, _) = answering([""; 0]);
    let (runtime, notes) = runtime(&MemoryStore::new(), &agent);
    let created = block_on(runtime.create(session("a"))).unwrap();
    assert_eq!((created.version(), created.status()), (1, SessionStatus::Active));
    assert_eq!(notes.take(), ["saved 1 active"]);
}

#[test]
fn an_action_is_told_between_loading_and_saving() {
    let (agent, _) = answering([""; 0]);
    let (runtime, notes) = runtime(&MemoryStore::new(), &agent);
    block_on(runtime.create(session("a"))).unwrap();
    notes.take();
    block_on(runtime.execute(&id("a"), &SuspendSession)).unwrap();
    assert_eq!(notes.take(), ["loaded 1 active", "suspend_session 1 1", "saved 2 suspended"]);
}

#[test]
fn a_session_that_cannot_be_loaded_is_an_error_without_side_effects() {
    let (agent, _) = answering([""; 0]);
    let (runtime, notes) = runtime(&MemoryStore::new(), &agent);
    let missing = block_on(runtime.execute(&id("a"), &SuspendSession));
    assert!(matches!(missing, Err(SessionError::Store(StoreError::NotFound(_)))), "{missing:?}");
    assert_eq!(notes.take(), ["load failed"]);
}

#[test]
fn a_name_that_is_taken_is_told_as_a_failed_save() {
    let (agent, _) = answering([""; 0]);
    let (runtime, notes) = runtime(&MemoryStore::new(), &agent);
    block_on(runtime.create(session("a"))).unwrap();
    let again = block_on(runtime.create(session("a")));
    assert!(matches!(again, Err(SessionError::Store(StoreError::Exists(_)))), "{again:?}");
    assert_eq!(notes.take(), ["saved 1 active", "save failed"]);
}

#[test]
fn an_action_that_fails_saves_nothing() {
    let store = MemoryStore::new();
    let (agent, _) = answering([""; 0]);
    let (runtime, notes) = runtime(&store, &agent);
    block_on(runtime.create(session("a"))).unwrap();
    let failing = action_fn("fail", |session: AgentSession| async move {
        drop(session.with_title("never"));
        Err(SessionError::Action("no".into()))
    });
    assert!(block_on(runtime.execute(&id("a"), &failing)).is_err());
    let header = block_on(store.header(&id("a"))).unwrap().unwrap();
    assert_eq!((header.version, header.title), (1, None));
    assert_eq!(notes.take(), ["saved 1 active", "loaded 1 active"]);
    // The lease was given back.
    block_on(runtime.execute(&id("a"), &SuspendSession)).unwrap();
}

/// Notes every stage it is asked at.
struct Asked(Notes, &'static str);

#[async_trait]
impl SessionHook for Asked {
    async fn on_stage(
        &self,
        stage: SessionStage,
        session: AgentSession,
    ) -> Result<AgentSession, BoxError> {
        self.0.note(format!("{} {stage:?}", self.1));
        Ok(session)
    }
}

#[test]
fn hooks_are_asked_at_every_stage_highest_priority_first() {
    let (agent, _) = answering([""; 0]);
    let (runtime, notes) = runtime(&MemoryStore::new(), &agent);
    let low = Asked(notes.clone(), "low");
    let high = Asked(notes.clone(), "high");
    let runtime = runtime.with_hook(Priority(1), low).with_hook(Priority(2), high);
    block_on(runtime.create(session("a"))).unwrap();
    let stages = |stages: &[&str], event: &str, at: usize| {
        let mut both: Vec<String> = stages
            .iter()
            .flat_map(|stage| [format!("high {stage}"), format!("low {stage}")])
            .collect();
        both.insert(at, event.to_owned());
        both
    };
    let order = ["BeforeCreate", "BeforeSave", "AfterSave", "AfterCreate"];
    assert_eq!(notes.take(), stages(&order, "saved 1 active", 8));
    block_on(runtime.execute(&id("a"), &WriteMetadata::one("k", 1))).unwrap();
    let mut expect = stages(&["AfterLoad", "AfterAction", "BeforeSave"], "loaded 1 active", 2);
    expect.push("write_metadata 1 1".to_owned());
    expect.extend(stages(&["AfterSave"], "saved 2 active", 2));
    assert_eq!(notes.take(), expect);
}

fn somebody(now: Timestamp) -> LeaseRequest<'static> {
    LeaseRequest { owner: "somebody", replaces: None, now, ttl: Duration::from_secs(1) }
}

#[test]
fn a_session_that_is_in_use_refuses_another_action_before_a_model_is_asked() {
    let store = MemoryStore::new();
    let (agent, model) = answering(["one"]);
    let (runtime, _) = runtime(&store, &agent);
    block_on(runtime.create(session("a"))).unwrap();
    let far = Timestamp::from_millis(u64::MAX / 4);
    block_on(store.lease(&id("a"), somebody(far))).unwrap();
    let busy = block_on(runtime.execute(&id("a"), &SendMessage::text("hi")));
    assert!(matches!(busy, Err(SessionError::Store(StoreError::Busy { .. }))), "{busy:?}");
    assert_eq!(model.asked(), 0);
}

#[test]
fn a_message_to_a_busy_session_can_be_left_to_its_runner() {
    let store = MemoryStore::new();
    let (agent, _) = answering(["one"]);
    let (runtime, _) = runtime(&store, &agent);
    block_on(runtime.create(session("a"))).unwrap();
    let far = Timestamp::from_millis(u64::MAX / 4);
    let lease = block_on(store.lease(&id("a"), somebody(far))).unwrap();
    block_on(runtime.execute(&id("a"), &SendMessage::text("hi").steer_if_busy())).unwrap();
    let controls = block_on(store.take_control(&lease)).unwrap();
    assert!(
        matches!(&controls[..], [Posted { control: ControlMessage::SendMessage(message), .. }] if message.text() == "hi"),
        "{controls:?}"
    );
}

#[test]
fn a_message_to_an_idle_session_reaches_the_next_run() {
    let store = MemoryStore::new();
    let (agent, _) = answering(["one", "two"]);
    let (runtime, _) = runtime(&store, &agent);
    block_on(runtime.create(session("a"))).unwrap();
    let message = loopwright_core::messages::Message::user("and this");
    block_on(store.send_control(&id("a"), &ControlMessage::SendMessage(message))).unwrap();
    // what was requested of a run that has ended does not end another one.
    block_on(runtime.cancel(&id("a"))).unwrap();
    let done = block_on(runtime.execute(&id("a"), &SendMessage::text("this"))).unwrap();
    let said: Vec<_> = done.state().transcript().iter().map(|it| it.message().text()).collect();
    assert_eq!(said, ["and this", "this", "one"]);
}

#[test]
fn a_repository_saves_on_the_version_that_was_loaded_only() {
    let repository = SessionRepository::new(Arc::new(MemoryStore::new()));
    let created = block_on(repository.create(session("a"))).unwrap();
    let one = created.clone().with_state(created.state().clone().with_user_message("one"));
    let saved = block_on(repository.save(one)).unwrap();
    assert_eq!((created.version(), saved.version()), (1, 2));
    let two = created.clone().with_state(created.state().clone().with_user_message("two"));
    let conflict = block_on(repository.save(two));
    let is_conflict = matches!(
        conflict,
        Err(SessionError::Store(StoreError::Conflict { expected: 1, found: 2, .. }))
    );
    assert!(is_conflict, "{conflict:?}");
    assert_eq!(block_on(repository.load(&id("a"))).unwrap(), saved);
    let missing = block_on(repository.save(session("b")));
    assert!(matches!(missing, Err(SessionError::Store(StoreError::NotFound(_)))), "{missing:?}");
    assert!(block_on(repository.exists(&id("a"))).unwrap());
    block_on(repository.delete(&id("a"))).unwrap();
    assert!(block_on(repository.load(&id("a"))).is_err());
    let left = block_on(repository.list_headers(&SessionQuery::first(5))).unwrap();
    assert!(left.is_empty());
}

#[test]
fn a_rewind_that_is_refused_loads_nothing() {
    let (agent, _) = answering(["one"]);
    let (runtime, notes) = runtime(&MemoryStore::new(), &agent);
    block_on(runtime.create(session("a"))).unwrap();
    notes.take();
    let refused = block_on(runtime.rewind(&id("a"), 7));
    assert!(matches!(refused, Err(SessionError::NoStep { step: 7, .. })), "{refused:?}");
    assert_eq!(notes.take(), [""; 0]);
}

#[test]
fn the_returned_state_equals_the_stored_one_after_a_clock_change() {
    let (agent, _) = answering([""; 0]);
    let (store, clock) = (MemoryStore::new(), FrozenClock::new());
    clock.advance(Duration::from_hours(1));
    let (later, _) = runtime(&store, &agent);
    block_on(later.with_env(clock.env(0)).create(session("a"))).unwrap();
    let (earlier, _) = runtime(&store, &agent);
    let written = block_on(earlier.execute(&id("a"), &WriteMetadata::one("k", 1))).unwrap();
    assert_eq!(block_on(earlier.session(&id("a"))).unwrap(), written);
}

#[test]
fn sessions_that_run_at_the_same_moment_have_executions_of_their_own() {
    let (agent, _) = answering(["one", "two"]);
    let (runtime, _) = runtime(&MemoryStore::new(), &agent);
    let executions = ["a", "b"].map(|name| {
        block_on(runtime.create(session(name))).unwrap();
        let done = block_on(runtime.execute(&id(name), &SendMessage::text("go"))).unwrap();
        done.state().execution().unwrap().id().clone()
    });
    assert_ne!(executions[0], executions[1]);
}

/// Fails or panics at one stage.
struct Fails(SessionStage, fn());

#[async_trait]
impl SessionHook for Fails {
    async fn on_stage(
        &self,
        stage: SessionStage,
        session: AgentSession,
    ) -> Result<AgentSession, BoxError> {
        if stage != self.0 {
            return Ok(session);
        }
        self.1();
        Err("the hook failed".into())
    }
}

#[test]
fn a_saved_action_is_reported_as_saved_if_a_later_hook_fails() {
    let store = MemoryStore::new();
    let (agent, _) = answering([""; 0]);
    let (runtime, notes) = runtime(&store, &agent);
    let runtime = runtime.with_hook(Priority(1), Fails(SessionStage::AfterSave, || {}));
    let failed = block_on(runtime.create(session("a")));
    assert!(matches!(failed, Err(SessionError::Action(_))), "{failed:?}");
    assert_eq!(notes.take(), ["saved 1 active"]);
    let failed = block_on(runtime.execute(&id("a"), &SuspendSession));
    assert!(matches!(failed, Err(SessionError::Action(_))), "{failed:?}");
    assert_eq!(notes.take(), ["loaded 1 active", "suspend_session 1 1", "saved 2 suspended"]);
    assert_eq!(block_on(store.header(&id("a"))).unwrap().unwrap().version, 2);
}

/// Shows that the lease on a session was given back.
fn is_free(store: &MemoryStore) {
    let lease = block_on(store.lease(&id("a"), somebody(Timestamp::from_millis(0)))).unwrap();
    block_on(store.release(&lease)).unwrap();
}

#[test]
fn a_panic_in_a_hook_or_an_action_gives_the_lease_back() {
    use SessionStage::{AfterAction, AfterLoad, AfterSave, BeforeSave};
    let store = MemoryStore::new();
    let (agent, _) = answering([""; 0]);
    let plain = || runtime(&store, &agent).0;
    block_on(plain().create(session("a"))).unwrap();
    let panics = action_fn("panic", |_: AgentSession| async { panic!("the action panicked") });
    let panicked = block_on(plain().execute(&id("a"), &panics));
    assert!(
        matches!(&panicked, Err(SessionError::Panicked(text)) if text == "the action panicked"),
        "{panicked:?}"
    );
    is_free(&store);
    for stage in [AfterLoad, AfterAction, BeforeSave, AfterSave] {
        let hook = Fails(stage, || panic!("the hook panicked"));
        let runtime = plain().with_hook(Priority(1), hook);
        let panicked = block_on(runtime.execute(&id("a"), &WriteMetadata::one("k", 1)));
        assert!(matches!(panicked, Err(SessionError::Panicked(_))), "{stage:?}: {panicked:?}");
        is_free(&store);
    }
    block_on(plain().execute(&id("a"), &SuspendSession)).unwrap();
}

#[test]
fn a_listener_that_panics_changes_nothing() {
    let store = MemoryStore::new();
    let (agent, _) = answering([""; 0]);
    let runtime = runtime(&store, &agent).0;
    let (heard, notes) = (Notes::default(), Notes::default());
    let all = notes.clone();
    let runtime = runtime.with_listener(move |_: &SessionEvent| {
        heard.note("");
        panic!("the listener panicked")
    });
    let runtime =
        runtime.with_listener(move |event: &SessionEvent| all.note(crate::support::word(event)));
    block_on(runtime.create(session("a"))).unwrap();
    block_on(runtime.execute(&id("a"), &SuspendSession)).unwrap();
    let told = ["saved 1 active", "loaded 1 active", "suspend_session 1 1", "saved 2 suspended"];
    assert_eq!(notes.take(), told);
    is_free(&store);
}

#[test]
fn a_sink_of_the_runtime_is_told_what_its_agents_do() {
    let store = MemoryStore::new();
    let (agent, _) = answering(["one"]);
    let events = EventRecorder::new();
    let runtime = runtime(&store, &agent).0.with_event_sink(events.sink());
    block_on(runtime.create(session("a"))).unwrap();
    block_on(runtime.execute(&id("a"), &SendMessage::text("1?"))).unwrap();
    assert_eq!(events.names().last().map(String::as_str), Some("ExecutionCompleted"));
}

#[test]
fn a_session_is_saved_at_the_time_of_its_surroundings() {
    let store = MemoryStore::new();
    let (agent, _) = answering([""; 0]);
    let clock = FrozenClock::new();
    clock.advance(Duration::from_hours(24));
    let runtime = runtime(&store, &agent).0.with_env(clock.env(0));
    block_on(runtime.create(session("a"))).unwrap();
    let saved = block_on(runtime.execute(&id("a"), &WriteMetadata::one("k", 1))).unwrap();
    assert_eq!(saved.header().updated_at, clock.env(0).clock.now());
}

#[test]
fn a_session_has_something_to_do_if_its_first_message_was_not_answered() {
    let (agent, _) = answering(["one"]);
    let asked = |state: AgentState| session("a").with_state(state).is_unfinished();
    let state = AgentState::new();
    assert!(!asked(state.clone()));
    let state = state.with_user_message("1?");
    assert!(asked(state.clone()));
    let answered = block_on(agent.execute(state));
    assert!(!asked(answered.clone()));
    assert!(!asked(answered.with_user_message("2?")));
}

#[test]
fn stop_and_cancel_reach_the_runner_of_a_session() {
    let store = MemoryStore::new();
    let (agent, _) = answering([""; 0]);
    let runtime = runtime(&store, &agent).0;
    block_on(runtime.create(session("a"))).unwrap();
    block_on(runtime.stop(&id("a"))).unwrap();
    block_on(runtime.cancel(&id("a"))).unwrap();
    let lasts = Duration::from_secs(30);
    let claim =
        LeaseRequest { owner: "me", replaces: None, now: Timestamp::from_millis(0), ttl: lasts };
    let lease = block_on(store.lease(&id("a"), claim)).unwrap();
    let posted = block_on(store.take_control(&lease)).unwrap();
    let controls: Vec<_> = posted.into_iter().map(|it| it.control).collect();
    assert_eq!(controls, [ControlMessage::Stop, ControlMessage::Cancel]);
}
