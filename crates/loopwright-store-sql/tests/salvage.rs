//! Damaged files, and what is saved of them.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use loopwright_core::Timestamp;
use loopwright_sessions::{
    Finding, Job, LeaseRequest, Owner, SessionLog, SessionQuery, SessionStatus, SessionStore as _,
    StoreError,
};
use loopwright_store_sql::SqliteStore;
use sqlx::{Connection as _, SqliteConnection, sqlite::SqliteConnectOptions};
use tempfile::TempDir;

use crate::{
    sqlite::put_log_entries_in_order,
    support::{create, id, moment, said, say, say_on, texts},
};

const SESSIONS: usize = 12;
const SAID: usize = 20;
/// What a disk loses at once: eight pages.
const SECTOR: usize = 4096;
/// The bytes in which SQLite counts how often a file was opened for writing, among other things.
const HEAD: usize = 100;

/// What is said as the so manyth thing: every fourth needs more than one page.
fn text(number: usize) -> String {
    let length = if number.is_multiple_of(4) { 6_000 } else { 150 };
    format!("{number} ").repeat(length / 3)
}

fn texts_of(count: usize) -> Vec<String> {
    (0..count).map(text).collect()
}

/// A file with some sessions, closed in good order.
async fn file() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("sessions.db");
    let store = SqliteStore::open(&path).await.unwrap();
    fill(&store).await;
    store.close().await;
    (folder, path)
}

async fn fill(store: &SqliteStore) {
    for session in 0..SESSIONS {
        let name = format!("s{session}");
        create(store, &name).await;
        for number in 0..SAID {
            say(store, &name, number as u64, &text(number)).await.unwrap();
        }
        let notes: [Arc<[u8]>; 1] = [name.as_bytes().into()];
        store.append_log(&id(&name), SessionLog::Files, &notes, None).await.unwrap();
        store.jobs().unwrap().push(&Job::resume(id(&name)), moment(0)).await.unwrap();
    }
}

/// Saves what can be read, shows that what comes out is in order and that each session is the beginning
/// of what it was, and returns what was said about it and how much of each there is.
async fn saved(path: &Path) -> (Vec<Finding>, Vec<usize>) {
    let before = fs::read(path).unwrap();
    let found = SqliteStore::salvage(path).await.unwrap();
    let aside = format!("{}.damaged-1", path.display());
    assert!(fs::read(&aside).unwrap()[HEAD..] == before[HEAD..], "the damaged file was changed");
    let store = SqliteStore::open(path).await.unwrap();
    assert_eq!(store.check(false).await.unwrap(), []);
    let mut lengths = Vec::new();
    for session in 0..SESSIONS {
        let said = texts(&store, &format!("s{session}")).await.unwrap().unwrap_or_default();
        assert_eq!(said, texts_of(said.len()));
        lengths.push(said.len());
    }
    store.close().await;
    (found, lengths)
}

