//! PostgreSQL.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt as _, future::BoxFuture};
use loopwright_core::{Clock, Timestamp};
use loopwright_sessions::{
    ClaimRequest, Job, JobId, JobOutcome, LeaseRequest, LogEntry, SessionLog, SessionStore,
    StoreError, conformance,
};
use loopwright_store_sql::{PostgresStore, SqlError};
use tokio::sync::Notify;

use crate::{
    samples,
    server::{GUARDED, PASSWORD, Server},
    support::{
        create, each_job_is_claimed_once, id, is_kept, keep, older_workers_share_the_queue,
        one_writer_wins_each_version, said, say,
    },
};

async fn connect(address: &str) -> PostgresStore {
    PostgresStore::connect(address).await.unwrap()
}

#[tokio::test]
async fn postgres_does_what_every_store_must() {
    for fact in conformance::CASES {
        println!("{}", fact.name);
        (fact.check)(&connect(&Server::shared().database().await).await).await;
    }
}

#[tokio::test]
async fn postgres_wakes_its_readers() {
    for fact in conformance::WAKE_CASES {
        println!("{}", fact.name);
        (fact.check)(&connect(&Server::shared().database().await).await).await;
    }
}

#[tokio::test]
async fn postgres_schedules_jobs_as_every_scheduler_must() {
    for fact in conformance::SCHEDULER_CASES.iter().chain(conformance::ORDER_CASES) {
        println!("{}", fact.name);
        let store = connect(&Server::shared().database().await).await;
        (fact.check)(&conformance::QueueUnderTest(&store)).await;
    }
}

#[tokio::test]
async fn postgres_is_a_queue_as_every_queue_must_be() {
    for fact in conformance::JOB_CASES {
        println!("{}", fact.name);
        (fact.check)(&connect(&Server::shared().database().await).await).await;
    }
}

