//! Many processes on one session at once.

use loopwright_core::AgentState;
use loopwright_sessions::{
    NewSession, SessionHeader, SessionId, SessionStatus, SessionStore, StoreError,
};
use loopwright_survival::{
    ledger::Entry,
    task::{Task, Work},
    worker::session,
};

use crate::{
    places::{Place, on_every_store},
    workers::{Notes, Worker},
};

/// How many processes write.
const WRITERS: usize = 16;

/// How many marks each of them leaves.
const MARKS: u64 = 10;

fn id() -> SessionId {
    SessionId::new("contended").unwrap()
}

async fn create(store: &dyn SessionStore) -> Result<SessionHeader, StoreError> {
    let session = session(&id());
    let (header, definition) = (session.header(), session.definition());
    store.create(NewSession { header, definition, changes: &[] }).await
}

/// Creates the session, and starts all writers.
fn begin(place: &Place, notes: &Notes, marks: u64) -> Vec<Worker> {
    place.with(async |store| create(store).await.unwrap());
    let start = |number: usize| {
        let work = Work::Race { by: format!("writer-{number}"), marks };
        let (url, session) = (place.url().to_owned(), id().to_string());
        notes.start(&Task { url, session, work, fault: None })
    };
    let mut writers: Vec<Worker> = (0..WRITERS).map(start).collect();
    writers.iter_mut().for_each(Worker::go);
    writers
}

/// Returns who wrote each version, in their order.
fn winners(notes: &Notes) -> Vec<(u64, String)> {
    let won = |entry: Entry| match entry {
        Entry::Won { by, version } => Some((version, by)),
        _ => None,
    };
    let mut winners: Vec<_> = notes.entries().into_iter().filter_map(won).collect();
    winners.sort();
    winners
}

fn writers_at_once(place: &Place) {
    let notes = Notes::new(place, "hammer");
    for writer in begin(place, &notes, MARKS) {
        assert!(writer.end().success(), "{:?}", notes.entries().last());
    }
    let winners = winners(&notes);
    // Each version has one winner, and no acknowledged mark is missing or in another place.
    let versions: Vec<u64> = winners.iter().map(|it| it.0).collect();
    assert_eq!(versions, (2..2 + WRITERS as u64 * MARKS).collect::<Vec<_>>());
    let state = AgentState::new().replay(place.stored("contended")).unwrap();
    let said = state.transcript().iter().map(|turn| turn.message().text());
    let by: Vec<_> = said.map(|it| it.split(' ').next().unwrap_or_default().to_owned()).collect();
    assert_eq!(by, winners.into_iter().map(|it| it.1).collect::<Vec<_>>());
}

on_every_store!(writers_at_once:
    sixteen_processes_write_files_and_each_version_has_one_winner,
    sixteen_processes_write_sqlite_and_each_version_has_one_winner,
    sixteen_processes_write_postgres_and_each_version_has_one_winner);

fn deleted_in_between(place: &Place) {
    let notes = Notes::new(place, "delete");
    let writers = begin(place, &notes, u64::MAX);
    notes.wait_for(|entries| entries.len() > 40);
    let deleted = place.with(async |store| {
        let before = store.header(&id()).await.unwrap().unwrap();
        store.delete(&id(), before.updated_at).await.unwrap();
        store.header(&id()).await.unwrap().unwrap()
    });
    assert_eq!(deleted.status, SessionStatus::Deleted);
    for writer in writers {
        assert!(writer.end().success(), "{:?}", notes.entries().last());
    }
    let entries = notes.entries();
    let gone = entries.iter().filter(|it| matches!(it, Entry::Gone { .. })).count();
    assert_eq!(gone, WRITERS);
    // Whoever won did so before the end, and nothing was written after it.
    let versions: Vec<u64> = winners(&notes).into_iter().map(|it| it.0).collect();
    assert_eq!(versions, (2..deleted.version).collect::<Vec<_>>());
    place.with(async |store| {
        assert_eq!(store.header(&id()).await.unwrap().unwrap(), deleted);
        assert_eq!(store.load(&id()).await.unwrap(), None);
        assert!(matches!(create(store).await, Err(StoreError::Exists(_))));
    });
}

on_every_store!(deleted_in_between:
    a_session_in_files_that_is_deleted_while_sixteen_write_stays_deleted,
    a_session_in_sqlite_that_is_deleted_while_sixteen_write_stays_deleted,
    a_session_in_postgres_that_is_deleted_while_sixteen_write_stays_deleted);
