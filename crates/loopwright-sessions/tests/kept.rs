//! Sessions that stay in memory between actions are as the store has them.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_agent::{
    AgentBuilder, AgentDefinition, DefinitionRegistry, UseHook, UseLlmConfig, UseTools,
};
use loopwright_capabilities::subagents::UseSubagents;
use loopwright_core::{
    AgentLoop, ApprovalDecision, ApprovalRequest, CallableHook, ChatModel, InferCx, ModelError,
    ToolDecision,
    messages::{InferenceRequest, InferenceResponse, Message, Role},
};
use loopwright_sessions::{
    AgentSession, CacheLimits, ClearSession, ContinueRun, DecideCall, ForkSession, MemoryStore,
    SendMessage, SessionAction, SessionCache, SessionError, SessionRepository, SessionRuntime,
    SessionStore as _, StoreError, WriteMetadata, action_fn,
};
use loopwright_testing::{FrozenClock, MockTool, ScenarioStep, block_on};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{Same, id, session};

/// An agent that calls a tool, about which the user is asked, or lets a sub-agent call it, and then answers.
fn agent() -> AgentLoop {
    let pay = MockTool::new("pay", "", |_| Ok::<_, String>("paid"));
    let asks = CallableHook::new("asks").before_tool(|call, _state, _cx| {
        let ask = ToolDecision::Ask(ApprovalRequest::new("pay?", "asks"));
        Ok(if &*call.name == "pay" { ask } else { ToolDecision::Run })
    });
    let mut helpers = DefinitionRegistry::new();
    helpers.register(AgentDefinition::new("helper", "helps", "You help."));
    AgentBuilder::base()
        .with_capability(UseLlmConfig::model(Pays))
        .with_capability(UseTools::new().with_tool(pay))
        .with_capability(UseHook::new(asks))
        .with_capability(UseSubagents::new(helpers))
        .build()
        .unwrap()
}

struct Pays;

#[async_trait]
impl ChatModel for Pays {
    async fn infer(
        &self,
        request: &InferenceRequest,
        _cx: InferCx<'_>,
    ) -> Result<InferenceResponse, ModelError> {
        let last = request.prompt.turns.iter().next_back().map(|it| it.message());
        let asked = last.filter(|it| it.role() == Role::User).map(Message::text);
        let step = match asked.as_deref() {
            Some("pay") => ScenarioStep::tool_call("pay", json!({})),
            Some("delegate") => {
                let task = json!({ "subagent": "helper", "prompt": "pay" });
                ScenarioStep::tool_call("spawn_subagent", task)
            }
            _ => ScenarioStep::final_answer("done"),
        };
        step.to_response()
    }
}

/// A process that works with sessions of a store.
fn process(store: &MemoryStore, cache: &SessionCache) -> SessionRuntime {
    SessionRuntime::new(Arc::new(store.clone()), Same(agent()))
        .with_env(FrozenClock::new().env(0))
        .with_cache(cache.clone())
}

fn stored(store: &MemoryStore, name: &str) -> Result<AgentSession, SessionError> {
    block_on(SessionRepository::new(Arc::new(store.clone())).load(&id(name)))
}

fn run(runtime: &SessionRuntime, action: &dyn SessionAction) -> Result<AgentSession, SessionError> {
    block_on(runtime.execute(&id("a"), action))
}

fn look() -> impl SessionAction {
    action_fn("look", |session: AgentSession| async move { Ok(session) })
}

fn decide() -> DecideCall {
    DecideCall { path: None, resolution: ApprovalDecision::Approve }
}

/// Whether a session is the continuation of one in memory: those that were loaded separately share no turns.
fn is_kept(now: &AgentSession, before: &AgentSession) -> bool {
    now.state().transcript().starts_with(before.state().transcript())
}

/// What happens to a session between two actions of a process.
type Meanwhile = fn(&SessionRuntime, &MemoryStore);

