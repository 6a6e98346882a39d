//! The store in files.

mod faults;
mod kept;
mod listing;
mod many;
mod model;
mod order;
mod torn;
mod world;

use std::fs;

use futures::executor::block_on;
use loopwright_sessions::{AppendMode, FileStore, SessionStatus, conformance};

use world::{World, append, create, id, said};

#[test]
fn a_store_in_files_does_what_every_store_must() {
    for (fact, blocking) in conformance::CASES
        .iter()
        .flat_map(|fact| [AppendMode::Offload, AppendMode::Inline].map(|blocking| (fact, blocking)))
    {
        println!("{} ({blocking:?})", fact.name);
        let dir = tempfile::tempdir().unwrap();
        let store = FileStore::open_with(dir.path(), blocking).unwrap();
        block_on((fact.check)(&store));
    }
}

#[test]
fn a_store_in_files_wakes_its_readers() {
    for fact in conformance::WAKE_CASES {
        println!("{}", fact.name);
        let dir = tempfile::tempdir().unwrap();
        block_on((fact.check)(&FileStore::open(dir.path()).unwrap()));
    }
}

#[test]
fn written_sessions_are_there_after_reopening() {
    let world = World::new();
    create(&world.store, "a", 2);
    append(&world.store, "a", 1, 2, 3).unwrap();
    let before = world.load("a").unwrap();
    assert_eq!(before.as_ref().map(|it| it.changes.clone()), Some(said(0, 5)));
    let world = world.reopened();
    assert_eq!(world.load("a").unwrap(), before);
    assert_eq!(append(&world.store, "a", 2, 5, 1).unwrap(), 3);
}

#[test]
fn two_handles_see_what_the_other_wrote() {
    let world = World::new();
    let other = FileStore::open(world.path()).unwrap();
    create(&world.store, "a", 0);
    for round in 0..4 {
        append(&world.store, "a", 1 + 2 * round, 2 * round, 1).unwrap();
        append(&other, "a", 2 + 2 * round, 2 * round + 1, 1).unwrap();
    }
    assert_eq!(world.load("a").unwrap().unwrap().changes.len(), 8);
    let stale = append(&world.store, "a", 8, 7, 2).unwrap_err();
    assert!(stale.to_string().contains("another writer changed it"), "{stale}");
}

#[cfg(unix)]
#[test]
fn stored_files_are_private_to_the_user() {
    use loopwright_sessions::{ControlMessage, SessionLog, SessionStore as _};
    use std::os::unix::fs::PermissionsExt as _;

    let world = World::new();
    create(&world.store, "a", 1);
    append(&world.store, "a", 1, 1, 1).unwrap();
    block_on(async {
        world.store.send_control(&id("a"), &ControlMessage::Stop).await.unwrap();
        world
            .store
            .append_log(&id("a"), SessionLog::Events, &[b"1"[..].into()], None)
            .await
            .unwrap();
        world.store.lease(&id("a"), world::claim("me")).await.unwrap();
    });
    let mut seen = 0;
    let mut places = vec![world.path()];
    while let Some(place) = places.pop() {
        let mode = fs::metadata(&place).unwrap().permissions().mode() & 0o777;
        seen += 1;
        if place.is_dir() {
            assert_eq!(mode, 0o700, "{}", place.display());
            places.extend(fs::read_dir(place).unwrap().map(|it| it.unwrap().path()));
        } else {
            assert_eq!(mode, 0o600, "{}", place.display());
        }
    }
    // The root, its three directories, index and two locks; and the session's directory with five files.
    assert!(seen >= 12, "only {seen} files were there");
}

#[cfg(unix)]
#[test]
fn a_link_is_not_followed() {
    let (world, elsewhere) = (World::new(), World::new());
    create(&elsewhere.store, "a", 1);
    std::os::unix::fs::symlink(elsewhere.session("a"), world.session("a")).unwrap();
    let error = world.load("a").unwrap_err().to_string();
    assert!(error.contains("is not a directory"), "{error}");
    let found = world.check(false);
    let found: Vec<_> = found.iter().map(|it| (it.session.clone(), &*it.problem)).collect();
    assert!(
        matches!(&found[..], [(Some(it), problem)] if *it == id("a") && problem.contains("is not a directory")),
        "{found:?}"
    );

    create(&world.store, "b", 1);
    fs::remove_file(world.session("b").join("log")).unwrap();
    std::os::unix::fs::symlink(elsewhere.session("a").join("log"), world.session("b").join("log"))
        .unwrap();
    assert!(world.load("b").is_err());
    assert!(append(&world.reopened().store, "b", 1, 1, 1).is_err());
}

#[test]
fn a_clock_that_was_set_back_changes_no_order() {
    use loopwright_sessions::SessionStore as _;

    let world = World::new();
    create(&world.store, "a", 1);
    create(&world.store, "b", 1);
    let at = |millis| loopwright_core::Timestamp::from_millis(millis);
    world::append_at(&world.store, "a", 1, 1, 1, at(9_000)).unwrap();
    world::append_at(&world.store, "a", 2, 2, 1, at(1)).unwrap();
    world::append_at(&world.store, "b", 1, 1, 1, at(5_000)).unwrap();
    assert_eq!(world.names(), ["a", "b"]);
    let header = block_on(world.store.header(&id("a"))).unwrap().unwrap();
    assert_eq!((header.updated_at, header.status), (at(9_000), SessionStatus::Active));
}

#[test]
fn a_log_of_a_later_form_is_left_to_a_later_program() {
    let world = World::new();
    create(&world.store, "a", 1);
    let log = world.session("a").join("log");
    world::rewrite_head(&log, "\"format\":1", "\"format\":9");
    let (loaded, written) = (world.load("a"), append(&world.store, "a", 1, 1, 1));
    for error in [loaded.unwrap_err(), written.unwrap_err()] {
        assert!(error.to_string().contains("format 9"), "{error}");
        assert!(error.to_string().contains("update the program"), "{error}");
    }
    let findings = world.check(true);
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].repaired, None);
    assert!(log.exists());
}
