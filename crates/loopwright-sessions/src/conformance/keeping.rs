//! What holds of logs beside sessions, and of keeping a store in order.

use std::{sync::Arc, time::Duration};

use loopwright_core::SystemClock;

use super::{append, claim, create, definition, fork, header, id, load, moment, texts};
use crate::{
    header::{SessionHeader, SessionQuery, SessionRelation},
    status::SessionStatus,
    store::{
        AppendRequest, ChangeBatch, LogEntry, NewSession, ReclaimStats, SessionLog, SessionStore,
        StoreError,
    },
};

pub(super) fn bodies(texts: &[&str]) -> Vec<Arc<[u8]>> {
    texts.iter().map(|text| text.as_bytes().into()).collect()
}

fn note(number: u64, text: &str) -> LogEntry {
    LogEntry { number, body: text.as_bytes().into() }
}

pub(super) async fn notes_are_numbered_and_read_from_any_place(store: &dyn SessionStore) {
    let before = create(store, &header("a"), &[]).await;
    let a = id("a");
    assert_eq!(
        store.append_log(&a, SessionLog::Events, &bodies(&["1", "2"]), None).await.unwrap(),
        2
    );
    assert_eq!(store.append_log(&a, SessionLog::Events, &bodies(&["3"]), None).await.unwrap(), 3);
    assert_eq!(store.append_log(&a, SessionLog::Files, &bodies(&["\0\n"]), None).await.unwrap(), 1);
    let all = [note(1, "1"), note(2, "2"), note(3, "3")];
    assert_eq!(store.read_log(&a, SessionLog::Events, 0, 9).await.unwrap(), all);
    assert_eq!(store.read_log(&a, SessionLog::Events, 1, 1).await.unwrap(), all[1..2]);
    assert_eq!(store.read_log(&a, SessionLog::Events, 3, 9).await.unwrap(), []);
    assert_eq!(store.read_log(&a, SessionLog::Files, 0, 9).await.unwrap(), [note(1, "\0\n")]);
    // What is noted is no change.
    assert_eq!(store.header(&a).await.unwrap(), Some(before));
}

pub(super) async fn old_notes_may_be_forgotten(store: &dyn SessionStore) {
    create(store, &header("a"), &[]).await;
    let a = id("a");
    for text in ["1", "2", "3", "4"] {
        store.append_log(&a, SessionLog::Events, &bodies(&[text]), Some(2)).await.unwrap();
    }
    let kept = store.read_log(&a, SessionLog::Events, 0, 9).await.unwrap();
    assert!(kept.ends_with(&[note(3, "3"), note(4, "4")]), "{kept:?}");
    assert_eq!(
        store.append_log(&a, SessionLog::Events, &bodies(&["5"]), Some(2)).await.unwrap(),
        5
    );
}

pub(super) async fn notes_of_what_is_not_there_are_refused(store: &dyn SessionStore) {
    let missing = store.append_log(&id("a"), SessionLog::Events, &bodies(&["1"]), None).await;
    assert!(matches!(missing, Err(StoreError::NotFound(_))), "{missing:?}");
    assert_eq!(store.read_log(&id("a"), SessionLog::Events, 0, 9).await.unwrap(), []);
}

pub(super) async fn waiting_for_notes_ends_when_there_are_some(store: &dyn SessionStore) {
    create(store, &header("a"), &[]).await;
    let (a, clock) = (id("a"), SystemClock::default());
    store.append_log(&a, SessionLog::Events, &bodies(&["1"]), None).await.unwrap();
    store.wait(&a, SessionLog::Events, 0, &clock, Duration::from_hours(1)).await.unwrap();
    store.wait(&a, SessionLog::Events, 1, &clock, Duration::ZERO).await.unwrap();
}

