//! What the samples of older tables hold.

use loopwright_sessions::{
    ControlMessage, LeaseRequest, SessionLog, SessionQuery, SessionRelation, SessionStatus,
    SessionStore, StoreError,
};
use std::{sync::Arc, time::Duration};

use crate::support::{id, moment, said, texts};

/// Shows that all of a sample is there and that what is new works with it.
pub(crate) async fn is_whole(store: &dyn SessionStore) {
    assert_eq!(said(store, "a").await, ["one", "anew"]);
    assert_eq!(said(store, "b").await, ["one", "two", "other"]);
    assert_eq!(texts(store, "gone").await.unwrap(), None);
    let gone = store.header(&id("gone")).await.unwrap().unwrap();
    assert_eq!((gone.status, gone.version), (SessionStatus::Deleted, 2));
    let a = store.header(&id("a")).await.unwrap().unwrap();
    let told = (a.version, a.branch, a.length, a.title.as_deref(), a.workdir.as_deref());
    assert_eq!(told, (5, 1, 2, Some("about"), Some("/work")));
    let query =
        SessionQuery { kinship: SessionRelation::ChildOf(id("a")), ..SessionQuery::first(9) };
    let children = store.list(&query).await.unwrap();
    assert_eq!(children.sessions.iter().map(|it| it.id.clone()).collect::<Vec<_>>(), [id("b")]);
    // A user has the lease.
    let claim =
        LeaseRequest { owner: "you", replaces: None, now: moment(5), ttl: Duration::from_secs(9) };
    let busy = store.lease(&id("a"), claim).await;
    assert!(matches!(busy, Err(StoreError::Busy { .. })), "{busy:?}");
    let note: Arc<[u8]> = b"noted".as_slice().into();
    let number = store.append_log(&id("a"), SessionLog::Files, &[note], Some(1)).await.unwrap();
    assert_eq!(store.read_log(&id("a"), SessionLog::Files, number - 1, 9).await.unwrap().len(), 1);
    assert_eq!(store.check(false).await.unwrap(), []);
}

/// Shows that control messages are still delivered.
pub(crate) async fn is_delivered(store: &dyn SessionStore) {
    let claim = LeaseRequest {
        owner: "you",
        replaces: Some("me"),
        now: moment(5),
        ttl: Duration::from_secs(9),
    };
    let lease = store.lease(&id("a"), claim).await.unwrap();
    let posted = store.take_control(&lease).await.unwrap();
    let control_messages: Vec<_> = posted.into_iter().map(|it| it.control).collect();
    assert_eq!((lease.number, control_messages), (2, vec![ControlMessage::Stop]));
}