#[tokio::test]
async fn a_file_in_order_is_left_alone() {
    let (folder, path) = file().await;
    let before = fs::read(&path).unwrap();
    assert_eq!(SqliteStore::salvage(&path).await.unwrap(), []);
    assert!(fs::read(&path).unwrap()[HEAD..] == before[HEAD..], "it was changed");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn salvaging_a_missing_file_creates_none() {
    let folder = TempDir::new().unwrap();
    let refused = SqliteStore::salvage(folder.path().join("typo.db")).await.unwrap_err();
    assert!(refused.to_string().contains("typo.db"), "{refused}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_file_whose_beginning_is_zero_is_read_all_the_same() {
    let (_folder, path) = file().await;
    let mut bytes = fs::read(&path).unwrap();
    bytes[..100].fill(0);
    fs::write(&path, bytes).unwrap();
    let (found, lengths) = saved(&path).await;
    assert_eq!(lengths, [SAID; SESSIONS]);
    let aside = format!("the damaged file is kept as `{}.damaged-1`", path.display());
    let repaired = format!("saved {SESSIONS} of the database's sessions to a new file; {aside}");
    assert_eq!(found[0].repaired.as_deref(), Some(&*repaired));
    assert_eq!(found.len(), 1);
    let store = SqliteStore::open(&path).await.unwrap();
    let header = store.header(&id("s3")).await.unwrap().unwrap();
    assert_eq!((header.version, header.updated_at), (1 + SAID as u64, moment(1)));
    let notes = store.read_log(&id("s3"), SessionLog::Files, 0, 9).await.unwrap();
    assert_eq!(notes[0].body.as_ref(), b"s3");
    let jobs = store.jobs().unwrap();
    assert_eq!(jobs.count(loopwright_sessions::JobStatus::Queued).await.unwrap(), SESSIONS as u64);
    say(&store, "s3", SAID as u64, "more").await.unwrap();
}

#[tokio::test]
async fn log_entries_of_an_earlier_version_are_saved() {
    let (_folder, path) = file().await;
    put_log_entries_in_order(&path).await;
    let mut bytes = fs::read(&path).unwrap();
    bytes[..100].fill(0);
    fs::write(&path, bytes).unwrap();
    saved(&path).await;
    let store = SqliteStore::open(&path).await.unwrap();
    for session in 0..SESSIONS {
        let name = format!("s{session}");
        let notes = store.read_log(&id(&name), SessionLog::Files, 0, 9).await.unwrap();
        let notes: Vec<_> = notes.iter().map(|it| (it.number, &*it.body)).collect();
        assert_eq!(notes, [(1, name.as_bytes())]);
    }
}

#[tokio::test]
async fn any_sector_may_be_lost() {
    let (_folder, path) = file().await;
    let whole = fs::read(&path).unwrap();
    let mut left = Vec::new();
    for sector in (0..whole.len() / SECTOR).step_by(every(whole.len() / SECTOR)) {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("sessions.db");
        let mut bytes = whole.clone();
        bytes[sector * SECTOR..][..SECTOR].fill(0xaa);
        fs::write(&path, bytes).unwrap();
        if SqliteStore::salvage(&path).await.unwrap().is_empty() {
            // It is of a long text: the session is told of by the process that looks at all of them.
            let store = SqliteStore::open(&path).await.unwrap();
            store.check(true).await.unwrap();
            assert_eq!(store.check(false).await.unwrap(), []);
            continue;
        }
        // Nothing is lost with what is an index.
        let Ok(()) = fs::rename(format!("{}.damaged-1", path.display()), &path) else {
            let store = SqliteStore::open(&path).await.unwrap();
            assert_eq!(said(&store, "s0").await, texts_of(SAID));
            continue;
        };
        let (_, lengths) = saved(&path).await;
        left.push(lengths.iter().sum::<usize>());
    }
    // It holds what a few sessions said, or what is known of all of them beside that. Two pages in one of them lead
    // to others, and hold a record of each of these: whoever said it ends before it.
    assert!(left.iter().all(|it| *it >= SAID * (SESSIONS - 5)), "{left:?}");
    let most = left.iter().filter(|it| **it >= SAID * (SESSIONS - 2)).count();
    assert!(10 * most >= 9 * left.len(), "{left:?}");
    assert!(!left.is_empty());
}

/// How many sectors are tried of those that could be.
fn every(sectors: usize) -> usize {
    let is_long = std::env::var_os("LOOPWRIGHT_LONG").is_some();
    if is_long { 1 } else { (sectors / 12).max(1) }
}

#[tokio::test]
async fn a_file_that_was_cut_leaves_what_is_before() {
    let (_folder, path) = file().await;
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2 + 1_000]).unwrap();
    let refused = SqliteStore::open(&path).await.unwrap_err();
    assert!(refused.to_string().contains("is damaged"), "{refused}");
    let (found, lengths) = saved(&path).await;
    // A page that leads to others holds a record itself: what comes after it is not the beginning.
    assert!(lengths.iter().sum::<usize>() > 0, "{lengths:?}");
    let store = SqliteStore::open(&path).await.unwrap();
    let all = store.list(&SessionQuery::first(99)).await.unwrap().sessions;
    for header in &all {
        let is_whole = header.length == SAID as u64;
        let told = found.iter().any(|it| it.session.as_ref() == Some(&header.id));
        // It is whole, and what was known of it may be lost all the same.
        assert!(is_whole || told, "{header:?} {found:?}");
        assert_eq!(told, header.status == SessionStatus::Suspended, "{header:?} {found:?}");
    }
}

