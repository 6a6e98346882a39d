//! What is left of a write that was cut short.

use std::fs;

use futures::executor::block_on;
use loopwright_sessions::{SessionLog, SessionStatus, SessionStore as _, StoreError};

use super::world::{World, append, create, header, id, said};

/// A session of three records, and where the last one begins.
fn three() -> (World, Vec<u8>, usize) {
    let world = World::new();
    create(&world.store, "a", 2);
    append(&world.store, "a", 1, 2, 1).unwrap();
    let log = world.session("a").join("log");
    let acknowledged = log.with_file_name("acknowledged");
    fs::copy(&acknowledged, log.with_file_name("before")).unwrap();
    let begin = fs::metadata(&log).unwrap().len();
    append(&world.store, "a", 2, 3, 2).unwrap();
    (world, fs::read(log).unwrap(), usize::try_from(begin).unwrap())
}

/// Makes the last record one that was never acknowledged, as a crash leaves it.
fn unacknowledge(world: &World) {
    let dir = world.session("a");
    fs::copy(dir.join("before"), dir.join("acknowledged")).unwrap();
}

fn missing(world: &World) -> Option<String> {
    let found = block_on(world.store.missing(&id("a"))).unwrap();
    found.map(|it| it.problem)
}

/// Whatever is wrong with the last record: the others are there, the next write works, and what is
/// wrong is kept. Returns what the session is without it.
fn prefix_survives(world: World, bytes: &[u8], begin: usize) -> (World, SessionStatus) {
    let log = world.session("a").join("log");
    for torn in world.files("a", "log.torn") {
        fs::remove_file(torn).unwrap();
    }
    fs::write(&log, bytes).unwrap();
    let world = world.reopened();
    let loaded = world.load("a").unwrap().unwrap();
    assert_eq!((loaded.header.version, loaded.changes), (2, said(0, 3)));
    let header = block_on(world.store.header(&id("a"))).unwrap();
    assert_eq!(header, Some(loaded.header.clone()));
    let status = loaded.header.status;
    // Reading changes nothing.
    assert_eq!(fs::read(&log).unwrap(), bytes);

    assert_eq!(append(&world.store, "a", 2, 3, 1).unwrap(), 3);
    let loaded = world.load("a").unwrap().unwrap();
    assert_eq!((loaded.header.status, loaded.changes), (status, said(0, 4)));
    let torn = world.files("a", "log.torn");
    if bytes.len() == begin {
        assert!(torn.is_empty());
    } else {
        assert_eq!(torn, [world.session("a").join("log.torn-1")]);
        assert_eq!(fs::read(&torn[0]).unwrap(), bytes[begin..]);
    }
    (world, status)
}

#[test]
fn a_log_cut_at_any_byte_of_an_unacknowledged_record_loads_what_came_before() {
    let (mut world, bytes, begin) = three();
    for end in begin..bytes.len() {
        unacknowledge(&world);
        let (same, status) = prefix_survives(world, &bytes[..end], begin);
        assert_eq!(status, SessionStatus::Active, "byte {end}");
        world = same;
    }
}

#[test]
fn a_log_that_lost_an_acknowledged_record_is_suspended_and_the_loss_is_named() {
    let (mut world, bytes, begin) = three();
    let log = world.session("a").join("log");
    for end in (begin..bytes.len()).step_by(7) {
        fs::write(&log, &bytes[..end]).unwrap();
        world = world.reopened();
        let problem = missing(&world).unwrap();
        assert!(problem.ends_with(": the last write is missing"), "byte {end}: {problem}");
        let found = world.check(false);
        assert_eq!(found[0].problem, problem, "byte {end}: {found:?}");
        let (same, status) = prefix_survives(world, &bytes[..end], begin);
        assert_eq!(status, SessionStatus::Suspended, "byte {end}");
        // A caller that wrote it again knows.
        assert_eq!(missing(&same), None);
        world = same;
    }
}

#[test]
fn a_fork_of_lost_changes_does_not_load_those_that_were_written_in_their_place() {
    let (world, bytes, begin) = three();
    let whole = block_on(world.store.header(&id("a"))).unwrap().unwrap();
    let fork = whole.fork(id("b"), 5, whole.updated_at);
    super::world::create_as(&world.store, &fork, 0).unwrap();
    fs::write(world.session("a").join("log"), &bytes[..begin]).unwrap();
    let world = world.reopened();
    append(&world.store, "a", 2, 3, 2).unwrap();
    let loaded = world.load("b");
    assert!(matches!(loaded, Err(StoreError::Corrupt { .. })), "{loaded:?}");
}

