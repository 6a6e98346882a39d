use loopwright_agent::AgentDefinition;
use loopwright_core::Timestamp;
use loopwright_sessions::{
    NewSession, SessionHeader, SessionId, SessionLog, SessionQuery, SessionStore as _, StoreError,
};
use tempfile::TempDir;

use super::*;
use crate::{claiming, row::values};

async fn opened(patience: Duration) -> (TempDir, SqliteStore) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("sessions.db");
    let store = SqliteStore::open_patiently(&path, patience).await.unwrap();
    (folder, store)
}

async fn create(store: &SqliteStore, name: &str) -> Result<SessionHeader, StoreError> {
    let id = SessionId::new(name).unwrap();
    let header = SessionHeader::new(id, "agent", Timestamp::from_millis(0));
    let definition = AgentDefinition::new("agent", "does things", "You do things.");
    let new = NewSession { header: &header, definition: &definition, changes: &[] };
    store.create(new).await
}

/// Changes something about the connection that writes.
async fn set(store: &SqliteStore, pragma: &'static str) {
    sqlx::query(pragma).execute(&store.database.writer).await.unwrap();
}

async fn names(store: &SqliteStore) -> Vec<String> {
    let list = store.list(&SessionQuery::first(9)).await.unwrap();
    list.sessions.iter().map(|header| header.id.to_string()).collect()
}

#[track_caller]
fn is_unavailable(done: Result<SessionHeader, StoreError>, reason: &str) {
    let error = done.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert!(error.to_string().contains(reason), "{error}");
}

#[tokio::test]
async fn a_full_disk_is_told_and_nothing_is_lost() {
    let (_folder, store) = opened(PATIENCE).await;
    create(&store, "a").await.unwrap();
    set(&store, "PRAGMA max_page_count = 1").await;
    let large: Arc<[u8]> = vec![0; 100_000].into();
    let id = SessionId::new("a").unwrap();
    let full = store.append_log(&id, SessionLog::Files, &[large], None).await.unwrap_err();
    assert!(matches!(full, StoreError::Unavailable(_)), "{full:?}");
    assert!(full.to_string().contains("no disk space left for"), "{full}");
    assert_eq!(names(&store).await, ["a"]);
    // There is space again.
    create(&store, "b").await.unwrap();
    assert_eq!(names(&store).await, ["b", "a"]);
}

#[tokio::test]
async fn many_entries_of_one_call_are_numbered_in_their_order() {
    let (_folder, store) = opened(PATIENCE).await;
    create(&store, "a").await.unwrap();
    let id = SessionId::new("a").unwrap();
    let entries: Vec<Arc<[u8]>> = (0..150u8).map(|it| vec![it].into()).collect();
    let last = store.append_log(&id, SessionLog::Events, &entries, Some(100)).await.unwrap();
    assert_eq!(last, 150);
    let read = store.read_log(&id, SessionLog::Events, 0, 200).await.unwrap();
    let read: Vec<_> = read.into_iter().map(|it| (it.number, it.body[0])).collect();
    let expect: Vec<_> = (50..150u8).map(|it| (u64::from(it) + 1, it)).collect();
    assert_eq!(read, expect);
}

#[tokio::test]
async fn appends_of_several_callers_each_have_their_result() {
    let (_folder, store) = opened(PATIENCE).await;
    create(&store, "a").await.unwrap();
    create(&store, "b").await.unwrap();
    let calls = [
        ("b", SessionLog::Events, 1),
        ("none", SessionLog::Events, 2),
        ("a", SessionLog::Files, 3),
        ("b", SessionLog::Events, 4),
        ("a", SessionLog::Events, 5),
    ];
    let append = async |(name, log, byte): (&str, SessionLog, u8)| {
        let entry: Arc<[u8]> = vec![byte].into();
        let appended = store.append_log(&SessionId::new(name).unwrap(), log, &[entry], None).await;
        appended.map_err(|error| error.to_string())
    };
    // All wait before the first one is written.
    let results = futures::future::join_all(calls.map(append)).await;
    let missing = StoreError::NotFound(SessionId::new("none").unwrap()).to_string();
    assert_eq!(results, [Ok(1), Err(missing), Ok(1), Ok(2), Ok(1)]);
    let read = async |(name, log): (&str, SessionLog)| {
        let read = store.read_log(&SessionId::new(name).unwrap(), log, 0, 9).await.unwrap();
        read.iter().map(|it| it.body[0]).collect::<Vec<_>>()
    };
    let logs = [("a", SessionLog::Events), ("a", SessionLog::Files), ("b", SessionLog::Events)];
    assert_eq!(futures::future::join_all(logs.map(read)).await, [vec![5], vec![3], vec![1, 4]]);
}

