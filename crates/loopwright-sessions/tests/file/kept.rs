//! Files that stay open between writes, while others change what is there.

use std::{fs, fs::File, pin::pin, task::Poll, time::Duration};

use futures::{FutureExt as _, executor::block_on, poll};
use loopwright_core::Timestamp;
use loopwright_sessions::{
    AppendMode, FileStore, Lease, LeaseRequest, SessionQuery, SessionStore as _, StoreError,
};

use super::world::{
    World, append, append_at, append_under, appending_under, claim, create, id, now, said,
};

fn later(seconds: u64) -> Timestamp {
    now().plus(Duration::from_secs(seconds))
}

/// A session `a` that the first store has written under a lease, and `b`; and what another process has.
fn two(blocking: AppendMode) -> (World, FileStore, Lease) {
    let world = World::with(blocking);
    for name in ["a", "b", "c"] {
        create(&world.store, name, 1);
    }
    let lease = block_on(world.store.lease(&id("a"), claim("me"))).unwrap();
    append_under(&world.store, &lease, 1, later(1)).unwrap();
    let other = FileStore::open(world.path()).unwrap();
    (world, other, lease)
}

/// Such a store that leaves all work to other threads, and one that appends where it is asked.
fn both() -> impl Iterator<Item = (World, FileStore, Lease)> {
    [AppendMode::Offload, AppendMode::Inline].into_iter().map(two)
}

fn claimed(store: &FileStore, owner: &str, now: Timestamp) -> Lease {
    block_on(store.lease(&id("a"), LeaseRequest { now, ..claim(owner) })).unwrap()
}

#[test]
fn a_lease_that_another_process_took_over_is_lost_at_the_next_write() {
    for (world, other, lease) in both() {
        let theirs = claimed(&other, "they", later(31));
        let lost = append_under(&world.store, &lease, 2, later(32)).unwrap_err();
        assert!(matches!(lost, StoreError::LeaseLost(_)), "{lost}");
        append_under(&other, &theirs, 2, later(33)).unwrap();
        assert_eq!(world.load("a").unwrap().unwrap().changes, said(0, 3));
    }
}

#[test]
fn a_lease_that_another_process_renewed_keeps_others_off() {
    for (world, other, lease) in both() {
        block_on(other.renew(&lease, later(29), Duration::from_secs(30))).unwrap();
        // By what was known before, the lease has ended.
        let busy = append_at(&world.store, "a", 2, 2, 1, later(45)).unwrap_err();
        assert!(matches!(busy, StoreError::Busy { .. }), "{busy}");
        append_under(&world.store, &lease, 2, later(45)).unwrap();
    }
}

#[test]
fn appends_of_another_process_are_followed() {
    for (world, other, lease) in both() {
        append_under(&other, &lease, 2, later(2)).unwrap();
        append_under(&world.store, &lease, 3, later(3)).unwrap();
        assert_eq!(world.load("a").unwrap().unwrap().changes, said(0, 4));
        let conflict = append_under(&world.store, &lease, 2, later(4)).unwrap_err();
        assert!(matches!(conflict, StoreError::Conflict { .. }), "{conflict}");
    }
}

/// The page of the one session that was written last, for which only as many logs are looked at as the index
/// tells.
fn latest(world: &World) -> String {
    let page = block_on(world.store.list(&SessionQuery::first(1))).unwrap();
    page.sessions[0].id.to_string()
}

/// Has `a` written last after something happened to the index, while two others were written before.
fn is_listed_first(world: &World, other: &FileStore, lease: &Lease) {
    append_at(other, "b", 1, 1, 1, later(20)).unwrap();
    append_at(other, "c", 1, 1, 1, later(25)).unwrap();
    append_under(&world.store, lease, 2, later(28)).unwrap();
    assert_eq!(latest(world), "a");
    assert_eq!(world.check(false), []);
}

#[test]
fn the_index_knows_of_writes_after_another_process_ended_the_lease() {
    for (world, other, lease) in both() {
        block_on(other.release(&lease)).unwrap();
        let lease = claimed(&world.store, "me", later(6));
        is_listed_first(&world, &other, &lease);
    }
}

