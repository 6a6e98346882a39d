//! Listing, and the index that makes it quick.

use std::{fs, sync::Arc};

use futures::executor::block_on;
use loopwright_core::{Seq, Timestamp};
use loopwright_sessions::{
    AppendRequest, ChangeBatch, FileStore, SessionHeader, SessionId, SessionQuery, SessionRelation,
    SessionStatus, SessionStore as _,
};

use super::world::{World, append_at, append_under, claim, create, create_as, header, id, now};

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

#[test]
fn listing_opens_no_conversation() {
    let world = World::new();
    for number in 0..20 {
        let name = format!("s{number}");
        create(&world.store, &name, 3);
        append_at(&world.store, &name, 1, 3, 1, at(2_000 + number)).unwrap();
        append_at(&world.store, &name, 2, 4, 1, at(2_000 + number)).unwrap();
        // Of what was said, only the last record is left.
        let log = world.session(&name).join("log");
        let mut bytes = fs::read(&log).unwrap();
        let mut from = 0;
        while let Some(place) = bytes[from..].windows(9).position(|it| it == b"message 3") {
            bytes[from + place] = b'X';
            from += place + 9;
        }
        fs::write(&log, bytes).unwrap();
    }
    let world = world.reopened();
    assert!(world.load("s0").is_err());
    assert_eq!(world.names().len(), 20);
    fs::remove_file(world.path().join("index")).unwrap();
    assert_eq!(world.names()[..2], ["s19", "s18"]);
}

/// A world of three sessions, the latest of which is `a`, then `c`.
fn three() -> World {
    let world = World::in_memory();
    for (name, millis) in [("a", 3), ("b", 1), ("c", 2)] {
        create(&world.store, name, 1);
        append_at(&world.store, name, 1, 1, 1, at(5_000 + millis)).unwrap();
    }
    world
}

/// How many worlds are damaged at the same time: most of the time is spent waiting for the threads of stores.
const AT_ONCE: usize = 8;

#[test]
fn an_index_of_which_any_byte_is_damaged_is_made_anew() {
    let damage = |first: usize| {
        let world = three();
        let index = world.path().join("index");
        let whole = fs::read(&index).unwrap();
        for place in (first..whole.len()).step_by(AT_ONCE) {
            let mut bytes = whole.clone();
            bytes[place] ^= 0x40;
            fs::write(&index, bytes).unwrap();
            assert_eq!(world.names(), ["a", "c", "b"], "byte {place}");
        }
    };
    std::thread::scope(|scope| {
        for first in 0..AT_ONCE {
            scope.spawn(move || damage(first));
        }
    });
}

#[test]
fn an_index_that_is_missing_or_damaged_is_made_anew() {
    let world = three();
    let index = world.path().join("index");
    let whole = fs::read(&index).unwrap();
    let mut world = world;
    for left in [None, Some(vec![]), Some(whole[..100].to_vec()), Some(vec![b'x'; whole.len()])] {
        match left {
            Some(bytes) => fs::write(&index, bytes).unwrap(),
            None => fs::remove_file(&index).unwrap(),
        }
        world = world.reopened();
        assert_eq!(world.names(), ["a", "c", "b"]);
        assert_eq!(world.check(false), []);
    }
    // A write makes it anew as well.
    fs::remove_file(&index).unwrap();
    append_at(&world.store, "b", 2, 2, 1, at(9_000)).unwrap();
    assert_eq!(world.names(), ["b", "a", "c"]);
}

#[test]
fn an_index_of_an_earlier_start_of_the_machine_is_not_believed() {
    let world = World::new();
    create(&world.store, "a", 1);
    create(&world.store, "b", 1);
    let index = world.path().join("index");
    // The machine forgot the entries of two writes, and then it started again.
    let mut forgotten = fs::read(&index).unwrap();
    append_at(&world.store, "a", 1, 1, 1, at(7_000)).unwrap();
    append_at(&world.store, "b", 1, 1, 1, at(6_000)).unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let boot = boot.trim().as_bytes();
    let place = forgotten.windows(boot.len()).position(|it| it == boot).unwrap();
    forgotten[place] = if forgotten[place] == b'0' { b'1' } else { b'0' };
    fs::write(&index, forgotten).unwrap();
    assert_eq!(world.names(), ["a", "b"]);
    assert_eq!(world.check(false), []);
}