#[tokio::test]
async fn postgres_counts_usage_as_every_ledger_must() {
    for fact in conformance::LEDGER_CASES {
        println!("{}", fact.name);
        (fact.check)(&connect(&Server::shared().database().await).await).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_job_of_a_database_is_claimed_once_however_many_claim() {
    let address = Server::shared().database().await;
    let stores: Vec<Arc<dyn SessionStore>> =
        vec![Arc::new(connect(&address).await), Arc::new(connect(&address).await)];
    each_job_is_claimed_once(stores).await;
}

#[tokio::test]
async fn sessions_in_a_database_are_there_for_every_connection() {
    let address = Server::shared().database().await;
    let (one, other) = (connect(&address).await, connect(&address).await);
    keep(&one).await;
    is_kept(&other).await;
    assert_eq!(said(&one, "a").await, ["one", "two"]);
    assert_eq!(said(&connect(&address).await, "a").await, ["one", "two"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_made_once_however_many_connect() {
    let address = Server::shared().database().await;
    let connected = (0..8).map(|number| {
        let address = address.clone();
        tokio::spawn(async move { create(&connect(&address).await, &format!("s{number}")).await })
    });
    for connected in connected.collect::<Vec<_>>() {
        connected.await.unwrap();
    }
    let all = loopwright_sessions::SessionQuery::first(99);
    assert_eq!(connect(&address).await.list(&all).await.unwrap().len(), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_writers_of_a_database_wins_each_version() {
    let address = Server::shared().database().await;
    let (one, other) = (connect(&address).await, connect(&address).await);
    one_writer_wins_each_version(vec![Arc::new(one), Arc::new(other)]).await;
}

#[tokio::test]
async fn tables_of_the_first_version_are_brought_up_to_date() {
    let (server, address) = (Server::shared(), Server::shared().database().await);
    server.script(&address, include_str!("samples/postgres-1.sql")).await;
    samples::is_whole(&connect(&address).await).await;
    // It is not done twice.
    let again = connect(&address).await;
    samples::is_whole(&again).await;
    samples::is_delivered(&again).await;
}

#[tokio::test]
async fn tables_of_a_newer_version_are_refused_and_left_as_they_are() {
    let (server, address) = (Server::shared(), Server::shared().database().await);
    keep(&connect(&address).await).await;
    server.script(&address, "UPDATE loopwright.version SET number = 99").await;
    let refused = PostgresStore::connect(&address).await.unwrap_err();
    assert!(matches!(refused, SqlError::Newer { found: 99, known: 9, .. }), "{refused:?}");
    server.script(&address, "UPDATE loopwright.version SET number = 8").await;
    is_kept(&connect(&address).await).await;
}

#[tokio::test]
async fn a_text_that_postgres_cannot_hold_is_written_differently() {
    let store = connect(&Server::shared().database().await).await;
    create(&store, "a").await;
    say(&store, "a", 0, "nul: \0").await.unwrap();
    assert_eq!(said(&store, "a").await, ["nul: \0"]);
    let title = "nul: \0".into();
    let batch = loopwright_sessions::ChangeBatch { first: 1, changes: &[] };
    let id_a = id("a");
    let write = loopwright_sessions::AppendRequest::new(&id_a, 2, batch, Timestamp::from_millis(0));
    let write = loopwright_sessions::AppendRequest { title: Some(&title), ..write };
    store.append(write).await.unwrap();
    let header = store.header(&id("a")).await.unwrap().unwrap();
    assert_eq!(header.title.as_deref(), Some("nul: \u{fffd}"));
}

/// Claims a lease at a moment that is this many hours from now.
fn claim_at(owner: &str, hours: i64) -> LeaseRequest<'_> {
    let now = Timestamp::from(std::time::SystemTime::now());
    let now = now.millis().saturating_add_signed(hours * 3_600_000);
    let (now, lasts) = (Timestamp::from_millis(now), Duration::from_secs(30));
    LeaseRequest { owner, replaces: None, now, ttl: lasts }
}

#[tokio::test]
async fn clocks_of_clients_that_differ_take_no_lease_over_and_keep_none_for_longer() {
    let store = connect(&Server::shared().database().await).await;
    create(&store, "a").await;
    let lease = store.lease(&id("a"), claim_at("me", 0)).await.unwrap();
    for hours in [-1, 0, 1] {
        let busy = store.lease(&id("a"), claim_at("you", hours)).await;
        assert!(matches!(busy, Err(StoreError::Busy { .. })), "{hours} h: {busy:?}");
    }
    store.release(&lease).await.unwrap();
    // A client that is an hour ahead gets its thirty seconds, and no hour.
    for hours in [1, -1] {
        let lease = store.lease(&id("a"), claim_at("ahead", hours)).await.unwrap();
        let real = claim_at("", 0).now;
        assert!(lease.until.since(real) <= Duration::from_secs(31), "{hours} h: {lease:?}");
        assert!(lease.until > real, "{hours} h: {lease:?}");
        store.renew(&lease, claim_at("", hours).now, Duration::ZERO).await.unwrap();
        let taken = store.lease(&id("a"), claim_at("me", -hours)).await.unwrap();
        store.release(&taken).await.unwrap();
    }
}

#[tokio::test]
async fn clocks_of_workers_that_differ_take_no_job_over_and_keep_none_waiting() {
    let store = connect(&Server::shared().database().await).await;
    create(&store, "a").await;
    let queue = store.jobs().unwrap();
    let at = |hours| claim_at("", hours).now;
    let lasts = Duration::from_secs(30);
    queue.push(&Job::resume(id("a")), at(1)).await.unwrap();
    let claimed = queue.claim(ClaimRequest::new("me", at(-1), lasts)).await.unwrap().unwrap();
    assert_eq!(queue.claim(ClaimRequest::new("ahead", at(1), lasts)).await.unwrap(), None);
    let again = JobOutcome::Retry { at: at(1), reason: "away".into() };
    assert!(queue.settle(&claimed, &again, at(1)).await.unwrap());
    let claimed = queue.claim(ClaimRequest::new("me", at(0), lasts)).await.unwrap().unwrap();
    assert!(queue.settle(&claimed, &JobOutcome::Released, at(1)).await.unwrap());
    assert!(queue.claim(ClaimRequest::new("behind", at(-1), lasts)).await.unwrap().is_some());
}

/// Returns all that an error says, to people and to programmers.
fn all_of(error: &SqlError) -> String {
    let mut all = format!("{error:?}");
    let mut next: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = next {
        all = format!("{all}\n{error}");
        next = error.source();
    }
    all
}

#[tokio::test]
async fn no_error_shows_a_password() {
    let server = Server::shared();
    let database = server.database().await;
    let name = database.split(['/', '?']).nth(3).unwrap();
    let guarded = format!("CREATE ROLE {GUARDED} LOGIN PASSWORD '{PASSWORD}'");
    server.script(&database, &guarded).await;
    let wrong = server.address(&format!("{GUARDED}:wrong-{PASSWORD}"), name);
    let refused = PostgresStore::connect(&wrong).await.unwrap_err();
    assert!(matches!(refused, SqlError::Closed { .. }), "{refused:?}");
    let right = server.address(&format!("{GUARDED}:{PASSWORD}"), name);
    let may_not = PostgresStore::connect(&right).await.unwrap_err();
    assert!(matches!(may_not, SqlError::Closed { .. }), "{may_not:?}");
    let nobody = format!("postgres://me:{PASSWORD}@localhost/x?host=/nowhere");
    let unreachable = PostgresStore::connect(&nobody).await.unwrap_err();
    assert!(matches!(unreachable, SqlError::Unreachable { .. }), "{unreachable:?}");
    let odd = format!("postgres://me:{PASSWORD}@[/x");
    let no_address = PostgresStore::connect(&odd).await.unwrap_err();
    assert!(matches!(no_address, SqlError::Address(_)), "{no_address:?}");
    for error in [refused, may_not, unreachable, no_address] {
        assert!(!all_of(&error).contains(PASSWORD), "{}", all_of(&error));
    }
    let store = connect(&database).await;
    assert!(format!("{store:?}").starts_with("SqlStore(PostgreSQL database `d"), "{store:?}");
}

/// A clock at which no time passes; it tells when somebody begins to sleep.
#[derive(Default)]
struct Stopped(Notify);

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(0)
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _duration: Duration) -> BoxFuture<'static, ()> {
        self.0.notify_one();
        Box::pin(std::future::pending())
    }
}

const HOUR: Duration = Duration::from_hours(1);

/// Waits for a note, as long as it takes, and returns what there is then.
async fn heard(store: &PostgresStore, after: u64, clock: &Stopped) -> Vec<LogEntry> {
    store.wait(&id("a"), SessionLog::Events, after, clock, HOUR).await.unwrap();
    store.read_log(&id("a"), SessionLog::Events, after, 9).await.unwrap()
}

async fn note(store: &PostgresStore, text: &str) {
    store.append_log(&id("a"), SessionLog::Events, &[text.as_bytes().into()], None).await.unwrap();
}

#[tokio::test]
async fn followers_are_notified_of_notes_without_polling() {
    let address = Server::shared().database().await;
    let (one, other) = (connect(&address).await, connect(&address).await);
    create(&one, "a").await;
    create(&one, "b").await;
    for number in 0..3 {
        let clock = Stopped::default();
        let noted = async {
            clock.0.notified().await;
            note(&one, "x").await;
        };
        let (heard, ()) = tokio::join!(heard(&other, number, &clock), noted);
        assert_eq!(heard, [LogEntry { number: number + 1, body: b"x".as_slice().into() }]);
    }
}

#[tokio::test]
async fn a_database_that_was_gone_is_used_again_when_it_is_back() {
    let server = Server::new();
    let address = server.database().await;
    let (store, other) = (connect(&address).await, connect(&address).await);
    keep(&store).await;
    let clock = Arc::new(Stopped::default());
    let waiting = tokio::spawn({
        let clock = Arc::clone(&clock);
        async move {
            // A caller that looks while it is gone is told so, and looks again.
            while other.wait(&id("a"), SessionLog::Events, 1, &*clock, HOUR).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            other.read_log(&id("a"), SessionLog::Events, 1, 9).await.unwrap()
        }
    });
    clock.0.notified().await;
    server.stop();
    let gone = say(&store, "a", 1, "lost").await.unwrap_err();
    assert!(matches!(gone, StoreError::Unavailable(_)), "{gone:?}");
    let text = gone.to_string();
    assert!(text.contains("cannot be reached; check that the server is running"), "{text}");
    assert!(matches!(store.load(&id("a")).await, Err(StoreError::Unavailable(_))));
    server.start();
    is_kept(&store).await;
    note(&store, "y").await;
    let expect = LogEntry { number: 2, body: b"y".as_slice().into() };
    assert_eq!(waiting.await.unwrap(), [expect]);
}

#[tokio::test]
async fn older_workers_share_the_queue_of_a_database() {
    let (server, address) = (Server::shared(), Server::shared().database().await);
    let store = connect(&address).await;
    older_workers_share_the_queue(&store, async |sql| server.script(&address, sql).await).await;
}

/// Without the order of locks, PostgreSQL ends one of two transactions that wait for each other.
#[tokio::test]
async fn many_jobs_with_the_same_names_in_other_orders_are_pushed_at_once() {
    let address = Server::shared().database().await;
    let (one, other) = (connect(&address).await, connect(&address).await);
    create(&one, "a").await;
    create(&one, "b").await;
    let now = Timestamp::from_millis(0);
    for round in 0..20 {
        let job = |session: &str, number| {
            let name = JobId::new(format!("{round}-{number}")).unwrap();
            Job::resume(id(session)).with_id(name)
        };
        let forwards: Vec<Job> = (0..100).map(|number| job("a", number)).collect();
        let backwards: Vec<Job> = (0..100).rev().map(|number| job("b", number)).collect();
        let push = async |store: &PostgresStore, jobs: &[Job]| {
            let are_new = store.jobs().unwrap().push_all(jobs, now).await.unwrap();
            are_new.iter().filter(|it| **it).count()
        };
        let (a, b) = tokio::join!(push(&one, &forwards), push(&other, &backwards));
        assert_eq!(a + b, 100, "round {round}");
    }
}

#[tokio::test]
async fn workers_of_every_process_are_notified_of_jobs_that_can_run() {
    let address = Server::shared().database().await;
    let (one, other) = (connect(&address).await, connect(&address).await);
    create(&one, "a").await;
    let queue = one.jobs().unwrap();
    let now = Timestamp::from_millis(0);
    // The first news are that listening has started.
    let mut news = other.jobs().unwrap().news().unwrap();
    assert_eq!((news.is_complete, news.changes.next().await), (true, Some(())));
    let jobs = [Job::resume(id("a")), Job::resume(id("a"))];
    assert_eq!(queue.push_all(&jobs, now).await.unwrap(), [true; 2]);
    assert_eq!(news.changes.next().await, Some(()));
    let request = ClaimRequest::new("me", now, Duration::from_secs(30));
    let claimed = queue.claim(request).await.unwrap().unwrap();
    for outcome in [JobOutcome::Released, JobOutcome::NeedsInput("which?".into())] {
        let third = connect(&address).await;
        let mut news = third.jobs().unwrap().news().unwrap().changes;
        assert_eq!(news.next().await, Some(()));
        let claimed = match queue.claim(request).await.unwrap() {
            Some(again) => again,
            None => claimed.clone(),
        };
        assert!(queue.settle(&claimed, &outcome, now).await.unwrap());
        assert_eq!(news.next().await, Some(()), "{outcome:?}");
    }
}
