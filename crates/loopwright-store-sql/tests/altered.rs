//! What is known of a session beside its changes, altered in the database, is named and refuses no other session.

use loopwright_sessions::{
    SessionHeader, SessionQuery, SessionStatus, SessionStore, StoreError, conformance,
};
use loopwright_store_sql::{PostgresStore, SqliteStore};

use crate::{
    server::Server,
    sqlite::{open, place, script},
    support::{create, id, moment, said, say},
};

/// Each column that a checksum covers, with another value than a session of these tests has.
const ALTERED: [&str; 14] = [
    "id = 'bb'",
    "status = 'completed'",
    "version = 9",
    "branch = 1",
    "length = 2",
    "parent = 'a'",
    "call = 'x/1/0'",
    "workdir = '/elsewhere'",
    "agent_name = 'agenu'",
    "agent_label = 'agenu'",
    "title = 'about that'",
    "created_at = 7",
    "updated_at = 7",
    "missing = 'everything'",
];

/// Writes the sessions `a` to `c`, in each of which three things were said.
async fn fill(store: &dyn SessionStore) {
    for name in ["a", "b", "c"] {
        create(store, name).await;
        for (number, text) in (0..).zip(["one", "two", "three"]) {
            say(store, name, number, text).await.unwrap();
        }
    }
}

async fn listed(store: &dyn SessionStore) -> (Vec<String>, Vec<String>) {
    let page = store.list(&SessionQuery::first(9)).await.unwrap();
    let mut names: Vec<_> = page.sessions.iter().map(|it| it.id.to_string()).collect();
    names.sort();
    (names, page.unreadable.iter().map(ToString::to_string).collect())
}

/// Shows that an altered session is named until it is repaired, and keeps all that was said.
async fn is_named(store: &dyn SessionStore, altered: &str) {
    let name = if altered.starts_with("id") { "bb" } else { "b" };
    let others = ["a".to_owned(), "c".to_owned()];
    assert_eq!(listed(store).await, (others.to_vec(), vec![name.to_owned()]), "{altered}");
    for refused in [
        store.header(&id(name)).await.unwrap_err(),
        store.load(&id(name)).await.unwrap_err(),
        say(store, name, 3, "four").await.unwrap_err(),
    ] {
        let StoreError::Corrupt { reason, .. } = refused else { panic!("{altered}: {refused:?}") };
        assert_eq!(reason, "the session's metadata was altered", "{altered}");
    }
    say(store, "a", 3, "four").await.unwrap();
    let found = store.check(false).await.unwrap();
    let named: Vec<_> = found.iter().filter_map(|it| it.session.clone()).collect();
    assert_eq!(named, [id(name)], "{altered}: {found:?}");
    let repaired = store.check(true).await.unwrap();
    let repaired: Vec<_> = repaired.iter().map(|it| it.repaired.as_deref()).collect();
    let suspended = "the session is suspended; check its title, directory and steps";
    assert_eq!(repaired, [Some(suspended)], "{altered}");
    assert_eq!(store.check(true).await.unwrap(), [], "{altered}");
    let header = store.header(&id(name)).await.unwrap().unwrap();
    assert_eq!(header.status, SessionStatus::Suspended, "{altered}");
    assert_eq!(said(store, name).await, ["one", "two", "three"], "{altered}");
    assert_eq!(said(store, "c").await, ["one", "two", "three"], "{altered}");
}

#[tokio::test]
async fn an_altered_column_of_a_session_in_sqlite_is_named_and_refuses_no_other_session() {
    for altered in ALTERED {
        let (_folder, path) = place();
        let store = open(&path).await;
        fill(&store).await;
        script(&path, &format!("UPDATE sessions SET {altered} WHERE id = 'b'")).await;
        is_named(&store, altered).await;
    }
}

#[tokio::test]
async fn an_altered_column_of_a_session_in_postgres_is_named_and_refuses_no_other_session() {
    let (server, address) = (Server::shared(), Server::shared().database().await);
    for altered in ALTERED {
        let store = PostgresStore::connect(&address).await.unwrap();
        fill(&store).await;
        let altered_row = format!("UPDATE loopwright.sessions SET {altered} WHERE id = 'b'");
        server.script(&address, &altered_row).await;
        is_named(&store, altered).await;
        store.close().await;
        server.script(&address, "DROP SCHEMA loopwright CASCADE").await;
    }
}

#[tokio::test]
async fn a_deleted_session_whose_row_was_altered_is_named() {
    let (_folder, path) = place();
    let store = open(&path).await;
    fill(&store).await;
    store.delete(&id("b"), moment(2)).await.unwrap();
    store.reclaim(false).await.unwrap();
    script(&path, "UPDATE sessions SET title = 'x' WHERE id = 'b'").await;
    let found = store.check(false).await.unwrap();
    assert_eq!(found.iter().map(|it| it.session.clone()).collect::<Vec<_>>(), [Some(id("b"))]);
    let repaired = store.check(true).await.unwrap();
    let told = repaired[0].repaired.as_deref();
    assert_eq!(told, Some("the session stays deleted, because none of its other data exists"));
    assert_eq!(store.check(true).await.unwrap(), []);
    let header = store.header(&id("b")).await.unwrap().unwrap();
    assert_eq!(header.status, SessionStatus::Deleted);
}

#[tokio::test]
async fn a_session_that_was_altered_to_be_deleted_is_named_and_comes_back() {
    let (_folder, path) = place();
    let store = open(&path).await;
    fill(&store).await;
    script(&path, "UPDATE sessions SET status = 'deleted' WHERE id = 'b'").await;
    let found = store.check(true).await.unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(store.check(true).await.unwrap(), []);
    let header: SessionHeader = store.header(&id("b")).await.unwrap().unwrap();
    assert_eq!(header.status, SessionStatus::Suspended);
    assert_eq!(said(&store, "b").await, ["one", "two", "three"]);
}

#[tokio::test]
async fn a_row_of_an_earlier_version_gets_its_checksum_when_it_is_written() {
    let (_folder, path) = place();
    let store = open(&path).await;
    fill(&store).await;
    script(&path, "UPDATE sessions SET sum = NULL, title = 'of then' WHERE id = 'b'").await;
    assert_eq!(store.check(false).await.unwrap(), []);
    say(&store, "b", 3, "four").await.unwrap();
    let header = store.header(&id("b")).await.unwrap().unwrap();
    assert_eq!(header.title.as_deref(), Some("of then"));
    script(&path, "UPDATE sessions SET title = 'altered' WHERE id = 'b'").await;
    assert_eq!(store.check(false).await.unwrap().len(), 1);
}

/// Every way to write a row leaves its checksum right: each fact of the contract reads what it wrote. None of them
/// leaves a row without one.
#[tokio::test]
async fn no_write_leaves_a_row_without_its_checksum() {
    for fact in conformance::CASES {
        let (_folder, path) = place();
        let store = SqliteStore::open(&path).await.unwrap();
        (fact.check)(&store).await;
        store.close().await;
        let none = "CREATE TEMP TABLE bare (id TEXT CHECK (id IS NULL));
            INSERT INTO bare SELECT id FROM sessions WHERE sum IS NULL";
        script(&path, none).await;
    }
}