#[test]
fn a_write_that_was_announced_and_never_came_changes_no_page() {
    let world = World::new();
    for (name, millis) in [("a", 3), ("b", 2), ("c", 1)] {
        create(&world.store, name, 1);
        append_at(&world.store, name, 1, 1, 1, at(5_000 + millis)).unwrap();
    }
    // The index says that `c` is the latest; its log was not written any more.
    let beside = ["log", "acknowledged"].map(|it| world.session("c").join(it));
    let before = beside.each_ref().map(|it| fs::read(it).unwrap());
    let lines = fs::read(world.path().join("index")).unwrap();
    append_at(&world.store, "c", 2, 2, 1, at(9_000)).unwrap();
    let mut settled = fs::read(world.path().join("index")).unwrap();
    let place = (0..lines.len()).find(|it| lines[*it] != settled[*it]).unwrap();
    let entry = place - (place - 64) % 168;
    settled[entry + 6] &= !1;
    let sum = crc32fast::hash(&settled[entry + 4..entry + 168]);
    settled[entry..entry + 4].copy_from_slice(&sum.to_le_bytes());
    fs::write(world.path().join("index"), settled).unwrap();
    for (path, bytes) in beside.iter().zip(before) {
        fs::write(path, bytes).unwrap();
    }

    let world = world.reopened();
    assert_eq!(world.names(), ["a", "b", "c"]);
    let mut query = SessionQuery::first(1);
    let mut pages = Vec::new();
    loop {
        let page = block_on(world.store.list(&query)).unwrap();
        pages.extend(page.sessions.iter().map(|it| it.id.to_string()));
        let Some(next) = page.next else { break };
        query.after = Some(next);
    }
    assert_eq!(pages, ["a", "b", "c"]);
    assert_eq!(world.check(true), []);
    append_at(&world.store, "c", 2, 2, 1, at(9_500)).unwrap();
    assert_eq!(world.names(), ["c", "a", "b"]);
}

#[test]
fn the_index_is_written_once_a_minute_while_a_session_runs() {
    let world = World::new();
    for name in ["a", "b"] {
        create(&world.store, name, 1);
    }
    let start = now().millis();
    let lease = block_on(world.store.lease(&id("a"), claim("me"))).unwrap();
    let write = |number: Seq, now: Timestamp| {
        append_under(&world.store, &lease, number, now).unwrap();
        fs::read(world.path().join("index")).unwrap()
    };
    let first = write(1, at(start + 1));
    append_at(&world.store, "b", 1, 1, 1, at(start + 9_000)).unwrap();
    // The other one was written later, whatever the index covers.
    assert_eq!(world.names(), ["b", "a"]);
    let rest = |index: &[u8]| index[64..64 + 168].to_vec();
    let second = write(2, at(start + 20_000));
    assert_eq!(rest(&first), rest(&second));
    assert_eq!(world.names(), ["a", "b"]);
    let third = write(3, at(start + 60_002));
    assert_ne!(rest(&second), rest(&third));
    assert_eq!(world.check(false), []);
    block_on(world.store.release(&lease)).unwrap();
    let settled = fs::read(world.path().join("index")).unwrap();
    assert_eq!(settled[64 + 8..][..8], (start + 60_002).to_le_bytes());
    assert_eq!(settled[64 + 6] & 1, 1);
    assert_eq!(world.check(false), []);
}

#[test]
fn an_index_that_says_something_wrong_is_found_and_put_right() {
    let world = World::new();
    create(&world.store, "a", 1);
    let before = fs::read(world.path().join("index")).unwrap();
    append_at(&world.store, "a", 1, 1, 1, at(9_000)).unwrap();
    fs::write(world.path().join("index"), before).unwrap();
    let found = world.check(false);
    assert!(found[0].problem.contains("has wrong entries for 1 of 1 sessions"), "{found:?}");
    assert!(world.check(true)[0].repaired.is_some());
    assert_eq!(world.check(true), []);
}

#[test]
fn each_filter_finds_its_sessions() {
    let world = World::new();
    let child = SessionHeader { parent: Some(id("a")), ..header("c") };
    let all = [
        header("a"),
        SessionHeader { workdir: Some("/w".into()), ..header("b") },
        SessionHeader { call: Some("call".into()), ..child.clone() },
        SessionHeader { id: id("d"), agent_name: "other".into(), ..child },
        SessionHeader { status: SessionStatus::Failed, ..header("e") },
    ];
    for header in &all {
        create_as(&world.store, header, 0).unwrap();
    }
    let names = |query: SessionQuery| {
        let page = block_on(world.store.list(&query)).unwrap();
        page.sessions.iter().map(|it| it.id.to_string()).collect::<String>()
    };
    let all = SessionQuery::first(9);
    assert_eq!(names(all.clone()), "edcba");
    assert_eq!(names(SessionQuery { workdir: Some("/w".into()), ..all.clone() }), "b");
    assert_eq!(names(SessionQuery { agent_name: Some("other".into()), ..all.clone() }), "d");
    assert_eq!(names(SessionQuery { kinship: SessionRelation::TopLevel, ..all.clone() }), "edba");
    assert_eq!(
        names(SessionQuery { kinship: SessionRelation::ChildOf(id("a")), ..all.clone() }),
        "dc"
    );
    assert_eq!(names(SessionQuery { status: Some(SessionStatus::Failed), ..all.clone() }), "e");
    assert_eq!(names(SessionQuery { limit: 0, ..all.clone() }), "");
    assert_eq!(names(SessionQuery { limit: usize::MAX, ..all }), "edcba");
}