#[test]
fn a_repair_of_a_log_that_lost_a_whole_record_leaves_the_session_waiting() {
    let (world, bytes, begin) = three();
    fs::write(world.session("a").join("log"), &bytes[..begin]).unwrap();
    let world = world.reopened();
    let found = world.check(true);
    assert!(found[0].problem.contains("ends too early: the last write is missing"), "{found:?}");
    let expect = "without the missing data, the session is suspended";
    assert_eq!((found.len(), found[0].repaired.as_deref()), (1, Some(expect)));
    assert_eq!(world.check(true), []);
    let loaded = world.load("a").unwrap().unwrap();
    assert_eq!((loaded.header.status, loaded.changes), (SessionStatus::Suspended, said(0, 3)));
    assert_eq!(missing(&world), None);
}

#[test]
fn a_log_with_any_byte_of_its_last_record_changed_loads_what_came_before_and_waits() {
    // A caller that wrote it was told that it is kept: a call may be on its way that nothing tells of now.
    let (mut world, bytes, begin) = three();
    for place in begin..bytes.len() {
        let mut changed = bytes.clone();
        changed[place] ^= 1 << (place % 8);
        let (same, status) = prefix_survives(world, &changed, begin);
        assert_eq!(status, SessionStatus::Suspended, "byte {place}");
        world = same;
    }
}

#[test]
fn a_repair_of_a_damaged_last_record_leaves_the_session_waiting() {
    let (world, mut bytes, begin) = three();
    let log = world.session("a").join("log");
    bytes[begin + 30] ^= 1;
    fs::write(&log, &bytes).unwrap();
    let world = world.reopened();
    let found = world.check(true);
    assert_eq!(found.len(), 1);
    let expect = "are a damaged record: the last write is missing";
    assert!(found[0].problem.ends_with(expect), "{found:?}");
    let repaired = found[0].repaired.as_ref().unwrap();
    assert!(repaired.contains("log.torn-1") && repaired.ends_with("suspended"), "{repaired}");
    assert_eq!(world.check(true), []);
    let loaded = world.load("a").unwrap().unwrap();
    assert_eq!((loaded.header.status, loaded.changes), (SessionStatus::Suspended, said(0, 3)));
    assert_eq!(fs::read(&world.files("a", "log.torn")[0]).unwrap(), bytes[begin..]);
}

#[test]
fn a_log_that_ends_in_zeros_loads_what_came_before() {
    let (world, mut bytes, begin) = three();
    bytes.truncate(begin);
    bytes.resize(begin + 5_000, 0);
    let (world, status) = prefix_survives(world, &bytes, begin);
    assert_eq!(status, SessionStatus::Suspended);
    unacknowledge(&world);
    assert_eq!(prefix_survives(world, &bytes, begin).1, SessionStatus::Active);
}

#[test]
fn a_log_that_repeats_an_earlier_record_loads_what_came_before() {
    // A disk that wrote old bytes to a new place: they are intact, but not here.
    let (world, bytes, begin) = three();
    let copied = [&bytes[..begin], &bytes[..begin]].concat();
    assert_eq!(prefix_survives(world, &copied, begin).1, SessionStatus::Suspended);
}

#[test]
fn a_second_torn_record_is_kept_beside_the_first() {
    let (world, bytes, begin) = three();
    let log = world.session("a").join("log");
    let mut world = world;
    for round in 1..=3 {
        fs::write(&log, &bytes[..begin + round]).unwrap();
        world = world.reopened();
        append(&world.store, "a", 2, 3, 1).unwrap();
    }
    let torn: Vec<_> =
        world.files("a", "log.torn").iter().map(|it| fs::read(it).unwrap()).collect();
    let expect: Vec<_> = (1..=3).map(|it| bytes[begin..begin + it].to_vec()).collect();
    assert_eq!(torn, expect);
}

#[test]
fn a_check_says_what_is_torn_and_moves_it_aside_only_to_repair() {
    let (world, bytes, begin) = three();
    let log = world.session("a").join("log");
    fs::write(&log, &bytes[..begin + 9]).unwrap();
    unacknowledge(&world);
    let world = world.reopened();
    assert_eq!(missing(&world), None);
    let found = world.check(false);
    assert_eq!(found.len(), 1);
    assert!(found[0].problem.starts_with("the last 9 bytes of"), "{found:?}");
    assert_eq!((found[0].session.clone(), found[0].repaired.clone()), (Some(id("a")), None));
    assert_eq!(fs::read(&log).unwrap(), &bytes[..begin + 9]);
    assert!(world.check(true)[0].repaired.as_ref().unwrap().contains("log.torn-1"));
    assert_eq!(world.check(true), []);
    assert_eq!(fs::read(&log).unwrap(), &bytes[..begin]);
}