pub(super) async fn what_was_deleted_is_reclaimed_but_for_what_forks_need(
    store: &dyn SessionStore,
) {
    create(store, &header("a"), &["one", "two"]).await;
    create(store, &header("c"), &["three"]).await;
    fork(store, "a", "b", 1).await;
    for name in ["a", "c"] {
        store.delete(&id(name), moment(1)).await.unwrap();
    }
    assert_eq!(store.reclaim(false).await.unwrap(), ReclaimStats { sessions: 1, batches: 1 });
    assert_eq!(texts(store, "b").await, ["one"]);
    store.delete(&id("b"), moment(2)).await.unwrap();
    assert_eq!(store.reclaim(false).await.unwrap(), ReclaimStats { sessions: 2, batches: 1 });
    assert_eq!(store.reclaim(false).await.unwrap(), ReclaimStats::default());
    // The names stay taken.
    let (header, definition) = (header("a"), definition());
    let again = NewSession { header: &header, definition: &definition, changes: &[] };
    assert!(matches!(store.create(again).await, Err(StoreError::Exists(_))));
}

pub(super) async fn what_a_rewind_left_is_reclaimed_only_if_it_is_said(store: &dyn SessionStore) {
    create(store, &header("a"), &["one"]).await;
    append(store, "a", 1, 1, &["two"]).await.unwrap();
    store.rewind(&id("a"), 2, 1, None, moment(2)).await.unwrap();
    append(store, "a", 3, 1, &["three"]).await.unwrap();
    store.rewind(&id("a"), 4, 1, None, moment(3)).await.unwrap();
    append(store, "a", 5, 1, &["four"]).await.unwrap();
    assert_eq!(store.reclaim(false).await.unwrap(), ReclaimStats::default());
    assert_eq!(store.reclaim(true).await.unwrap(), ReclaimStats { sessions: 0, batches: 2 });
    assert_eq!(texts(store, "a").await, ["one", "four"]);
}

pub(super) async fn a_store_in_order_has_no_findings(store: &dyn SessionStore) {
    create(store, &header("a"), &["one"]).await;
    fork(store, "a", "b", 1).await;
    store.delete(&id("a"), moment(1)).await.unwrap();
    assert_eq!(store.check(true).await.unwrap(), []);
    assert_eq!(texts(store, "b").await, ["one"]);
}

/// Returns the sessions of a query.
async fn listed(store: &dyn SessionStore, query: &SessionQuery) -> Vec<String> {
    let page = store.list(query).await.unwrap();
    page.sessions.iter().map(|it| it.id.to_string()).collect()
}

pub(super) async fn a_write_may_change_where_a_session_works_and_for_whom(
    store: &dyn SessionStore,
) {
    let before = SessionHeader { workdir: Some("/old".into()), ..header("a") };
    create(store, &before, &["one"]).await;
    create(store, &header("p"), &[]).await;
    append(store, "a", 1, 1, &["two"]).await.unwrap();
    let (id, workdir, parent) = (id("a"), "/new".into(), id("p"));
    let batch = ChangeBatch { first: 2, changes: &[] };
    let (workdir, parent) = (Some(&workdir), Some(&parent));
    let write = AppendRequest { workdir, parent, ..AppendRequest::new(&id, 2, batch, moment(2)) };
    assert_eq!(store.append(write).await.unwrap(), 3);
    append(store, "a", 3, 2, &["three"]).await.unwrap();
    let found = store.header(&id).await.unwrap().unwrap();
    let told = (found.workdir.as_deref(), found.parent.as_ref(), found.version);
    assert_eq!(told, (Some("/new"), parent, 4));
    let all = SessionQuery::first(9);
    assert_eq!(listed(store, &all).await.len(), 2);
    let works_in = |it: &str| SessionQuery { workdir: Some(it.into()), ..all.clone() };
    assert_eq!(listed(store, &works_in("/new")).await, ["a"]);
    assert_eq!(listed(store, &works_in("/old")).await, [""; 0]);
    let kinship = SessionRelation::ChildOf(found.parent.clone().unwrap());
    assert_eq!(listed(store, &SessionQuery { kinship, ..all }).await, ["a"]);
    assert_eq!(load(store, "a").await.header, found);
    assert_eq!(store.check(false).await.unwrap(), []);
}

