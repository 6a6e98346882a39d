//! What is acknowledged is on the disk.

use std::{
    cell::RefCell,
    path::{Path, PathBuf},
    sync::Arc,
};

use loopwright_core::Timestamp;

use crate::{
    SessionHeader, SessionId,
    file::{
        append_mode::AppendMode,
        create::New,
        root::Root,
        session::{Addition, Session},
    },
    store::{LeaseRequest, SessionLog, StoreError},
};

thread_local! {
    static SYNCED: RefCell<Vec<PathBuf>> = const { RefCell::new(Vec::new()) };
}

/// Notes a file or directory whose content is on the disk.
pub(super) fn note_synced(path: &Path) {
    SYNCED.with_borrow_mut(|it| it.push(path.to_owned()));
}

struct World {
    dir: tempfile::TempDir,
    root: Root,
    id: SessionId,
}

impl World {
    /// A store that holds the session `a`.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(&dir.path().join("store"), AppendMode::Inline).unwrap();
        let world = Self { dir, root, id: SessionId::new("a").unwrap() };
        world.synced();
        world.create("a");
        world
    }

    fn create(&self, name: &str) {
        let id = SessionId::new(name).unwrap();
        let header = SessionHeader::new(id, "agent", now());
        let (definition, changes) = (b"{}".to_vec(), Vec::new());
        self.root.create(New { header, definition, count: 0, changes }).unwrap();
    }

    fn with<T>(&self, work: impl FnOnce(&mut Session<'_>) -> Result<T, StoreError>) -> T {
        let mut session = Session::open(&self.root, &self.id).unwrap();
        let came = work(&mut session);
        session.ended(came).unwrap()
    }

    /// What was waited for since the last time, below the store's directory; without the random part of names.
    fn synced(&self) -> Vec<String> {
        let path = self.dir.path().join("store");
        let synced = SYNCED.with_borrow_mut(std::mem::take);
        let relative = |it: PathBuf| match it.strip_prefix(&path) {
            Ok(below) => below.display().to_string(),
            Err(_) => it.strip_prefix(self.dir.path()).unwrap_or(&it).display().to_string(),
        };
        synced.into_iter().map(relative).map(|it| without_random_part(&it)).collect()
    }
}

fn without_random_part(path: &str) -> String {
    let is_random = |part: &str| part.len() == 32;
    let parts = path.split('/').map(|part| match part.split_once('.') {
        Some((name, rest)) if is_random(rest) => name,
        _ => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

fn now() -> Timestamp {
    Timestamp::from_millis(1_000)
}

fn addition() -> Addition {
    Addition {
        expected: 1,
        first: 0,
        count: 1,
        body: b"[{}]".to_vec(),
        print: "print".into(),
        status: None,
        title: None,
        workdir: None,
        parent: None,
        handled: None,
        now: now(),
    }
}

#[test]
fn a_session_that_was_created_is_on_the_disk_with_its_name() {
    let world = World::new();
    world.synced();
    world.create("b");
    assert_eq!(world.synced(), ["incoming/b/log", "incoming/b", "sessions"]);
}

#[test]
fn the_directories_of_a_new_store_are_on_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    Root::open(&dir.path().join("store"), AppendMode::Inline).unwrap();
    let synced = SYNCED.with_borrow_mut(std::mem::take);
    assert_eq!(synced, [dir.path().join("store"), dir.path().to_owned()]);
}

#[test]
fn an_append_is_durable_with_all_earlier_appends() {
    let world = World::new();
    world.synced();
    for _ in 0..2 {
        assert_eq!(world.with(|it| it.append(addition(), None)), 2);
        assert_eq!(world.synced(), ["sessions/a/log"]);
    }
}

#[test]
fn a_lease_that_was_taken_is_on_the_disk() {
    let world = World::new();
    world.synced();
    let lasts = std::time::Duration::from_secs(30);
    world.with(|it| it.lease(LeaseRequest { owner: "me", replaces: None, now: now(), ttl: lasts }));
    assert_eq!(world.synced(), ["sessions/a/lease.new", "sessions/a"]);
}

#[test]
fn a_new_log_of_notes_is_on_the_disk_with_its_name() {
    let world = World::new();
    world.synced();
    let note: Arc<[u8]> = b"note"[..].into();
    let noted = || {
        world.with(|it| it.note(SessionLog::Events, std::slice::from_ref(&note), None));
        world.synced()
    };
    assert_eq!(noted(), ["sessions/a", "sessions/a/events"]);
    assert_eq!(noted(), ["sessions/a/events"]);
}

#[test]
fn a_torn_record_is_backed_up_durably_before_it_is_removed() {
    let world = World::new();
    let log = world.root.sessions().join("a/log");
    let torn = [std::fs::read(&log).unwrap(), b"torn".to_vec()].concat();
    std::fs::write(&log, torn).unwrap();
    world.synced();
    world.with(|it| it.append(addition(), None));
    assert_eq!(world.synced(), ["sessions/a/log.torn-1", "sessions/a", "sessions/a/log"]);
    assert_eq!(std::fs::read(log.with_file_name("log.torn-1")).unwrap(), b"torn");
}

#[test]
fn a_backup_is_on_the_disk_with_all_its_names() {
    let world = World::new();
    world.synced();
    world.root.back_up(&world.dir.path().join("copy")).unwrap();
    let mut synced = world.synced();
    // Whole before it has its name, and the name too.
    let names = synced.split_off(synced.len() - 3);
    assert_eq!(names, ["copy.partial/sessions", "copy.partial", ""]);
}