#[test]
fn the_index_knows_of_writes_after_another_process_made_it_anew() {
    for (world, other, lease) in both() {
        fs::remove_file(world.path().join("index")).unwrap();
        assert_eq!(block_on(other.list(&SessionQuery::first(1))).unwrap().sessions[0].id, id("a"));
        is_listed_first(&world, &other, &lease);
    }
}

#[test]
fn the_runner_of_a_session_rebuilds_a_missing_index() {
    for (world, _other, lease) in both() {
        fs::remove_file(world.path().join("index")).unwrap();
        append_under(&world.store, &lease, 2, later(2)).unwrap();
        assert!(world.path().join("index").exists());
        assert_eq!(world.check(false), []);
    }
}

#[test]
fn the_index_knows_of_writes_after_another_process_announced_what_it_did_not_write() {
    for (world, other, lease) in both() {
        let path = world.path().join("index");
        let mut index = fs::read(&path).unwrap();
        // A deletion was announced, and then the disk was full.
        let entry = &mut index[64..64 + 168];
        entry[8..16].copy_from_slice(&later(10).millis().to_le_bytes());
        let sum = crc32fast::hash(&entry[4..]);
        entry[..4].copy_from_slice(&sum.to_le_bytes());
        fs::write(&path, index).unwrap();
        is_listed_first(&world, &other, &lease);
    }
}

#[test]
fn removed_lock_files_are_made_again() {
    for (world, other, lease) in both() {
        let locks = [world.path().join("index.lock"), world.session("a").join("lock")];
        for (number, lock) in (2..).zip(&locks) {
            fs::remove_file(lock).unwrap();
            append_under(&world.store, &lease, number, later(number)).unwrap();
            assert!(lock.exists(), "{}", lock.display());
        }
        append_under(&other, &lease, 4, later(4)).unwrap();
        append_under(&world.store, &lease, 5, later(5)).unwrap();
        assert_eq!(world.check(false), []);
    }
}

#[test]
fn a_session_that_was_put_back_from_a_copy_goes_on_from_there() {
    let world = World::new();
    create(&world.store, "a", 1);
    append(&world.store, "a", 1, 1, 1).unwrap();
    let (place, copy) = (world.session("a"), world.path().join("copy"));
    fs::create_dir(&copy).unwrap();
    for file in fs::read_dir(&place).unwrap().map(|it| it.unwrap()) {
        fs::copy(file.path(), copy.join(file.file_name())).unwrap();
    }
    append(&world.store, "a", 2, 2, 1).unwrap();
    fs::rename(&place, world.path().join("away")).unwrap();
    fs::rename(&copy, &place).unwrap();
    assert_eq!(append(&world.store, "a", 2, 2, 1).unwrap(), 3);
    assert_eq!(world.load("a").unwrap().unwrap().changes, said(0, 3));
}

#[test]
fn a_store_that_may_block_appends_where_it_is_asked() {
    let (world, _other, lease) = two(AppendMode::Inline);
    let appended = appending_under(&world.store, &lease, 2, later(2)).now_or_never();
    assert_eq!(appended.unwrap().unwrap(), 3);
    let (world, _other, lease) = two(AppendMode::Offload);
    assert!(appending_under(&world.store, &lease, 2, later(2)).now_or_never().is_none());
}

/// Appends, which takes another thread.
async fn append_elsewhere(store: &FileStore, lease: &Lease, number: u64, now: Timestamp) {
    let mut appending = pin!(appending_under(store, lease, number, now));
    assert!(matches!(poll!(&mut appending), Poll::Pending));
    assert_eq!(appending.await.unwrap(), number + 1);
}

#[test]
fn reading_appends_of_another_process_does_not_block() {
    let (world, other, lease) = two(AppendMode::Inline);
    append_under(&other, &lease, 2, later(2)).unwrap();
    block_on(append_elsewhere(&world.store, &lease, 3, later(3)));
    assert_eq!(world.load("a").unwrap().unwrap().changes, said(0, 4));
}

