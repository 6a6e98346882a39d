//! The stores of this crate do what every store must.

use std::time::Duration;

use futures::executor::block_on;
use loopwright_agent::AgentDefinition;
use loopwright_core::Timestamp;
use loopwright_sessions::{
    FileStore, JobOutcome, JobStatus, LeaseRequest, MemoryStore, NewSession, SessionHeader,
    SessionList, SessionLog, SessionQuery, SessionStatus, SessionStore, StoreError, conformance,
};

use crate::support::{id, session};

#[test]
fn a_store_in_memory_does_what_every_store_must() {
    for fact in conformance::CASES {
        println!("{}", fact.name);
        block_on((fact.check)(&MemoryStore::new()));
    }
}

#[test]
fn a_store_in_memory_wakes_its_readers() {
    for fact in conformance::WAKE_CASES {
        println!("{}", fact.name);
        block_on((fact.check)(&MemoryStore::new()));
    }
}

/// Shows that leases last by the clock of the process that takes them.
fn lasts_by_the_clock_of_the_caller(store: &dyn SessionStore) {
    let (header, definition) = (session("a").header().clone(), AgentDefinition::default());
    let new = NewSession { header: &header, definition: &definition, changes: &[] };
    block_on(store.create(new)).unwrap();
    let at = |seconds: u64| Timestamp::from_millis(seconds * 1_000);
    let lasts = Duration::from_secs(30);
    let claim =
        |seconds| LeaseRequest { owner: "me", replaces: None, now: at(seconds), ttl: lasts };
    let lease = block_on(store.lease(&id("a"), claim(1))).unwrap();
    assert_eq!(lease.until, at(31));
    assert_eq!(block_on(store.renew(&lease, at(20), lasts)).unwrap().until, at(50));
    assert!(matches!(block_on(store.lease(&id("a"), claim(49))), Err(StoreError::Busy { .. })));
    assert_eq!(block_on(store.lease(&id("a"), claim(50))).unwrap().until, at(80));
}

#[test]
fn a_lease_of_a_store_of_one_machine_lasts_by_the_clock_of_the_caller() {
    lasts_by_the_clock_of_the_caller(&MemoryStore::new());
    let folder = tempfile::tempdir().unwrap();
    lasts_by_the_clock_of_the_caller(&FileStore::open(folder.path()).unwrap());
}

/// Shows that no more than twice as many notes are kept as was said.
fn forgets_old_notes(store: &dyn SessionStore) {
    let (header, definition) = (session("a").header().clone(), AgentDefinition::default());
    let new = NewSession { header: &header, definition: &definition, changes: &[] };
    block_on(store.create(new)).unwrap();
    for _ in 0..20 {
        block_on(store.append_log(&id("a"), SessionLog::Events, &[b"note"[..].into()], Some(3)))
            .unwrap();
    }
    let notes = block_on(store.read_log(&id("a"), SessionLog::Events, 0, 100)).unwrap();
    let numbers: Vec<u64> = notes.iter().map(|it| it.number).collect();
    assert!((3..=6).contains(&numbers.len()), "{numbers:?}");
    assert_eq!(numbers.last(), Some(&20));
}

#[test]
fn old_notes_are_forgotten() {
    forgets_old_notes(&MemoryStore::new());
    let folder = tempfile::tempdir().unwrap();
    forgets_old_notes(&FileStore::open(folder.path()).unwrap());
}

#[test]
fn a_job_says_in_its_own_words_what_became_of_it() {
    let words: Vec<_> = JobStatus::ALL.into_iter().map(|it| (it.as_str(), Some(it))).collect();
    let expect = ["queued", "running", "completed", "needs_input", "stopped", "failed"];
    assert_eq!(words, expect.map(|word| (word, JobStatus::named(word))));
    let reasons = [
        (JobOutcome::Done, None),
        (JobOutcome::Released, None),
        (JobOutcome::NeedsInput("p".into()), Some("p")),
        (JobOutcome::Stopped("s".into()), Some("s")),
        (JobOutcome::Failed("f".into()), Some("f")),
    ];
    for (outcome, reason) in reasons {
        assert_eq!(outcome.reason(), reason, "{outcome:?}");
    }
}

#[test]
fn a_page_can_be_narrowed_by_status() {
    let header = session("a").header().clone();
    let suspended =
        SessionHeader { status: SessionStatus::Suspended, ..session("b").header().clone() };
    let page = SessionList::from_headers(&SessionQuery::first(9), [header, suspended]);
    let names = |status| {
        let page = page.clone().with_status(status);
        page.sessions.iter().map(|it| it.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(SessionStatus::Suspended), ["b"]);
    assert_eq!(names(session("a").header().status), ["a"]);
}
