use std::{fs, pin::Pin};

use futures::{
    FutureExt as _,
    future::{BoxFuture, join_all},
};
use sqlx::Error;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::{
    SqliteStore,
    database::{Access, Database as _, Transaction},
    error::SqlError,
    row::values,
    sqlite::{file, transaction::failed},
};

/// The size of the header of the write-ahead log, and of each of its frames.
const LOG_HEADER: usize = 32;
const FRAME_HEADER: usize = 24;

async fn opened() -> (TempDir, SqliteStore) {
    let folder = TempDir::new().unwrap();
    let store = SqliteStore::open(folder.path().join("sessions.db")).await.unwrap();
    (folder, store)
}

/// Returns how many transactions the write-ahead log has: the last frame of each has a size of the database.
fn commits(store: &SqliteStore) -> usize {
    let log = fs::read(file::beside(&store.database.path, "-wal")).unwrap();
    let number = |at: usize| u32::from_be_bytes(*log[at..].first_chunk().unwrap());
    let frame = FRAME_HEADER + usize::try_from(number(8)).unwrap();
    let frames = (LOG_HEADER..log.len()).step_by(frame);
    frames.filter(|at| number(at + 4) != 0).count()
}

const ADD: &str = "INSERT INTO schedules (name, next_at, body) VALUES ($1, 0, X'')";

/// Returns a writer that has its turn.
async fn begun(store: &SqliteStore) -> Box<dyn Transaction> {
    store.database.begin(Access::Write).await.unwrap()
}

async fn add(writer: &mut dyn Transaction, name: &str) -> Result<(), SqlError> {
    writer.run(ADD, values![name]).await.map(drop)
}

/// Adds rows in one transaction.
async fn added(store: &SqliteStore, names: &[&str]) -> Result<(), SqlError> {
    let mut writer = store.database.begin(Access::Write).await?;
    for name in names {
        if let Err(error) = add(&mut *writer, name).await {
            writer.rollback().await?;
            return Err(error);
        }
    }
    writer.commit().await
}

/// Returns the rows that another connection sees.
async fn seen(store: &SqliteStore) -> Vec<String> {
    let mut reader = store.database.begin(Access::Look).await.unwrap();
    let rows = reader.rows("SELECT name FROM schedules ORDER BY name", &[]).await.unwrap();
    rows.into_iter().map(|mut row| row.text(0).unwrap()).collect()
}