#[test]
fn a_log_damaged_before_intact_records_is_neither_read_nor_written() {
    let (world, bytes, begin) = three();
    create(&world.store, "b", 1);
    let log = world.session("a").join("log");
    let mut changed = bytes;
    changed[begin - 9] ^= 1;
    fs::write(&log, &changed).unwrap();
    let world = world.reopened();
    let written = append(&world.store, "a", 3, 5, 1).map(drop);
    for refused in [world.load("a").map(drop), written] {
        match refused {
            Err(StoreError::Corrupt { id, reason }) => {
                assert_eq!(id.as_str(), "a");
                let told = format!("before intact records at byte {begin}");
                assert!(reason.contains("/sessions/a/log`"), "{reason}");
                assert!(reason.contains(&told), "{reason}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(world.names().contains(&"b".to_owned()));
    let found = world.check(false);
    assert_eq!((found.len(), found[0].session.clone()), (1, Some(id("a"))));
    assert_eq!(fs::read(&log).unwrap(), changed, "everything is left where it is");
}

#[test]
fn a_repair_of_a_log_damaged_in_the_middle_keeps_what_came_before() {
    let (world, mut bytes, begin) = three();
    create(&world.store, "b", 1);
    let log = world.session("a").join("log");
    bytes[begin - 9] ^= 1;
    fs::write(&log, &bytes).unwrap();
    let world = world.reopened();
    let found = world.check(true);
    assert_eq!(found.len(), 1);
    let repaired = found[0].repaired.as_ref().unwrap();
    let expect = "the session is read only up to change 2 and is suspended";
    assert!(repaired.starts_with(expect) && repaired.contains("log.damaged-1"), "{repaired}");
    assert_eq!(fs::read(world.session("a").join("log.damaged-1")).unwrap(), bytes);
    assert_eq!(world.check(true), []);
    let loaded = world.load("a").unwrap().unwrap();
    assert_eq!((loaded.header.status, loaded.changes), (SessionStatus::Suspended, said(0, 2)));
    append(&world.store, "a", loaded.header.version, 2, 2).unwrap();
    assert_eq!(world.load("a").unwrap().unwrap().changes, said(0, 4));
    assert_eq!(world.load("b").unwrap().unwrap().changes, said(0, 1));
}

#[test]
fn the_intact_changes_of_a_damaged_log_can_be_read() {
    let (world, bytes, begin) = three();
    let log = world.session("a").join("log");
    let salvage = || block_on(world.store.salvage(&id("a")));
    let whole = salvage().unwrap().unwrap();
    assert_eq!((whole.changes, whole.gaps), (said(0, 5), vec![]));
    for place in (first_of_second(&bytes)..begin).step_by(7) {
        let mut changed = bytes.clone();
        changed[place] ^= 1 << (place % 8);
        fs::write(&log, &changed).unwrap();
        assert!(matches!(world.load("a"), Err(StoreError::Corrupt { .. })), "byte {place}");
        let found = salvage().unwrap().unwrap();
        let intact = [said(0, 2), said(3, 2)].concat();
        assert_eq!(
            (found.changes, &found.gaps[..]),
            (intact, std::slice::from_ref(&(2..3))),
            "byte {place}"
        );
    }
    let mut changed = bytes;
    changed[30] ^= 1;
    fs::write(&log, &changed).unwrap();
    assert!(matches!(salvage(), Err(StoreError::Corrupt { .. })));
}

/// Where the second record begins.
fn first_of_second(bytes: &[u8]) -> usize {
    let marks = bytes.windows(4).enumerate().filter(|(_, it)| *it == b"\xfeLWf");
    marks.map(|(place, _)| place).nth(1).unwrap()
}

#[test]
fn a_repair_moves_a_session_without_its_first_record_out_of_the_way_as_it_is() {
    let (world, bytes, _) = three();
    create(&world.store, "b", 1);
    let mut changed = bytes;
    changed[30] ^= 1;
    fs::write(world.session("a").join("log"), &changed).unwrap();
    let world = world.reopened();
    let found = world.check(true);
    assert_eq!(found.len(), 1);
    assert!(found[0].repaired.as_ref().unwrap().contains("quarantine/a"), "{found:?}");
    let kept = world.path().join("quarantine/a/log");
    assert_eq!(fs::read(kept).unwrap(), changed);
    assert_eq!(world.load("a").unwrap(), None);
    assert_eq!(world.names(), ["b"]);
    assert_eq!(world.check(true), []);
    // Its name stays taken, so that nothing is mistaken for it.
    let again = super::world::create_as(&world.store, &header("a"), 0);
    assert!(matches!(again, Err(StoreError::Exists(_))), "{again:?}");
}

#[test]
fn a_log_without_its_first_record_is_corrupt_whatever_it_holds() {
    let (world, bytes, _) = three();
    let log = world.session("a").join("log");
    for left in [&b""[..], b"\0\0\0\0", b"{}", &bytes[..100], &[0xfe; 300]] {
        fs::write(&log, left).unwrap();
        let loaded = world.load("a");
        assert!(matches!(loaded, Err(StoreError::Corrupt { .. })), "{loaded:?}");
        assert!(append(&world.store, "a", 1, 1, 1).is_err());
        assert_eq!(fs::read(&log).unwrap(), left);
    }
    fs::remove_file(&log).unwrap();
    let error = world.load("a").unwrap_err().to_string();
    assert!(error.contains("is missing; restore it"), "{error}");
}

#[test]
fn notes_cut_at_any_byte_of_the_last_one_are_read_and_go_on() {
    let world = World::new();
    create(&world.store, "a", 0);
    let note = |world: &World, text: &str| {
        let body = text.as_bytes().into();
        block_on(world.store.append_log(&id("a"), SessionLog::Events, &[body], None)).unwrap()
    };
    let texts = |world: &World| -> Vec<String> {
        let notes = block_on(world.store.read_log(&id("a"), SessionLog::Events, 0, 9)).unwrap();
        notes.iter().map(|it| String::from_utf8(it.body.to_vec()).unwrap()).collect()
    };
    note(&world, "one");
    let file = world.session("a").join("events");
    let begin = fs::read(&file).unwrap().len();
    note(&world, "two");
    let bytes = fs::read(&file).unwrap();
    for end in begin..bytes.len() {
        fs::write(&file, &bytes[..end]).unwrap();
        assert_eq!(texts(&world), ["one"]);
        assert_eq!(note(&world, "and"), 2);
        assert_eq!(texts(&world), ["one", "and"]);
    }
    assert_eq!(world.files("a", "events.torn").len(), bytes.len() - begin - 1);
}

#[test]
fn damaged_notes_are_salvaged() {
    let world = World::new();
    create(&world.store, "a", 0);
    let bodies = ["one", "two", "three"].map(|it| it.as_bytes().into());
    block_on(world.store.append_log(&id("a"), SessionLog::Files, &bodies, None)).unwrap();
    let file = world.session("a").join("files");
    let mut bytes = fs::read(&file).unwrap();
    let two = bytes.windows(3).position(|it| it == b"two").unwrap();
    bytes[two] = b'T';
    fs::write(&file, &bytes).unwrap();
    let read = block_on(world.store.read_log(&id("a"), SessionLog::Files, 0, 9));
    assert!(matches!(read, Err(StoreError::Corrupt { .. })), "{read:?}");
    let found = world.check(true);
    assert!(
        found[0].repaired.as_ref().unwrap().contains("kept the 2 readable log entries"),
        "{found:?}"
    );
    assert_eq!(world.check(true), []);
    let notes = block_on(world.store.read_log(&id("a"), SessionLog::Files, 0, 9)).unwrap();
    assert_eq!(notes.iter().map(|it| it.number).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(fs::read(file.with_file_name("files.damaged-1")).unwrap(), bytes);
}

#[test]
fn a_damaged_lease_is_put_right_and_none_before_it_is_in_force() {
    let world = World::new();
    create(&world.store, "a", 0);
    let old = block_on(world.store.lease(&id("a"), super::world::claim("me"))).unwrap();
    fs::write(world.session("a").join("lease"), b"x").unwrap();
    let error = append(&world.store, "a", 1, 0, 1).unwrap_err().to_string();
    assert!(error.contains("is damaged; repair the store"), "{error}");
    assert_eq!(world.check(false).len(), 1);
    assert!(world.check(true)[0].repaired.is_some());
    assert_eq!(world.check(true), []);
    let new = block_on(world.store.lease(&id("a"), super::world::claim("you"))).unwrap();
    assert!(new.number > old.number);
}

#[test]
fn nothing_is_added_to_notes_that_are_damaged_before_intact_ones() {
    let world = World::new();
    create(&world.store, "a", 0);
    let bodies = ["one", "two", "three"].map(|it| it.as_bytes().into());
    block_on(world.store.append_log(&id("a"), SessionLog::Files, &bodies, None)).unwrap();
    let file = world.session("a").join("files");
    let mut bytes = fs::read(&file).unwrap();
    let one = bytes.windows(3).position(|it| it == b"one").unwrap();
    bytes[one] = b'O';
    // The last one is torn as well, so that its end does not tell where the others end.
    bytes.pop();
    fs::write(&file, &bytes).unwrap();
    let noted =
        block_on(world.store.append_log(&id("a"), SessionLog::Files, &[b"four"[..].into()], None));
    assert!(matches!(noted, Err(StoreError::Corrupt { .. })), "{noted:?}");
    assert_eq!(fs::read(&file).unwrap(), bytes);
}
