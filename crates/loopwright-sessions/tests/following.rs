//! What agents do, kept and followed.

use std::{pin::pin, sync::Arc, time::Duration};

use loopwright_broadcast::{BroadcastConfig, BroadcastEnvelope};
use loopwright_core::Timestamp;
use loopwright_sessions::{
    EventFollower, FollowEvent, MemoryStore, SendMessage, SessionRuntime, SessionStore as _,
    StoreError,
};
use loopwright_testing::{FrozenClock, ScenarioStep, poll_times};

use crate::support::{answering, id, runtime, session};

const WAIT: Duration = Duration::from_secs(1);

async fn begun(store: &MemoryStore) -> SessionRuntime {
    let steps = [ScenarioStep::tool("Let me see."), "It is there.".into(), "Bye.".into()];
    let (runtime, _) = runtime(store, &answering(steps).0);
    let runtime = runtime.with_event_log(BroadcastConfig::minimal());
    runtime.create(session("a")).await.unwrap();
    runtime
}

async fn follow(store: &MemoryStore, after: u64) -> EventFollower {
    let clock = Arc::new(FrozenClock::new());
    EventFollower::of(Arc::new(store.clone()), clock, id("a"), after).await.unwrap()
}

/// Returns what is told until the end, as numbers and types.
async fn rest(following: &mut EventFollower) -> Vec<(u64, String)> {
    let mut told = Vec::new();
    loop {
        match following.next(WAIT).await.unwrap() {
            FollowEvent::Entry(note) => {
                let envelope: BroadcastEnvelope = serde_json::from_slice(&note.body).unwrap();
                assert_eq!(envelope.session_id, "a");
                told.push((note.number, envelope.kind));
            }
            FollowEvent::Ended => return told,
            FollowEvent::Timeout => panic!("nothing comes"),
        }
    }
}

#[tokio::test]
async fn events_are_kept_and_can_be_followed_from_any_position() {
    let store = MemoryStore::default();
    let runtime = begun(&store).await;
    runtime.execute(&id("a"), &SendMessage::text("Is it there?")).await.unwrap();
    let all = rest(&mut follow(&store, 0).await).await;
    let kinds: Vec<&str> = all.iter().map(|(_, kind)| &**kind).collect();
    assert_eq!(
        kinds,
        [
            "agent.status",
            "agent.step.started",
            "agent.tool.started",
            "agent.tool.completed",
            "agent.step.completed",
            "agent.step.started",
            "agent.step.completed",
            "agent.status",
        ]
    );
    for after in 0..=all.len() {
        assert_eq!(rest(&mut follow(&store, after as u64).await).await, all[after..]);
    }
}

#[tokio::test]
async fn a_second_turn_is_told_after_the_first() {
    let store = MemoryStore::default();
    let runtime = begun(&store).await;
    runtime.execute(&id("a"), &SendMessage::text("Is it there?")).await.unwrap();
    let mut following = follow(&store, 0).await;
    let first = rest(&mut following).await;
    runtime.execute(&id("a"), &SendMessage::text("Bye")).await.unwrap();
    let second = rest(&mut following).await;
    assert_eq!((first.len(), second.len()), (8, 4));
    assert_eq!(rest(&mut follow(&store, 0).await).await.len(), 12);
}

#[tokio::test]
async fn following_waits_for_the_first_event_and_an_unknown_session_is_an_error() {
    let store = MemoryStore::default();
    let runtime = begun(&store).await;
    let mut following = follow(&store, 0).await;
    assert_eq!(following.next(WAIT).await.unwrap(), FollowEvent::Timeout);
    runtime.execute(&id("a"), &SendMessage::text("Is it there?")).await.unwrap();
    assert_eq!(rest(&mut following).await.len(), 8);
    store.delete(&id("a"), Timestamp::from_millis(1)).await.unwrap();
    for name in ["a", "b"] {
        let clock = Arc::new(FrozenClock::new());
        let followed = EventFollower::of(Arc::new(store.clone()), clock, id(name), 0).await;
        assert!(matches!(followed, Err(StoreError::NotFound(_))));
    }
}

#[tokio::test]
async fn a_follower_of_a_session_that_is_deleted_meanwhile_ends() {
    let store = MemoryStore::default();
    begun(&store).await;
    let clock = Arc::new(FrozenClock::manual());
    let mut following =
        EventFollower::of(Arc::new(store.clone()), clock, id("a"), 0).await.unwrap();
    let mut next = pin!(following.next(WAIT));
    assert!(poll_times(next.as_mut(), 9).is_none());
    store.delete(&id("a"), Timestamp::from_millis(1)).await.unwrap();
    assert!(matches!(next.await, Err(StoreError::NotFound(_))));
}
