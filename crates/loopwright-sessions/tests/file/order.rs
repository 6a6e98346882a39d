//! Keeping a store in order.

use std::{fs, sync::Arc};

use futures::executor::block_on;
use loopwright_sessions::{
    ForkPoint, ReclaimStats, SessionHeader, SessionLog, SessionStore as _, StoreError,
};

use super::world::{World, append, create, create_as, header, id, now};

fn note(world: &World, text: &str, keep: Option<u64>) -> u64 {
    let body: Arc<[u8]> = text.as_bytes().into();
    block_on(world.store.append_log(&id("a"), SessionLog::Events, &[body], keep)).unwrap()
}

fn numbers(world: &World, after: u64, limit: usize) -> Vec<u64> {
    let notes = block_on(world.store.read_log(&id("a"), SessionLog::Events, after, limit)).unwrap();
    notes.iter().map(|it| it.number).collect()
}

#[test]
fn appending_writes_as_much_late_as_early() {
    let world = World::new();
    create(&world.store, "a", 0);
    let log = world.session("a").join("log");
    let mut sizes = Vec::new();
    let mut before = fs::metadata(&log).unwrap().len();
    for step in 0..1_200 {
        append(&world.store, "a", step + 1, step, 1).unwrap();
        let length = fs::metadata(&log).unwrap().len();
        sizes.push(length - before);
        before = length;
    }
    // Only what is said is longer: "message 1199" instead of "message 9".
    assert_eq!(sizes[1_199] - sizes[9], 3);
    assert_eq!(world.load("a").unwrap().unwrap().changes.len(), 1_200);
}

#[test]
fn reclaiming_makes_the_files_smaller_and_keeps_what_is_needed() {
    let world = World::new();
    create(&world.store, "a", 500);
    append(&world.store, "a", 1, 500, 500).unwrap();
    let at = |at| Some(ForkPoint { session: id("a"), branch: 0, at });
    create_as(&world.store, &SessionHeader { from: at(3), ..header("b") }, 0).unwrap();
    block_on(world.store.delete(&id("a"), now())).unwrap();
    let log = world.session("a").join("log");
    let before = fs::metadata(&log).unwrap().len();
    let freed = block_on(world.store.reclaim(false)).unwrap();
    assert_eq!(freed, ReclaimStats { sessions: 0, batches: 1 });
    let between = fs::metadata(&log).unwrap().len();
    assert!(between < before * 2 / 3, "{before} {between}");
    assert_eq!(world.load("b").unwrap().unwrap().changes, super::world::said(0, 3));
    block_on(world.store.delete(&id("b"), now())).unwrap();
    let freed = block_on(world.store.reclaim(false)).unwrap();
    assert_eq!(freed, ReclaimStats { sessions: 2, batches: 1 });
    assert!(fs::metadata(&log).unwrap().len() < 2_000);
    assert_eq!(world.check(false), []);
    let world = world.reopened();
    let again = create_as(&world.store, &header("a"), 0);
    assert!(matches!(again, Err(StoreError::Exists(_))), "{again:?}");
    assert_eq!(block_on(world.store.reclaim(true)).unwrap(), ReclaimStats::default());
}

#[test]
fn a_reclaimed_session_goes_on_where_it_was() {
    let world = World::new();
    create(&world.store, "a", 2);
    append(&world.store, "a", 1, 2, 4).unwrap();
    block_on(world.store.rewind(&id("a"), 2, 1, None, now())).unwrap();
    append(&world.store, "a", 3, 1, 2).unwrap();
    let before = world.load("a").unwrap();
    let freed = block_on(world.store.reclaim(true)).unwrap();
    assert_eq!(freed, ReclaimStats { sessions: 0, batches: 1 });
    assert_eq!(world.load("a").unwrap(), before);
    // The last write is still known.
    assert_eq!(append(&world.store, "a", 3, 1, 2).unwrap(), 4);
    assert_eq!(append(&world.store, "a", 4, 3, 1).unwrap(), 5);
    assert_eq!(world.reopened().load("a").unwrap().unwrap().changes.len(), 4);
}