#[tokio::test]
async fn statements_for_later_run_before_the_next_one_or_the_commit() {
    let (_folder, store) = opened(PATIENCE).await;
    create(&store, "a").await.unwrap();
    let append = "UPDATE sessions SET title = COALESCE(title, '') || $2 WHERE id = $1";
    let title = "SELECT title FROM sessions WHERE id = $1";
    let mut transaction = store.database.begin(Access::Write).await.unwrap();
    for text in ["1", "2"] {
        transaction.run_later(append, values!["a", text]).await.unwrap();
    }
    let found = transaction.row(title, values!["a"]).await.unwrap();
    assert_eq!(found.unwrap().text(0).unwrap(), "12");
    transaction.run_later(append, values!["a", "3"]).await.unwrap();
    // The number of changed rows is that of the last statement.
    assert_eq!(transaction.run(append, values!["none", "4"]).await.unwrap(), 0);
    transaction.run_later(append, values!["a", "5"]).await.unwrap();
    transaction.commit().await.unwrap();
    let mut transaction = store.database.begin(Access::Write).await.unwrap();
    transaction.run_later(append, values!["a", "6"]).await.unwrap();
    transaction.rollback().await.unwrap();
    let mut transaction = store.database.begin(Access::Look).await.unwrap();
    let found = transaction.row(title, values!["a"]).await.unwrap();
    assert_eq!(found.unwrap().text(0).unwrap(), "1235");
    transaction.rollback().await.unwrap();
}

#[tokio::test]
async fn only_writes_of_others_change_the_position() {
    let (_folder, store) = opened(PATIENCE).await;
    let position = async || {
        // Longer than an answer is kept.
        tokio::time::sleep(Duration::from_millis(60)).await;
        store.database.foreign_writes().await.unwrap().unwrap()
    };
    create(&store, "a").await.unwrap();
    let first = position().await;
    create(&store, "b").await.unwrap();
    assert_eq!(position().await, first);
    let other = SqliteStore::open(&store.database.path).await.unwrap();
    assert_eq!(names(&other).await.len(), 2);
    assert_eq!(position().await, first);
    create(&other, "c").await.unwrap();
    assert_ne!(position().await, first);
}

#[tokio::test]
async fn a_file_that_cannot_be_written_is_told_and_can_be_read() {
    let (_folder, store) = opened(PATIENCE).await;
    create(&store, "a").await.unwrap();
    set(&store, "PRAGMA query_only = ON").await;
    is_unavailable(create(&store, "b").await, "cannot be written; make the file");
    assert_eq!(names(&store).await, ["a"]);
}

#[tokio::test]
async fn a_locked_database_file_is_reported() {
    let (_folder, store) = opened(Duration::from_millis(500)).await;
    let other = SqliteStore::open(&store.database.path).await.unwrap();
    assert!(names(&store).await.is_empty());
    let mut lock = other.database.begin(Access::Write).await.unwrap();
    lock.stop_writers().await.unwrap();
    // In this test the process that holds the lock is this one.
    let holder = format!("is in use by process {}; stop that process first", std::process::id());
    is_unavailable(create(&store, "a").await, &holder);
    // A caller that reads waits for no writer.
    assert!(names(&store).await.is_empty());
    drop(lock);
    // Whoever locked it is gone, as soon as its connection is.
    let mut lock = other.database.begin(Access::Write).await.unwrap();
    lock.stop_writers().await.unwrap();
    lock.rollback().await.unwrap();
    create(&store, "a").await.unwrap();
}

#[tokio::test]
async fn the_position_is_known_while_writers_follow_each_other() {
    let (_folder, store) = opened(PATIENCE).await;
    create(&store, "a").await.unwrap();
    let mut writer = store.database.begin(Access::Write).await.unwrap();
    writer.stop_writers().await.unwrap();
    assert!(store.database.foreign_writes().await.unwrap().is_some());
    writer.rollback().await.unwrap();
}

