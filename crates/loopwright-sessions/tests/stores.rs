//! The stores of this crate do what every store must.

use std::time::Duration;

use futures::executor::block_on;
use loopwright_agent::AgentDefinition;
use loopwright_core::Timestamp;
use loopwright_sessions::{
    Claim, FileStore, MemoryStore, NewSession, SessionStore, StoreError, conformance,
};

use crate::support::{id, session};

#[test]
fn a_store_in_memory_does_what_every_store_must() {
    for fact in conformance::FACTS {
        println!("{}", fact.name);
        block_on((fact.check)(&MemoryStore::new()));
    }
}

/// Shows that leases last by the clock of whoever takes them.
fn lasts_by_the_clock_of_the_caller(store: &dyn SessionStore) {
    let (header, definition) = (session("a").header().clone(), AgentDefinition::default());
    let new = NewSession { header: &header, definition: &definition, changes: &[] };
    block_on(store.create(new)).unwrap();
    let at = |seconds: u64| Timestamp::from_millis(seconds * 1_000);
    let lasts = Duration::from_secs(30);
    let claim = |seconds| Claim { owner: "me", instead_of: None, now: at(seconds), lasts };
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