#[tokio::test]
async fn salvage_derives_the_start_of_a_branch_from_its_changes() {
    let (_folder, path) = file().await;
    let store = SqliteStore::open(&path).await.unwrap();
    let name = id("s2");
    let mut version = 1 + SAID as u64;
    for at in [15, 9] {
        version = store.rewind(&name, version, at, None, moment(2)).await.unwrap();
    }
    say_on(&store, "s2", version, 9, "other").await.unwrap();
    let before = said(&store, "s2").await;
    store.close().await;
    let page = root_of("branches", &path).await;
    let mut bytes = fs::read(&path).unwrap();
    let size = usize::from(u16::from_be_bytes([bytes[16], bytes[17]]));
    bytes[(page - 1) * size..][..size].fill(0);
    fs::write(&path, bytes).unwrap();
    SqliteStore::salvage(&path).await.unwrap();
    let store = SqliteStore::open(&path).await.unwrap();
    assert_eq!(said(&store, "s2").await, before);
}

/// Returns the page from which a table is reached.
async fn root_of(table: &str, path: &Path) -> usize {
    let options = SqliteConnectOptions::new().filename(path);
    let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
    let sql = "SELECT rootpage FROM sqlite_schema WHERE name = $1";
    let page: i64 = sqlx::query_scalar(sql).bind(table).fetch_one(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    usize::try_from(page).unwrap()
}

#[tokio::test]
async fn rows_that_only_the_wal_holds_are_salvaged() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("sessions.db");
    let store = SqliteStore::open(&path).await.unwrap();
    fill(&store).await;
    let copy = folder.path().join("copy.db");
    let mut bytes = fs::read(&path).unwrap();
    bytes[..100].fill(0);
    fs::write(&copy, bytes).unwrap();
    fs::copy(folder.path().join("sessions.db-wal"), folder.path().join("copy.db-wal")).unwrap();
    let found = SqliteStore::salvage(&copy).await.unwrap();
    let store = SqliteStore::open(&copy).await.unwrap();
    for session in 0..SESSIONS {
        let said = said(&store, &format!("s{session}")).await;
        assert_eq!(said, texts_of(SAID), "{found:?}");
    }
}

#[tokio::test]
async fn a_database_in_use_is_not_salvaged() {
    let (folder, path) = file().await;
    let store = SqliteStore::open(&path).await.unwrap();
    let owner = Owner::this_process().to_string();
    let now = Timestamp::from(SystemTime::now());
    let lasts = Duration::from_mins(15);
    let claim = LeaseRequest { owner: &owner, replaces: None, now, ttl: lasts };
    store.lease(&id("s1"), claim).await.unwrap();
    store.close().await;
    let mut bytes = fs::read(&path).unwrap();
    bytes[..100].fill(0);
    fs::write(&path, &bytes).unwrap();
    let refused = SqliteStore::salvage(&path).await.unwrap_err();
    let expect = format!("is in use by process {}; stop that process first", std::process::id());
    assert!(refused.to_string().contains(&expect), "{refused}");
    assert!(fs::read(&path).unwrap() == bytes, "it was changed");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_database_of_another_program_is_not_salvaged() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("photo.jpg");
    let bytes = [0x0d, 0xff, 0x0a, 7].repeat(9_000);
    fs::write(&path, &bytes).unwrap();
    let refused = SqliteStore::salvage(&path).await.unwrap_err();
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused:?}");
    assert!(refused.to_string().contains("is not a session store"), "{refused}");
    assert!(fs::read(&path).unwrap() == bytes, "it was changed");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}