#[test]
fn an_append_that_must_wait_does_not_read_the_log_again() {
    let (world, _other, lease) = two(AppendMode::Inline);
    let lease = block_on(world.store.renew(&lease, later(1), Duration::from_mins(5))).unwrap();
    append_under(&world.store, &lease, 2, later(2)).unwrap();
    // A caller that reads the whole log finds its first record damaged.
    let log = world.session("a").join("log");
    let mut bytes = fs::read(&log).unwrap();
    bytes[40] ^= 1;
    fs::write(&log, bytes).unwrap();
    // The index covers the first minute only.
    block_on(append_elsewhere(&world.store, &lease, 3, later(90)));
    assert!(world.load("a").is_err());
}

/// Appends while a lock is held by another process, who lets go of it later.
fn is_not_blocked_by(lock: impl Fn(&World) -> File) {
    let (world, _other, lease) = two(AppendMode::Inline);
    let held = lock(&world);
    block_on(async {
        let mut appending = pin!(appending_under(&world.store, &lease, 2, later(2)));
        assert!(matches!(poll!(&mut appending), Poll::Pending));
        held.unlock().unwrap();
        assert_eq!(appending.await.unwrap(), 3);
    });
    append_under(&world.store, &lease, 3, later(3)).unwrap();
    assert_eq!(world.load("a").unwrap().unwrap().changes, said(0, 4));
    assert_eq!(world.check(false), []);
}

#[test]
fn a_session_that_another_process_writes_can_be_read() {
    is_not_blocked_by(|world| {
        let lock = File::open(world.session("a").join("lock")).unwrap();
        lock.lock().unwrap();
        lock
    });
}

#[test]
fn sessions_can_be_read_while_another_process_rebuilds_the_index() {
    is_not_blocked_by(|world| {
        let lock = File::open(world.path().join("index.lock")).unwrap();
        lock.lock().unwrap();
        lock
    });
}

#[test]
fn a_backup_of_a_store_is_whole_and_replaces_nothing() {
    let world = World::new();
    for name in ["a", "b"] {
        create(&world.store, name, 2);
        append(&world.store, name, 1, 2, 1).unwrap();
    }
    let to = world.path().with_file_name("copy");
    block_on(world.store.back_up(&to)).unwrap();
    append(&world.store, "a", 2, 3, 1).unwrap();
    let refused = block_on(world.store.back_up(&to)).unwrap_err();
    assert!(refused.to_string().contains("copy"), "{refused}");
    let copy = FileStore::open(&to).unwrap();
    assert_eq!(block_on(copy.check(false)).unwrap(), []);
    for name in ["a", "b"] {
        let loaded = block_on(copy.load(&id(name))).unwrap().unwrap();
        assert_eq!((loaded.header.version, loaded.changes), (2, said(0, 3)));
    }
}

#[test]
fn a_lease_file_that_was_overwritten_where_it_is_counts() {
    for (world, other, lease) in both() {
        let theirs = block_on(other.lease(&id("b"), claim("they"))).unwrap();
        block_on(other.release(&theirs)).unwrap();
        let released = fs::read(world.session("b").join("lease")).unwrap();
        let path = world.session("a").join("lease");
        let written = fs::metadata(&path).unwrap().modified().unwrap();
        fs::write(&path, released).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        file.set_modified(written + Duration::from_secs(1)).unwrap();
        let lost = append_under(&world.store, &lease, 2, later(2)).unwrap_err();
        assert!(matches!(lost, StoreError::LeaseLost(_)), "{lost}");
    }
}

#[test]
fn a_store_without_sessions_can_be_backed_up() {
    let world = World::new();
    let to = world.path().with_file_name("copy");
    block_on(world.store.back_up(&to)).unwrap();
    let copy = FileStore::open(&to).unwrap();
    assert_eq!(block_on(copy.list(&SessionQuery::first(9))).unwrap().sessions, []);
}