/// Lets a future run until it waits.
fn polled<T>(mut future: BoxFuture<'_, T>) -> BoxFuture<'_, T> {
    assert!(Pin::new(&mut future).now_or_never().is_none());
    future
}

/// Returns the errors as texts.
fn told<const N: usize>(results: [Result<(), SqlError>; N]) -> [Result<(), String>; N] {
    results.map(|it| it.map_err(|error| error.to_string()))
}

#[tokio::test]
async fn writers_that_wait_for_each_other_are_one_transaction() {
    let (_folder, store) = opened().await;
    let before = commits(&store);
    added(&store, &["alone"]).await.unwrap();
    assert_eq!(commits(&store), before + 1);
    let names: Vec<String> = (10..60).map(|it| it.to_string()).collect();
    let all = join_all(names.iter().map(|it| async { added(&store, &[it]).await.unwrap() })).await;
    assert_eq!((all.len(), seen(&store).await.len()), (50, 51));
    assert_eq!(commits(&store), before + 2);
}

#[tokio::test]
async fn no_writer_has_its_answer_before_the_commit_of_all() {
    let (_folder, store) = opened().await;
    let mut first = begun(&store).await;
    add(&mut *first, "a").await.unwrap();
    let second = polled(store.database.begin(Access::Write).boxed());
    let mut first = tokio::spawn(first.commit());
    let mut second = second.await.unwrap();
    add(&mut *second, "b").await.unwrap();
    // The second writer has its turn, so the first one has ended its part.
    assert!(Pin::new(&mut first).now_or_never().is_none());
    assert_eq!(seen(&store).await, [""; 0]);
    second.commit().await.unwrap();
    first.await.unwrap().unwrap();
    assert_eq!(seen(&store).await, ["a", "b"]);
}

#[tokio::test]
async fn a_writer_that_fails_leaves_nothing_and_the_others_stay() {
    let (_folder, store) = opened().await;
    let results = futures::join!(
        added(&store, &["a"]),
        added(&store, &["b", "c", "a"]),
        added(&store, &["d"]),
        added(&store, &["e", "d"]),
    );
    let [first, second, third, fourth] = told(results.into());
    assert_eq!((first, third), (Ok(()), Ok(())));
    for failed in [second, fourth] {
        assert!(failed.unwrap_err().contains("UNIQUE constraint failed: schedules.name"));
    }
    assert_eq!(seen(&store).await, ["a", "d"]);
}

#[tokio::test]
async fn a_writer_that_fails_first_leaves_nothing_and_the_others_stay() {
    let (_folder, store) = opened().await;
    added(&store, &["a"]).await.unwrap();
    let results = futures::join!(added(&store, &["b", "a"]), added(&store, &["c"]));
    let [first, second] = told(results.into());
    assert!(first.unwrap_err().contains("UNIQUE constraint failed"));
    assert_eq!((second, seen(&store).await), (Ok(()), vec!["a".into(), "c".into()]));
}

/// Runs a writer between two others, and stops it in the middle of its part. Returns what is stored.
async fn stored_with(stop: impl AsyncFnOnce(Box<dyn Transaction>)) -> Vec<String> {
    let (_folder, store) = opened().await;
    let mut first = begun(&store).await;
    add(&mut *first, "a").await.unwrap();
    let second = polled(store.database.begin(Access::Write).boxed());
    let first = tokio::spawn(first.commit());
    let mut second = second.await.unwrap();
    add(&mut *second, "b").await.unwrap();
    let third = polled(added(&store, &["c"]).boxed());
    stop(second).await;
    third.await.unwrap();
    first.await.unwrap().unwrap();
    seen(&store).await
}

#[tokio::test]
async fn a_writer_that_is_dropped_between_statements_leaves_nothing() {
    assert_eq!(stored_with(async |writer| drop(writer)).await, ["a", "c"]);
}

#[tokio::test]
async fn a_writer_that_is_dropped_during_a_statement_leaves_nothing() {
    let stored = stored_with(async |mut writer| {
        writer.run_later(ADD, values!["d"]).await.unwrap();
        // Whether the statement has ended by then is up to the thread that runs it.
        drop(writer.rows("SELECT name FROM schedules", &[]).boxed().now_or_never());
    });
    assert_eq!(stored.await, ["a", "c"]);
}

#[tokio::test]
async fn a_caller_that_stops_waiting_for_the_commit_has_stored_all() {
    let stored = stored_with(async |mut writer| {
        writer.run_later(ADD, values!["d"]).await.unwrap();
        drop(polled(writer.commit().boxed()));
    });
    assert_eq!(stored.await, ["a", "b", "c", "d"]);
}

#[tokio::test]
async fn parts_are_committed_if_the_writers_that_wait_are_dropped() {
    let (_folder, store) = opened().await;
    let mut first = begun(&store).await;
    add(&mut *first, "a").await.unwrap();
    let second = polled(store.database.begin(Access::Write).boxed());
    let first = tokio::spawn(first.commit());
    let second = second.await.unwrap();
    let third = polled(store.database.begin(Access::Write).boxed());
    drop(second);
    // It has the turn by now, but does not know.
    drop(third);
    first.await.unwrap().unwrap();
    assert_eq!(seen(&store).await, ["a"]);
}

#[tokio::test]
async fn all_writers_of_a_transaction_that_is_lost_are_told_and_the_next_one_writes() {
    let (_folder, store) = opened().await;
    let mut first = begun(&store).await;
    add(&mut *first, "a").await.unwrap();
    let second = polled(store.database.begin(Access::Write).boxed());
    let first = tokio::spawn(first.commit());
    let mut second = second.await.unwrap();
    // SQLite does this on a severe error.
    second.run("ROLLBACK", &[]).await.unwrap();
    let severe = second.run("SELECT none", &[]).await.unwrap_err().to_string();
    let third = polled(added(&store, &["c"]).boxed());
    let (second, third) = futures::join!(second.rollback(), third);
    let results = told([first.await.unwrap(), second, third]);
    assert_eq!(results, [Err(severe.clone()), Err(severe), Ok(())]);
    assert_eq!(seen(&store).await, ["c"]);
}

#[tokio::test]
async fn a_part_whose_last_statement_fails_has_its_error_after_the_commit_of_the_others() {
    let (_folder, store) = opened().await;
    let mut first = begun(&store).await;
    add(&mut *first, "a").await.unwrap();
    let second = polled(store.database.begin(Access::Write).boxed());
    let third = polled(store.database.begin(Access::Write).boxed());
    let first = tokio::spawn(first.commit());
    let mut second = second.await.unwrap();
    // The statement runs at the end of the part, and fails.
    second.run_later(ADD, values!["a"]).await.unwrap();
    let second = tokio::spawn(second.commit());
    let mut third = third.await.unwrap();
    third.run("ROLLBACK", &[]).await.unwrap();
    let severe = third.run("SELECT none", &[]).await.unwrap_err().to_string();
    let third = third.rollback().await;
    let results = told([first.await.unwrap(), second.await.unwrap(), third]);
    assert_eq!(results, [Err(severe.clone()), Err(severe.clone()), Err(severe)]);
}

#[tokio::test]
async fn a_last_part_that_fails_at_its_commit_leaves_nothing_and_the_others_stay() {
    let (_folder, store) = opened().await;
    let mut first = begun(&store).await;
    add(&mut *first, "a").await.unwrap();
    let second = polled(store.database.begin(Access::Write).boxed());
    let first = tokio::spawn(first.commit());
    let mut second = second.await.unwrap();
    second.run_later(ADD, values!["a"]).await.unwrap();
    let failed = second.commit().await.unwrap_err().to_string();
    assert!(failed.contains("UNIQUE constraint failed: schedules.name"), "{failed}");
    first.await.unwrap().unwrap();
    assert_eq!(seen(&store).await, ["a"]);
}

/// Returns a runtime that works only while something waits for its result.
fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Returns a store, and a writer that continues the transaction of another one. The task that commits waits in this runtime.
fn continued(runtime: &Runtime) -> (TempDir, SqliteStore, Box<dyn Transaction>) {
    runtime.block_on(async {
        let (folder, store) = opened().await;
        let mut first = begun(&store).await;
        add(&mut *first, "a").await.unwrap();
        let second = polled(store.database.begin(Access::Write).boxed());
        drop(tokio::spawn(first.commit()));
        let second = second.await.unwrap();
        (folder, store, second)
    })
}

#[test]
fn a_writer_that_is_dropped_after_its_runtime_loses_the_transaction_and_the_next_one_writes() {
    let (ended, next) = (runtime(), runtime());
    let (_folder, store, second) = continued(&ended);
    drop(ended);
    drop(second);
    next.block_on(async {
        added(&store, &["b"]).await.unwrap();
        assert_eq!(seen(&store).await, ["b"]);
    });
}

#[test]
fn a_writer_that_waits_for_a_commit_is_told_that_the_runtime_of_the_commit_has_ended() {
    let (ended, next) = (runtime(), runtime());
    let (_folder, store, second) = continued(&ended);
    let entered = next.enter();
    let second = polled(second.rollback());
    drop(entered);
    // It was the turn of the task that commits.
    drop(ended);
    let lost = failed(&store.database.place, Error::WorkerCrashed).to_string();
    assert_eq!(told([next.block_on(second)]), [Err(lost)]);
    next.block_on(async {
        added(&store, &["b"]).await.unwrap();
        assert_eq!(seen(&store).await, ["b"]);
    });
}