#[test]
fn a_kept_session_is_used_only_if_the_store_continues_where_it_ends() {
    let say: Meanwhile = |other, _| drop(run(other, &SendMessage::text("more")).unwrap());
    let rewind: Meanwhile = |other, _| drop(block_on(other.rewind(&id("a"), 1)).unwrap());
    let cases: [(&str, Meanwhile, bool); 10] = [
        ("nothing", |_, _| (), true),
        ("a message", say, true),
        ("metadata", |other, _| drop(run(other, &WriteMetadata::one("k", 1)).unwrap()), true),
        ("a fork of it", |other, _| drop(run(other, &ForkSession::new()).unwrap()), true),
        ("a question", |other, _| drop(run(other, &SendMessage::text("pay")).unwrap()), true),
        (
            "an answer",
            |other, _| {
                run(other, &SendMessage::text("pay")).unwrap();
                run(other, &decide()).unwrap();
            },
            true,
        ),
        (
            "a question of a sub-agent",
            |other, _| {
                let waits = run(other, &SendMessage::text("delegate")).unwrap();
                assert_eq!(waits.state().pending()[0].address(), [0, 0]);
            },
            true,
        ),
        (
            "an answer to a sub-agent, and its end",
            |other, _| {
                run(other, &SendMessage::text("delegate")).unwrap();
                run(other, &decide()).unwrap();
                let ended = run(other, &ContinueRun).unwrap();
                assert_eq!(ended.state().text(), "done");
            },
            true,
        ),
        ("a rewind", rewind, false),
        (
            "a rewind, and as many changes as before",
            |other, store| {
                let before = stored(store, "a").unwrap().header().length;
                block_on(other.rewind(&id("a"), 1)).unwrap();
                while stored(store, "a").unwrap().header().length < before {
                    run(other, &WriteMetadata::one("k", 1)).unwrap();
                }
            },
            false,
        ),
    ];
    for (name, meanwhile, kept) in cases {
        let (store, cache) = (MemoryStore::new(), SessionCache::new(CacheLimits::default()));
        let (own, other) = (process(&store, &cache), process(&store, &SessionCache::default()));
        block_on(own.create(session("a"))).unwrap();
        run(&own, &SendMessage::text("1?")).unwrap();
        let before = run(&own, &SendMessage::text("2?")).unwrap();
        meanwhile(&other, &store);
        let expected = stored(&store, "a").unwrap();
        let read = block_on(cache.load(&store, &id("a"))).unwrap();
        assert_eq!((&read, is_kept(&read, &before)), (&expected, kept), "{name}");
        let after = run(&own, &look()).unwrap();
        assert_eq!((after.state(), is_kept(&after, &before)), (expected.state(), kept), "{name}");
        assert_eq!(after, stored(&store, "a").unwrap(), "{name}");
        // What was loaded is kept as soon as its branch has a change of its own.
        let written = run(&own, &WriteMetadata::one("k", 2)).unwrap();
        let again = run(&own, &look()).unwrap();
        assert!(is_kept(&again, &written), "{name}");
    }
}

#[test]
fn a_deleted_session_is_not_found_although_it_was_kept() {
    let (store, cache) = (MemoryStore::new(), SessionCache::new(CacheLimits::default()));
    let own = process(&store, &cache);
    block_on(own.create(session("a"))).unwrap();
    run(&own, &SendMessage::text("1?")).unwrap();
    assert_eq!(cache.len(), 1);
    block_on(process(&store, &SessionCache::default()).delete(&id("a"))).unwrap();
    let gone = run(&own, &look()).unwrap_err();
    assert!(matches!(gone, SessionError::Store(StoreError::NotFound(_))), "{gone:?}");
    let gone = block_on(cache.load(&store, &id("a"))).unwrap_err();
    assert!(matches!(gone, SessionError::Store(StoreError::NotFound(_))), "{gone:?}");
    assert!(cache.is_empty());
}

#[test]
fn what_an_action_left_unsaved_is_not_kept() {
    let (store, cache) = (MemoryStore::new(), SessionCache::new(CacheLimits::default()));
    let own = process(&store, &cache);
    block_on(own.create(session("a"))).unwrap();
    run(&own, &SendMessage::text("1?")).unwrap();
    let fails = action_fn("fails", |session: AgentSession| async move {
        let _lost = session.state().clone().with_user_message("lost");
        Err(SessionError::Action("no".into()))
    });
    assert!(run(&own, &fails).is_err());
    let before = stored(&store, "a").unwrap();
    assert_eq!(run(&own, &look()).unwrap().state(), before.state());
}

