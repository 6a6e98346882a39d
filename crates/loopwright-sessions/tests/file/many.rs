//! Many processes at one session.

use std::{
    env,
    path::Path,
    process::{self, Child, Command, Stdio},
};

use futures::executor::block_on;
use loopwright_sessions::{FileStore, SessionStatus, SessionStore as _, StoreError};

use super::world::{World, append, append_said, create, id, now, said_by};

/// Where a child finds the store, and what it does there.
const STORE: &str = "LOOPWRIGHT_TEST_STORE";
const PROCESSES: usize = 16;
const WRITES: usize = 12;

fn child(test: &str, store: &Path) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", &format!("file::many::{test}"), "--ignored", "--nocapture"])
        .env(STORE, store)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The store that a child is to use; `None` if another process runs its test.
fn store() -> Option<FileStore> {
    env::var_os(STORE).map(|it| FileStore::open(it).unwrap())
}

/// Runs children to their end, and returns the versions that they say they wrote.
fn versions(children: Vec<Child>) -> Vec<u64> {
    let mut versions = Vec::new();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let told = text.lines().filter_map(|it| it.strip_prefix("wrote "));
        versions.extend(told.map(|it| it.parse::<u64>().unwrap()));
    }
    versions.sort_unstable();
    versions
}

#[test]
#[ignore = "another test runs it in processes of its own"]
fn writer() {
    let Some(store) = store() else { return };
    let mut wrote = 0;
    while wrote < WRITES {
        let header = block_on(store.header(&id("a"))).unwrap().unwrap();
        let said = said_by(&process::id().to_string(), header.length, 1);
        match append_said(&store, "a", header.version, header.length, &said, now()) {
            Ok(version) => {
                // The harness may have begun the line.
                println!("\nwrote {version}");
                wrote += 1;
            }
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn each_version_is_written_by_one_process() {
    let world = World::new();
    create(&world.store, "a", 0);
    let children = (0..PROCESSES).map(|_| child("writer", &world.path())).collect();
    let last = 1 + (PROCESSES * WRITES) as u64;
    assert_eq!(versions(children), (2..=last).collect::<Vec<_>>());
    let loaded = world.load("a").unwrap().unwrap();
    assert_eq!((loaded.header.version, loaded.changes.len()), (last, PROCESSES * WRITES));
    assert_eq!(world.check(false), []);
}

#[test]
#[ignore = "another test runs it in processes of its own"]
fn writer_until_deleted() {
    let Some(store) = store() else { return };
    loop {
        let header = block_on(store.header(&id("a"))).unwrap().unwrap();
        match append(&store, "a", header.version, header.length, 1) {
            Ok(version) => println!("\nwrote {version}"),
            Err(StoreError::Conflict { .. }) => {}
            Err(StoreError::NotFound(_)) => break,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_write_to_a_deleted_session_does_not_restore_it() {
    let world = World::new();
    create(&world.store, "a", 0);
    let children: Vec<_> = (0..4).map(|_| child("writer_until_deleted", &world.path())).collect();
    while block_on(world.store.header(&id("a"))).unwrap().unwrap().version < 50 {
        std::thread::yield_now();
    }
    block_on(world.store.delete(&id("a"), now())).unwrap();
    let deleted = block_on(world.store.header(&id("a"))).unwrap().unwrap();
    let last = versions(children).last().copied().unwrap();
    assert!(last < deleted.version, "{last} was written after {}", deleted.version);
    assert_eq!(deleted.status, SessionStatus::Deleted);
    assert_eq!(block_on(world.store.header(&id("a"))).unwrap(), Some(deleted));
    assert_eq!(world.load("a").unwrap(), None);
}

#[test]
#[ignore = "another test runs it in processes of its own"]
fn creator() {
    let Some(store) = store() else { return };
    for number in 0..20 {
        let header = super::world::header(&format!("s{number}"));
        match super::world::create_as(&store, &header, 1) {
            Ok(_) => println!("\nwrote {number}"),
            Err(StoreError::Exists(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn each_name_is_taken_by_one_process() {
    let world = World::new();
    let children = (0..8).map(|_| child("creator", &world.path())).collect();
    assert_eq!(versions(children), (0..20).collect::<Vec<_>>());
    assert_eq!(world.names().len(), 20);
    assert_eq!(world.check(false), []);
}