#[test]
fn a_session_that_cannot_be_read_is_told_beside_the_others() {
    let world = World::new();
    create(&world.store, "a", 1);
    create(&world.store, "b", 1);
    fs::write(world.session("a").join("log"), b"x").unwrap();
    fs::create_dir(world.session("c")).unwrap();
    fs::write(world.path().join("sessions/.stray"), b"").unwrap();
    let store = FileStore::open(world.path()).unwrap();
    // The index knows where `a` worked, and nothing of `c`, until it is made anew.
    let mut unreadable = [vec![id("a")], vec![]];
    for _ in 0..2 {
        let query = SessionQuery { workdir: Some("/w".into()), ..SessionQuery::first(9) };
        let [all, of_directory] = unreadable;
        assert_eq!(listed(&store, &SessionQuery::first(9)), (vec![id("b")], all));
        assert_eq!(listed(&store, &query), (vec![], of_directory));
        fs::remove_file(world.path().join("index")).unwrap();
        // Where they worked is not known any more.
        unreadable = [vec![id("c"), id("a")], vec![id("c"), id("a")]];
    }
    let found = world.check(false);
    let ids: Vec<_> = found.iter().map(|it| it.session.as_ref().map(SessionId::as_str)).collect();
    assert_eq!(ids, [None, Some("a"), Some("c")]);
}

/// The sessions of a page, and those that cannot be read.
fn listed(store: &FileStore, query: &SessionQuery) -> (Vec<SessionId>, Vec<SessionId>) {
    let page = block_on(store.list(query)).unwrap();
    (page.sessions.into_iter().map(|it| it.id).collect(), page.unreadable)
}

#[test]
fn a_session_whose_log_is_put_back_is_listed_and_written_as_before() {
    let world = World::new();
    let all = SessionHeader { workdir: Some("/w".into()), ..header("a") };
    create_as(&world.store, &all, 1).unwrap();
    let log = world.session("a").join("log");
    let whole = fs::read(&log).unwrap();
    fs::write(&log, b"x").unwrap();
    fs::remove_file(world.path().join("index")).unwrap();
    let query = SessionQuery { workdir: Some("/w".into()), ..SessionQuery::first(9) };
    assert_eq!(listed(&world.store, &query), (vec![], vec![id("a")]));
    fs::write(&log, whole).unwrap();
    assert_eq!(listed(&world.store, &query), (vec![id("a")], vec![]));
    assert_eq!(world.check(false), []);
    append_at(&world.store, "a", 1, 1, 1, at(9_000)).unwrap();
    assert_eq!(listed(&world.store, &query), (vec![id("a")], vec![]));
    assert_eq!(world.check(false), []);
}

#[test]
fn a_session_is_listed_where_it_works_and_whom_it_works_for_since_its_last_write() {
    let world = World::new();
    for name in ["a", "b"] {
        create(&world.store, name, 0);
    }
    let (workdir, parent): (Arc<str>, _) = ("/w".into(), id("b"));
    let write = |id, expected| AppendRequest {
        id,
        expected,
        batch: ChangeBatch { first: 0, changes: &[] },
        status: None,
        title: None,
        workdir: None,
        parent: None,
        handled: None,
        lease: None,
        now: at(2_000),
    };
    let (a, all) = (id("a"), SessionQuery::first(9));
    block_on(world.store.append(AppendRequest { workdir: Some(&workdir), ..write(&a, 1) }))
        .unwrap();
    let there = SessionQuery { workdir: Some("/w".into()), ..all.clone() };
    assert_eq!(listed(&world.store, &there), (vec![id("a")], vec![]));
    let children = SessionQuery { kinship: SessionRelation::ChildOf(id("b")), ..all };
    assert_eq!(listed(&world.store, &children), (vec![], vec![]));
    block_on(world.store.append(AppendRequest { parent: Some(&parent), ..write(&a, 2) })).unwrap();
    assert_eq!(listed(&world.store, &children), (vec![id("a")], vec![]));
    assert_eq!(listed(&world.store, &there), (vec![id("a")], vec![]));
    assert_eq!(world.check(false), []);
}