#[test]
fn nothing_is_reclaimed_while_it_is_not_known_what_is_needed() {
    let world = World::new();
    create(&world.store, "a", 2);
    create(&world.store, "b", 2);
    block_on(world.store.delete(&id("a"), now())).unwrap();
    fs::write(world.session("b").join("log"), b"x").unwrap();
    let reclaimed = block_on(world.store.reclaim(false));
    assert!(matches!(reclaimed, Err(StoreError::Corrupt { .. })), "{reclaimed:?}");
}

#[test]
fn a_session_that_begins_with_what_is_gone_says_so() {
    let world = World::new();
    create(&world.store, "a", 2);
    let from = Some(ForkPoint { session: id("a"), branch: 0, at: 1 });
    create_as(&world.store, &SessionHeader { from, ..header("b") }, 0).unwrap();
    fs::remove_dir_all(world.session("a")).unwrap();
    let found = world.check(true);
    let told: Vec<_> = found.iter().map(|it| (it.session.clone(), it.problem.as_str())).collect();
    assert_eq!(
        told,
        [(Some(id("b")), "the session starts with changes of `a`, which no longer exists")]
    );
    assert_eq!(found[0].repaired, None);
}

#[test]
fn remains_of_an_interrupted_creation_are_removed() {
    let world = World::new();
    create(&world.store, "a", 1);
    fs::create_dir(world.path().join("incoming/b.1")).unwrap();
    fs::write(world.path().join("incoming/b.1/log"), b"x").unwrap();
    assert_eq!(world.names(), ["a"]);
    assert_eq!(world.check(false).len(), 1);
    assert_eq!(world.check(true)[0].repaired.as_deref(), Some("removed it"));
    assert_eq!(world.check(true), []);
    create(&world.store, "b", 1);
}

#[test]
fn notes_are_found_from_any_place_of_a_long_log() {
    let world = World::new();
    create(&world.store, "a", 0);
    let bodies: Vec<Arc<[u8]>> = (0..3_000_usize)
        .map(|it| vec![b'x'; if it == 1_500 { 200_000 } else { it % 200 }].into())
        .collect();
    let last =
        block_on(world.store.append_log(&id("a"), SessionLog::Events, &bodies, None)).unwrap();
    assert_eq!(last, 3_000);
    for after in [0, 1, 700, 1_499, 1_500, 1_501, 2_222, 2_998, 2_999, 3_000, 9_999] {
        let expect: Vec<_> = (after + 1..=3_000).take(7).collect();
        assert_eq!(numbers(&world, after, 7), expect, "after {after}");
    }
    assert_eq!(numbers(&world, 0, usize::MAX).len(), 3_000);
    assert_eq!(numbers(&world, 0, 0).len(), 0);
}

#[test]
fn a_bounded_log_keeps_at_least_its_limit_and_not_many_more() {
    let world = World::new();
    create(&world.store, "a", 0);
    for number in 1..=100 {
        assert_eq!(note(&world, "x", Some(10)), number);
        let kept = numbers(&world, 0, usize::MAX);
        assert_eq!(kept, (number + 1 - kept.len() as u64..=number).collect::<Vec<_>>());
        assert!(kept.len() as u64 >= number.min(10) && kept.len() <= 20, "{kept:?}");
    }
    assert_eq!(world.check(false), []);
}

#[test]
fn notes_that_look_like_records_are_only_what_they_say() {
    let world = World::new();
    create(&world.store, "a", 0);
    note(&world, "one", None);
    let file = world.session("a").join("events");
    let quoted: Arc<[u8]> = fs::read(&file).unwrap().into();
    block_on(world.store.append_log(&id("a"), SessionLog::Events, &[quoted], None)).unwrap();
    let whole = fs::read(&file).unwrap();
    // Its beginning is torn: what it quotes is still no record.
    fs::write(&file, &whole[..whole.len() - 1]).unwrap();
    assert_eq!(numbers(&world, 0, 9), [1]);
    assert_eq!(note(&world, "two", None), 2);
    assert_eq!(numbers(&world, 0, 9), [1, 2]);
}
