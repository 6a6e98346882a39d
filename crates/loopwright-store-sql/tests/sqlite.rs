//! SQLite.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use loopwright_sessions::{
    ClaimRequest, Finding, Job, JobOutcome, LeaseRequest, SessionLog, SessionStatus, SessionStore,
    StoreError, conformance,
};
use loopwright_store_sql::{SqlError, SqliteStore};
use sqlx::{AssertSqlSafe, Connection as _, SqliteConnection, sqlite::SqliteConnectOptions};
use tempfile::TempDir;

use crate::support::{
    create, each_job_is_claimed_once, id, is_kept, keep, moment, older_workers_share_the_queue,
    one_writer_wins_each_version, said, say, texts,
};

/// A folder, and the path of a file in it.
pub(crate) fn place() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("sessions.db");
    (folder, path)
}

pub(crate) async fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path).await.unwrap()
}

/// Runs statements in a file as anybody could.
pub(crate) async fn script(path: &Path, sql: &str) {
    let options = SqliteConnectOptions::new().filename(path).foreign_keys(false);
    let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

/// Makes an empty file for this user only.
fn empty(path: &Path) {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    drop(options.open(path).unwrap());
}

#[tokio::test]
async fn sqlite_schedules_jobs_as_every_scheduler_must() {
    for fact in conformance::SCHEDULER_CASES.iter().chain(conformance::ORDER_CASES) {
        println!("{}", fact.name);
        let (_folder, path) = place();
        (fact.check)(&conformance::QueueUnderTest(&open(&path).await)).await;
    }
}

#[tokio::test]
async fn sqlite_is_a_queue_as_every_queue_must_be() {
    for fact in conformance::JOB_CASES {
        println!("{}", fact.name);
        let (_folder, path) = place();
        (fact.check)(&open(&path).await).await;
    }
}

#[tokio::test]
async fn sqlite_counts_usage_as_every_ledger_must() {
    for fact in conformance::LEDGER_CASES {
        println!("{}", fact.name);
        let (_folder, path) = place();
        (fact.check)(&open(&path).await).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_job_of_a_file_is_claimed_once_however_many_claim() {
    let (_folder, path) = place();
    let stores: Vec<Arc<dyn SessionStore>> =
        vec![Arc::new(open(&path).await), Arc::new(open(&path).await)];
    each_job_is_claimed_once(stores).await;
}

#[tokio::test]
async fn sqlite_does_what_every_store_must() {
    for fact in conformance::CASES {
        println!("{}", fact.name);
        let (_folder, path) = place();
        (fact.check)(&open(&path).await).await;
    }
}

#[tokio::test]
async fn sqlite_wakes_its_readers() {
    for fact in conformance::WAKE_CASES {
        println!("{}", fact.name);
        let (_folder, path) = place();
        (fact.check)(&open(&path).await).await;
    }
}

#[tokio::test]
async fn sessions_in_a_file_are_there_when_it_is_opened_again() {
    let (_folder, path) = place();
    keep(&open(&path).await).await;
    is_kept(&open(&path).await).await;
}

#[tokio::test]
async fn a_file_may_be_open_twice() {
    let (_folder, path) = place();
    let (one, other) = (open(&path).await, open(&path).await);
    keep(&one).await;
    is_kept(&other).await;
    assert_eq!(said(&one, "a").await, ["one", "two"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_made_once_however_many_open_it() {
    let (_folder, path) = place();
    let opened = (0..16).map(|number| {
        let path = path.clone();
        tokio::spawn(async move { create(&open(&path).await, &format!("s{number}")).await })
    });
    for opened in opened.collect::<Vec<_>>() {
        opened.await.unwrap();
    }
    let all = loopwright_sessions::SessionQuery::first(99);
    assert_eq!(open(&path).await.list(&all).await.unwrap().len(), 16);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_writers_of_a_file_wins_each_version() {
    let (_folder, path) = place();
    let (one, other) = (open(&path).await, open(&path).await);
    one_writer_wins_each_version(vec![Arc::new(one), Arc::new(other)]).await;
}

#[cfg(unix)]
fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[cfg(unix)]
#[tokio::test]
async fn files_and_the_directories_made_for_them_are_for_this_user_only() {
    let (folder, _) = place();
    let path = folder.path().join("state/loopwright/sessions.db");
    let store = open(&path).await;
    keep(&store).await;
    let mut modes: Vec<_> = fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|entry| (entry.as_ref().unwrap().file_name(), mode(&entry.unwrap().path())))
        .collect();
    modes.sort();
    let expect = ["sessions.db", "sessions.db-acknowledged", "sessions.db-shm", "sessions.db-wal"];
    assert_eq!(modes, expect.map(|name| (name.into(), 0o600)));
    for folder in [path.parent().unwrap(), path.parent().unwrap().parent().unwrap()] {
        assert_eq!(mode(folder), 0o700);
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_others_may_read_is_told_of_and_closed_to_them() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_folder, path) = place();
    let store = open(&path).await;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let problem = format!("other users can access `{}`: the mode is 644", path.display());
    let finding = Finding { session: None, problem, repaired: None };
    let found = store.check(false).await.unwrap();
    assert_eq!(found, std::slice::from_ref(&finding));
    let repaired = Some("the mode is now 600".to_owned());
    assert_eq!(store.check(true).await.unwrap(), [Finding { repaired, ..finding }]);
    assert_eq!((mode(&path), store.check(false).await.unwrap()), (0o600, Vec::new()));
}

#[tokio::test]
async fn a_file_of_the_first_version_is_brought_up_to_date() {
    let (_folder, path) = place();
    empty(&path);
    script(&path, include_str!("samples/sqlite-1.sql")).await;
    let store = open(&path).await;
    crate::samples::is_whole(&store).await;
    // It is not done twice.
    let again = open(&path).await;
    crate::samples::is_whole(&again).await;
    crate::samples::is_delivered(&again).await;
}

/// Gives the log entries of a file the form that they had before version 9.
pub(crate) async fn put_log_entries_in_order(path: &Path) {
    let sql = "
        CREATE TABLE in_order (
            session INTEGER NOT NULL REFERENCES sessions (key),
            log TEXT NOT NULL,
            number INTEGER NOT NULL,
            body BLOB NOT NULL,
            PRIMARY KEY (session, log, number)
        ) STRICT, WITHOUT ROWID;
        INSERT INTO in_order SELECT session, log, number, body FROM log_entries;
        DROP TABLE log_entries;
        ALTER TABLE in_order RENAME TO log_entries;
        PRAGMA user_version = 8;
        VACUUM";
    script(path, sql).await;
}

#[tokio::test]
async fn log_entries_of_an_earlier_version_are_kept_and_get_row_numbers() {
    let (_folder, path) = place();
    let store = open(&path).await;
    create(&store, "a").await;
    let entries: Vec<Arc<[u8]>> = (0..100u8).map(|it| vec![it].into()).collect();
    store.append_log(&id("a"), SessionLog::Events, &entries, None).await.unwrap();
    store.append_log(&id("a"), SessionLog::Files, &entries[7..8], None).await.unwrap();
    store.close().await;
    put_log_entries_in_order(&path).await;
    let store = open(&path).await;
    let read = async |log| {
        let read = store.read_log(&id("a"), log, 0, 999).await.unwrap();
        read.iter().map(|it| (it.number, it.body[0])).collect::<Vec<_>>()
    };
    let events: Vec<_> = (0..100u8).map(|it| (u64::from(it) + 1, it)).collect();
    assert_eq!(read(SessionLog::Events).await, events);
    assert_eq!(read(SessionLog::Files).await, [(1, 7)]);
    assert_eq!(store.check(false).await.unwrap(), []);
    // Only rows with numbers have this column.
    script(&path, "SELECT MAX(rowid) FROM log_entries").await;
}

#[tokio::test]
async fn a_file_of_a_newer_version_is_refused_and_left_as_it_is() {
    let (_folder, path) = place();
    keep(&open(&path).await).await;
    script(&path, "PRAGMA user_version = 99; CREATE TABLE more (a)").await;
    let refused = SqliteStore::open(&path).await.unwrap_err();
    assert!(matches!(refused, SqlError::Newer { found: 99, known: 9, .. }), "{refused:?}");
    assert!(refused.to_string().ends_with("update the program"), "{refused}");
    script(&path, "PRAGMA user_version = 9").await;
    is_kept(&open(&path).await).await;
}

#[tokio::test]
async fn a_session_of_a_newer_form_is_refused_and_the_others_are_not() {
    let (_folder, path) = place();
    let store = open(&path).await;
    keep(&store).await;
    create(&store, "b").await;
    script(&path, "UPDATE sessions SET format = 99 WHERE id = 'b'").await;
    let refused = texts(&store, "b").await.unwrap_err();
    assert!(refused.to_string().ends_with("update the program"), "{refused}");
    assert!(matches!(refused, StoreError::Corrupt { .. }), "{refused:?}");
    assert!(say(&store, "b", 0, "x").await.is_err());
    is_kept(&store).await;
}

#[tokio::test]
async fn a_database_of_another_program_is_left_alone() {
    let (folder, path) = place();
    fs::write(&path, "not a database, and longer than the beginning of one would be".repeat(9))
        .unwrap();
    let other = folder.path().join("other.db");
    empty(&other);
    script(&other, "CREATE TABLE songs (name)").await;
    for path in [path, other] {
        let before = fs::read(&path).unwrap();
        let refused = SqliteStore::open(&path).await.unwrap_err();
        assert!(matches!(refused, SqlError::NotAStore { .. }), "{refused:?}");
        assert!(fs::read(&path).unwrap() == before, "it was changed");
    }
}

#[tokio::test]
async fn a_place_where_nothing_can_be_made_is_told() {
    let (_folder, path) = place();
    fs::write(&path, "").unwrap();
    let refused = SqliteStore::open(path.join("sessions.db")).await.unwrap_err();
    assert!(matches!(refused, SqlError::Place { .. }), "{refused:?}");
    let refused = SqliteStore::open(path.parent().unwrap()).await.unwrap_err();
    assert!(matches!(refused, SqlError::Closed { .. }), "{refused:?}");
}

#[tokio::test]
async fn a_session_that_lost_changes_goes_on_from_what_can_be_read() {
    let (_folder, path) = place();
    let store = open(&path).await;
    for name in ["a", "b"] {
        create(&store, name).await;
        for (number, text) in (0..).zip(["one", "two", "three"]) {
            say(&store, name, number, text).await.unwrap();
        }
    }
    let spoilt = "UPDATE batches SET body = X'5b7b' WHERE first = 1 AND session = 1";
    script(&path, spoilt).await;
    let unreadable = texts(&store, "a").await.unwrap_err();
    assert!(matches!(unreadable, StoreError::Corrupt { .. }), "{unreadable:?}");
    let found = store.check(false).await.unwrap();
    assert_eq!(found.iter().map(|it| it.session.clone()).collect::<Vec<_>>(), [Some(id("a"))]);
    assert!(found[0].problem.starts_with("the batch at change 1: "), "{found:?}");
    let repaired = store.check(true).await.unwrap();
    let said_so =
        "when the session is resumed, it is read only up to change 1; later tool calls may have taken effect; no session was deleted"
            .to_owned();
    assert_eq!(repaired, [Finding { repaired: Some(said_so), ..found[0].clone() }]);
    assert_eq!(said(&store, "a").await, ["one"]);
    assert_eq!(said(&store, "b").await, ["one", "two", "three"]);
    assert_eq!(store.check(false).await.unwrap(), []);
    let header = store.header(&id("a")).await.unwrap().unwrap();
    assert_eq!((header.version, header.length, header.updated_at), (5, 1, moment(1)));
    // What was lost may have taken effect, so it does not continue by itself.
    assert_eq!(header.status, SessionStatus::Suspended);
}

#[tokio::test]
async fn lines_that_run_in_a_circle_are_told() {
    let (_folder, path) = place();
    let store = open(&path).await;
    keep(&store).await;
    script(&path, "UPDATE branches SET from_session = session, from_branch = branch, at = 1").await;
    let is_error =
        matches!(texts(&store, "a").await, Ok(Some(_)) | Err(StoreError::Corrupt { .. }));
    assert!(is_error, "it ends");
}

/// Writes ten times, and returns the file and what SQLite keeps beside it.
async fn written(path: &Path) -> (Vec<u8>, Vec<u8>) {
    let store = open(path).await;
    create(&store, "a").await;
    for number in 0..10 {
        say(&store, "a", number, &format!("{number}")).await.unwrap();
    }
    (fs::read(path).unwrap(), fs::read(format!("{}-wal", path.display())).unwrap())
}

/// Shows that what can be read of a copy is the beginning of what was said.
async fn is_beginning(file: &[u8], log: &[u8], what: &str) -> usize {
    let (_folder, path) = place();
    fs::write(&path, file).unwrap();
    fs::write(format!("{}-wal", path.display()), log).unwrap();
    let store = open(&path).await;
    let said = texts(&store, "a").await.unwrap().unwrap_or_default();
    let all: Vec<_> = (0..10).map(|number| number.to_string()).collect();
    assert!(all.starts_with(&said), "{what}: {said:?}");
    said.len()
}

/// How many places are tried of those that could be.
fn every(places: usize) -> usize {
    let is_long = std::env::var_os("LOOPWRIGHT_LONG").is_some();
    if is_long { 1 } else { (places / 60).max(1) | 1 }
}

#[tokio::test]
async fn a_log_that_was_cut_anywhere_leaves_the_beginning() {
    let (_folder, path) = place();
    let (file, log) = written(&path).await;
    let mut lengths = Vec::new();
    for end in (0..=log.len()).rev().step_by(every(log.len())) {
        lengths.push(is_beginning(&file, &log[..end], &format!("cut at {end}")).await);
    }
    assert!(lengths.is_sorted_by(|a, b| a >= b), "{lengths:?}");
    assert_eq!((lengths.first(), lengths.last()), (Some(&10), Some(&0)));
}

#[tokio::test]
async fn a_log_that_was_spoilt_in_its_last_write_leaves_the_beginning() {
    let (_folder, path) = place();
    let (file, log) = written(&path).await;
    // A page, whose size is in the log's head, and what stands before it.
    let page = log[8..].first_chunk().map(|it| u32::from_be_bytes(*it)).unwrap();
    let last = log.len() - (page as usize + 24);
    for place in (last..log.len()).step_by(every(log.len() - last)) {
        let mut log = log.clone();
        log[place] ^= 0x55;
        let length = is_beginning(&file, &log, &format!("spoilt at {place}")).await;
        assert!(length >= 9, "spoilt at {place}: {length}");
    }
}

#[tokio::test]
async fn a_file_that_was_spoilt_anywhere_is_told_or_read() {
    let (_folder, path) = place();
    let (mut file, log) = written(&path).await;
    {
        let store = open(&path).await;
        store.reclaim(false).await.unwrap();
        drop((log, store));
        file = fs::read(&path).unwrap_or(file);
    }
    let mut told = 0;
    for place in (0..file.len()).step_by(every(file.len())) {
        let (_folder, path) = self::place();
        let mut spoilt = file.clone();
        for byte in spoilt.iter_mut().skip(place).take(64) {
            *byte ^= 0x55;
        }
        fs::write(&path, spoilt).unwrap();
        let Ok(store) = SqliteStore::open(&path).await else {
            told += 1;
            continue;
        };
        let (read, checked) = (texts(&store, "a").await, store.check(true).await);
        told += usize::from(read.is_err() || checked.is_ok_and(|it| !it.is_empty()));
    }
    assert!(told > 0);
}

#[tokio::test]
async fn leases_and_jobs_of_sqlite_last_by_the_clock_of_the_caller() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("sessions.db")).await.unwrap();
    create(&store, "a").await;
    let lasts = Duration::from_secs(30);
    let claim =
        |second| LeaseRequest { owner: "me", replaces: None, now: moment(second), ttl: lasts };
    let lease = store.lease(&id("a"), claim(1)).await.unwrap();
    assert_eq!(lease.until, moment(31));
    let queue = store.jobs().unwrap();
    queue.push(&Job::resume(id("a")), moment(1)).await.unwrap();
    let claimed = queue.claim(ClaimRequest::new("me", moment(2), lasts)).await.unwrap().unwrap();
    let again = JobOutcome::Retry { at: moment(9), reason: "away".into() };
    assert!(queue.settle(&claimed, &again, moment(3)).await.unwrap());
    assert_eq!(queue.claim(ClaimRequest::new("me", moment(8), lasts)).await.unwrap(), None);
    assert!(queue.claim(ClaimRequest::new("me", moment(9), lasts)).await.unwrap().is_some());
    assert_eq!(queue.claim(ClaimRequest::new("you", moment(38), lasts)).await.unwrap(), None);
    assert!(queue.claim(ClaimRequest::new("you", moment(39), lasts)).await.unwrap().is_some());
}

#[tokio::test]
async fn older_workers_share_the_queue_of_a_file() {
    let (_folder, path) = place();
    let store = open(&path).await;
    let script = async |sql: &'static str| script(&path, &sql.replace("loopwright.", "")).await;
    older_workers_share_the_queue(&store, script).await;
}
