//! Every file of every store, damaged in every way.
//!
//! One rule: nothing that was acknowledged is missing or altered without being named. What is damaged in the files of
//! one session leaves all others as they are.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

use loopwright_agent::AgentDefinition;
use loopwright_core::{
    Change, ChangeRecord, Edit, Timestamp,
    messages::{Message, SectionName},
};
use loopwright_sessions::{
    AppendRequest, ChangeBatch, NewSession, SessionHeader, SessionId, SessionLog, SessionQuery,
    SessionStore,
};
use loopwright_survival::open::open;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

const SESSIONS: usize = 3;
const WRITES: u64 = 6;

/// What happens to a file.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Delete,
    CutAt(usize),
    FlipAt(usize),
    /// Bytes that a disk lost.
    ZeroFrom(usize),
    /// Bytes of something else.
    FillFrom(usize),
}

impl Damage {
    fn apply(self, path: &Path) {
        let mut bytes = fs::read(path).unwrap();
        let range = |at: usize| at..(at + 64).min(bytes.len());
        match self {
            Self::Delete => return fs::remove_file(path).unwrap(),
            Self::CutAt(at) => bytes.truncate(at),
            Self::FlipAt(at) => bytes[at] ^= 1 << (at % 8),
            Self::ZeroFrom(at) => {
                let range = range(at);
                bytes[range].fill(0);
            }
            Self::FillFrom(at) => {
                let range = range(at);
                bytes[range].fill(0x55);
            }
        }
        fs::write(path, bytes).unwrap();
    }

    /// Every kind of damage, at some places of a file of so many bytes.
    fn all(length: usize) -> Vec<Self> {
        let is_long = std::env::var_os("LOOPWRIGHT_LONG").is_some();
        let step = (length / if is_long { 60 } else { 2 }).max(1) | 1;
        let places = (0..length).rev().step_by(step);
        let at = |at| [Self::CutAt(at), Self::FlipAt(at), Self::ZeroFrom(at), Self::FillFrom(at)];
        [Self::Delete].into_iter().chain(places.flat_map(at)).collect()
    }
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn id(number: usize) -> SessionId {
    SessionId::new(format!("s{number}")).unwrap()
}

/// What is written to a session as the so manyth change.
fn said(number: u64) -> ChangeRecord {
    let section = SectionName::MESSAGES.into();
    let message = Message::user(format!("message {number}"));
    let change = Change::StateEdited { by: "test".into(), edit: Edit::Append { section, message } };
    ChangeRecord { at: Timestamp::from_millis(1), change }
}

/// Writes some sessions, each as a session of its own would be written.
async fn fill(store: &dyn SessionStore) {
    let definition = AgentDefinition::new("agent", "does things", "You do things.");
    for number in 0..SESSIONS {
        let now = Timestamp::from_millis(1_000 + number as u64);
        let (id, first) = (id(number), [said(0)]);
        let header = SessionHeader::new(id.clone(), "agent", now);
        let new = NewSession { header: &header, definition: &definition, changes: &first };
        store.create(new).await.unwrap();
        for write in 1..WRITES {
            let changes = [said(write)];
            let batch = ChangeBatch { first: write, changes: &changes };
            store.append(AppendRequest::new(&id, write, batch, now)).await.unwrap();
        }
        store
            .append_log(&id, SessionLog::Files, &[b"noted".as_slice().into()], None)
            .await
            .unwrap();
    }
}

/// The files below a folder, by their paths in it.
fn files(folder: &Path, below: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder.join(below)).unwrap() {
        let path = below.join(entry.unwrap().file_name());
        if folder.join(&path).is_dir() {
            files(folder, &path, found);
        } else {
            found.push(path);
        }
    }
    found.sort();
}

fn copy(from: &Path, all: &[PathBuf]) -> TempDir {
    let to = TempDir::new().unwrap();
    for path in all {
        fs::create_dir_all(to.path().join(path).parent().unwrap()).unwrap();
        fs::copy(from.join(path), to.path().join(path)).unwrap();
    }
    to
}

/// Says whether a session has all that was acknowledged, and panics if something is missing that nothing names.
async fn is_whole(store: &dyn SessionStore, id: &SessionId, what: &dyn fmt::Display) -> bool {
    let Ok(loaded) = store.load(id).await else { return false };
    let changes = loaded.map(|it| it.changes).unwrap_or_default();
    let expect: Vec<_> = (0..WRITES).map(said).collect();
    assert!(expect.starts_with(&changes), "{what}: {id} holds {changes:?}");
    if changes.len() == expect.len() {
        return true;
    }
    let is_missing = !matches!(store.missing(id).await, Ok(None));
    let is_found = store.check(false).await.map_or(true, |it| !it.is_empty());
    let list = store.list(&SessionQuery::first(9)).await;
    let is_listed = list.map_or(true, |it| it.unreadable.contains(id));
    // What is left of it is told to the process that opens it; if nothing is left, the list and the check tell.
    let is_named = if changes.is_empty() { is_listed || is_found } else { is_missing };
    assert!(is_named, "{what}: {id} has {} of {WRITES} changes", changes.len());
    false
}

/// Damages each file of a store in every way.
fn each_damage_is_named(scheme: &str, name: &str, is_closed: bool) {
    let (runtime, origin) = (runtime(), TempDir::new().unwrap());
    let url = |folder: &Path| format!("{scheme}:{}", folder.join(name).display());
    let store = runtime.block_on(open(&url(origin.path()))).unwrap();
    runtime.block_on(fill(&*store));
    if is_closed {
        runtime.block_on(store.close());
    }
    let mut all = Vec::new();
    files(origin.path(), Path::new(""), &mut all);
    let (mut tried, mut whole) = (0, 0);
    for path in &all {
        let length = fs::metadata(origin.path().join(path)).unwrap().len();
        for damage in Damage::all(usize::try_from(length).unwrap()) {
            // A store that is gone as a whole is a new one.
            if all.len() == 1 && matches!(damage, Damage::Delete | Damage::CutAt(0)) {
                continue;
            }
            let folder = copy(origin.path(), &all);
            damage.apply(&folder.path().join(path));
            let what = format!("{scheme}: {} {damage:?}", path.display());
            tried += 1;
            runtime.block_on(async {
                let Ok(store) = open(&url(folder.path())).await else { return };
                for number in 0..SESSIONS {
                    let is_whole = is_whole(&*store, &id(number), &what).await;
                    whole += usize::from(is_whole);
                    let is_own = path.components().any(|it| it.as_os_str() == id(number).as_str());
                    let of_others = scheme == "files" && !is_own;
                    assert!(is_whole || !of_others, "{what}: {} is not whole", id(number));
                }
                store.close().await;
            });
        }
    }
    println!("{scheme}: {tried} damages of {} files, {whole} sessions whole", all.len());
    assert!(whole > 0 && whole < tried * SESSIONS, "{scheme}: {whole} of {tried}");
}

#[test]
fn each_damage_to_a_store_in_files_is_named() {
    each_damage_is_named("files", "sessions", true);
}

#[test]
fn each_damage_to_a_closed_database_is_named() {
    each_damage_is_named("sqlite", "sessions.db", true);
}

#[test]
fn each_damage_to_a_database_whose_process_was_killed_is_named() {
    each_damage_is_named("sqlite", "sessions.db", false);
}