pub(super) async fn sessions_that_nobody_used_are_deleted_at_once(store: &dyn SessionStore) {
    for name in ["a", "b", "c", "d"] {
        create(store, &header(name), &["1"]).await;
    }
    append(store, "b", 1, 1, &["2"]).await.unwrap();
    let written = store.header(&id("b")).await.unwrap().unwrap().updated_at;
    let now = written.plus(Duration::from_secs(9));
    store.lease(&id("c"), claim("somebody", now)).await.unwrap();
    let ids = ["a", "b", "c", "x"].map(id);
    let created = header("a").updated_at;
    assert_eq!(store.delete_unused(&ids, created, now).await.unwrap(), []);
    let deleted = store.delete_unused(&ids, written, now).await.unwrap();
    assert_eq!(deleted, [id("a")]);
    let later = now.plus(Duration::from_secs(1));
    assert_eq!(store.delete_unused(&ids, later, now).await.unwrap(), [id("b")]);
    for (name, status) in [("a", SessionStatus::Deleted), ("c", SessionStatus::Active)] {
        let header = store.header(&id(name)).await.unwrap().unwrap();
        assert_eq!(header.status, status, "{name}");
    }
    assert_eq!(store.load(&id("b")).await.unwrap(), None);
    assert_eq!(texts(store, "d").await, ["1"]);
}

pub(super) async fn names_are_found_by_their_beginning(store: &dyn SessionStore) {
    for name in ["ab", "aB", "abc", "b_x", "bax", "b-x"] {
        create(store, &header(name), &[]).await;
    }
    store.delete(&id("abc"), moment(1)).await.unwrap();
    assert_eq!(store.named("ab", 9).await.unwrap(), [id("ab")]);
    assert_eq!(store.named("a", 9).await.unwrap(), [id("aB"), id("ab")]);
    assert_eq!(store.named("a", 1).await.unwrap(), [id("aB")]);
    // What means something to a database is a character like any other.
    assert_eq!(store.named("b_", 9).await.unwrap(), [id("b_x")]);
    assert_eq!(store.named("b", 9).await.unwrap(), [id("b-x"), id("b_x"), id("bax")]);
    assert_eq!(store.named("x", 9).await.unwrap(), []);
}

/// Checks that a store reads the changes from each number on as they are, or not alone.
async fn reads_the_end(store: &dyn SessionStore, name: &str, branch: u32) {
    let loaded = load(store, name).await;
    for first in 0..=loaded.header.length {
        if let Some((header, changes)) = store.load_from(&id(name), branch, first).await.unwrap() {
            let rest = &loaded.changes[usize::try_from(first).unwrap()..];
            assert_eq!((&header, &changes[..]), (&loaded.header, rest), "{name} from {first}");
        }
    }
    let beyond = loaded.header.length + 1;
    for (branch, first) in [(branch, beyond), (branch + 1, 0)] {
        assert_eq!(store.load_from(&id(name), branch, first).await.unwrap(), None);
    }
}

pub(super) async fn what_is_new_is_read_alone_only_on_the_current_branch(store: &dyn SessionStore) {
    create(store, &header("a"), &["one", "two"]).await;
    append(store, "a", 1, 2, &["three"]).await.unwrap();
    append(store, "a", 2, 3, &["four", "five"]).await.unwrap();
    reads_the_end(store, "a", 0).await;
    fork(store, "a", "b", 4).await;
    reads_the_end(store, "b", 0).await;
    append(store, "b", 1, 4, &["other"]).await.unwrap();
    reads_the_end(store, "b", 0).await;
    store.rewind(&id("a"), 3, 4, None, moment(2)).await.unwrap();
    assert_eq!(store.load_from(&id("a"), 0, 3).await.unwrap(), None);
    reads_the_end(store, "a", 1).await;
    append(store, "a", 4, 4, &["six"]).await.unwrap();
    assert_eq!(store.load_from(&id("a"), 0, 3).await.unwrap(), None);
    reads_the_end(store, "a", 1).await;
    store.delete(&id("a"), moment(3)).await.unwrap();
    assert_eq!(store.load_from(&id("a"), 1, 4).await.unwrap(), None);
    assert_eq!(store.load_from(&id("x"), 0, 0).await.unwrap(), None);
}