#[test]
fn the_sessions_that_were_used_last_are_kept_within_both_limits() {
    let store = MemoryStore::new();
    let fill = |limits| {
        let cache = SessionCache::new(limits);
        let runtime = process(&store, &cache);
        for name in ["a", "b", "c", "a"] {
            block_on(runtime.open_or_create(session(name))).unwrap();
            block_on(runtime.execute(&id(name), &SendMessage::text("1?"))).unwrap();
        }
        cache
    };
    let all = fill(CacheLimits::default());
    let limits = CacheLimits { sessions: 2, ..CacheLimits::default() };
    let two = fill(limits);
    let none = fill(CacheLimits { sessions: 0, ..limits });
    let small = fill(CacheLimits { bytes: 10, ..CacheLimits::default() });
    assert_eq!([&all, &two, &none, &small].map(SessionCache::len), [3, 2, 0, 0]);
    let of_one = two.bytes() / 2;
    assert!(of_one > 100 && none.bytes() == 0 && small.bytes() == 0, "{all:?} {two:?}");
    let some = fill(CacheLimits { bytes: all.bytes() - 1, ..CacheLimits::default() });
    assert!(some.len() < 3 && some.bytes() < all.bytes(), "{some:?}");
}

/// What one of two processes does with the session.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Say,
    Pay,
    Delegate,
    Decide,
    Continue,
    Look,
    Title,
    Rewind(u64),
    Clear,
    Fork,
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        3 => Just(Deed::Say),
        2 => Just(Deed::Pay),
        2 => Just(Deed::Delegate),
        3 => Just(Deed::Decide),
        2 => Just(Deed::Continue),
        2 => Just(Deed::Look),
        1 => Just(Deed::Title),
        2 => (0..4_u64).prop_map(Deed::Rewind),
        1 => Just(Deed::Clear),
        1 => Just(Deed::Fork),
    ]
}

impl Deed {
    fn perform(self, by: &SessionRuntime) -> Result<AgentSession, SessionError> {
        match self {
            Self::Say => run(by, &SendMessage::text("more")),
            Self::Pay => run(by, &SendMessage::text("pay")),
            Self::Delegate => run(by, &SendMessage::text("delegate")),
            Self::Decide => run(by, &decide()),
            Self::Continue => run(by, &ContinueRun),
            Self::Look => run(by, &look()),
            Self::Title => run(
                by,
                &action_fn(
                    "title",
                    |it: AgentSession| async move { Ok(it.with_title("about this")) },
                ),
            ),
            Self::Rewind(step) => block_on(by.rewind(&id("a"), step)),
            Self::Clear => run(by, &ClearSession),
            Self::Fork => run(by, &ForkSession::new()),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn two_processes_that_keep_a_session_see_it_as_the_store_has_it(
        deeds in prop::collection::vec((deed(), 0..2_usize), 1..24),
    ) {
        let (store, plain) = (MemoryStore::new(), MemoryStore::new());
        let caches = [(); 2].map(|()| SessionCache::new(CacheLimits::default()));
        let keeping = [process(&store, &caches[0]), process(&store, &caches[1])];
        let loading = SessionRuntime::new(Arc::new(plain.clone()), Same(agent()))
            .with_env(FrozenClock::new().env(0));
        for (store, by) in [(&store, &keeping[0]), (&plain, &loading)] {
            block_on(by.create(session("a"))).unwrap();
            prop_assert!(block_on(store.header(&id("a"))).unwrap().is_some());
        }
        for (deed, by) in deeds {
            let (kept, loaded) = (deed.perform(&keeping[by]), deed.perform(&loading));
            prop_assert_eq!(kept.is_ok(), loaded.is_ok(), "{:?}", deed);
            let (now, expected) = (stored(&store, "a").unwrap(), stored(&plain, "a").unwrap());
            // The IDs of executions depend on the process that starts them.
            prop_assert_eq!(now.header(), expected.header(), "{:?}", deed);
            for cache in &caches {
                let read = block_on(cache.load(&store, &id("a"))).unwrap();
                prop_assert_eq!(&read, &now, "{:?}", deed);
            }
        }
    }
}