/// Names the file that a process of the next test locks.
#[cfg(target_os = "linux")]
const LOCKS: &str = "LOOPWRIGHT_TEST_LOCKS";

/// Does nothing but in a process that the next test starts: there it locks a file and is stopped.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_process_that_locks_a_file_and_is_stopped() {
    let Some(path) = std::env::var_os(LOCKS) else { return };
    let store = SqliteStore::open(Path::new(&path)).await.unwrap();
    let mut lock = store.database.begin(Access::Write).await.unwrap();
    lock.stop_writers().await.unwrap();
    let process = std::process::id().to_string();
    std::process::Command::new("kill").args(["-STOP", &process]).status().unwrap();
    std::future::pending::<()>().await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_writer_does_not_wait_to_the_end_for_a_process_that_is_stopped() {
    // Far longer than a test may take.
    let (_folder, store) = opened(Duration::from_mins(30)).await;
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "sqlite::tests::a_process_that_locks_a_file_and_is_stopped"]);
    command.env(LOCKS, &*store.database.path).stdout(std::process::Stdio::null());
    let mut holder = command.spawn().unwrap();
    let stat = format!("/proc/{}/stat", holder.id());
    while !std::fs::read_to_string(&stat).unwrap().contains(") T ") {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let id = holder.id();
    let told = format!(
        "is in use by process {id}, which is stopped (`kill -CONT {id}` continues it); stop that process first"
    );
    is_unavailable(create(&store, "a").await, &told);
    assert!(names(&store).await.is_empty());
    holder.kill().unwrap();
    holder.wait().unwrap();
    create(&store, "a").await.unwrap();
    assert_eq!(names(&store).await, ["a"]);
}

#[tokio::test]
async fn a_dropped_transaction_is_rolled_back() {
    let (_folder, store) = opened(PATIENCE).await;
    let mut transaction = store.database.begin(Access::Write).await.unwrap();
    transaction
        .run("INSERT INTO control_messages (session, body) SELECT 1, X''", &[])
        .await
        .unwrap_err();
    drop(transaction);
    create(&store, "a").await.unwrap();
    let mut transaction = store.database.begin(Access::Write).await.unwrap();
    transaction.run("DELETE FROM definitions", &[]).await.unwrap();
    drop(transaction);
    let id = SessionId::new("a").unwrap();
    assert!(store.definition(&id).await.unwrap().is_some());
}

/// Returns how SQLite goes about a statement.
async fn plan(store: &SqliteStore, sql: &str) -> String {
    let mut transaction = store.reading().await.unwrap();
    let rows = transaction.rows(&format!("EXPLAIN QUERY PLAN {sql}"), &[1_i64.into()]).await;
    let plan = rows.unwrap().into_iter().map(|mut row| row.text(3).unwrap()).collect::<Vec<_>>();
    transaction.rollback().await.unwrap();
    plan.join("\n")
}

#[tokio::test]
async fn no_statement_of_a_claim_reads_jobs_other_than_through_an_index() {
    let (_folder, store) = opened(PATIENCE).await;
    let transaction = store.reading().await.unwrap();
    let statements = claiming::statements(&*transaction);
    transaction.rollback().await.unwrap();
    for sql in statements {
        let plan = plan(&store, &sql).await;
        for line in plan.lines() {
            // The names of the table in these statements. The others are of small results.
            let scanned = line.strip_prefix("SCAN ").and_then(|it| it.split(' ').next());
            let is_table = ["jobs", "j", "e", "l", "n", "r", "s"].map(Some).contains(&scanned);
            assert!(!is_table, "{line}\n{sql}\n{plan}");
        }
        let histories = ["jobs_by_status (status=?)", "jobs_by_session", "jobs_open"];
        assert!(!histories.iter().any(|it| plan.contains(it)), "{sql}\n{plan}");
    }
}

#[tokio::test]
async fn the_next_job_of_a_session_is_found_through_the_index_of_those_that_wait() {
    let (_folder, store) = opened(PATIENCE).await;
    let sql = "SELECT MIN(number) FROM jobs WHERE session = $1 AND held = 1";
    assert!(plan(&store, sql).await.contains("jobs_behind"), "{}", plan(&store, sql).await);
}
