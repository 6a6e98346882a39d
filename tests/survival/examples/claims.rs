//! What a claim costs with 10, 1,000 and 100,000 jobs that wait.
//!
//! `cargo run --release -p loopwright-survival --example claims -- sqlite postgres 10 1000 100000`. The databases are new ones in
//! `TMPDIR`. Each row is one kind of jobs that wait, and the median and 99th percentile of a claim and of its end. A claim takes one of
//! a few jobs of another principal that are pushed after the others.
//!
//! | jobs that wait | meaning |
//! |---|---|
//! | in line | each is of a session of its own |
//! | in one session | each waits for the one before it |
//! | delayed | each waits for its start |
//! | uncovered | each needs a label that the worker lacks |

#![expect(clippy::print_stdout, reason = "it reports")]

use std::{
    env,
    time::{Duration, Instant, SystemTime},
};

use loopwright_agent::AgentDefinition;
use loopwright_core::Timestamp;
use loopwright_sessions::{
    ClaimRequest, Job, JobOutcome, JobQueue, NewSession, PrincipalTag, SessionHeader, SessionId,
    SessionStore,
};
use loopwright_survival::{
    Failure,
    open::open,
    postgres::{Postgres, Safety},
};

/// How many jobs are claimed.
const CLAIMS: usize = 200;
/// How many jobs are pushed together.
const AT_ONCE: usize = 1_000;

#[derive(Clone, Copy, Debug)]
enum Waiting {
    InLine,
    InOneSession,
    Delayed,
    Uncovered,
}

impl Waiting {
    const ALL: [Self; 4] = [Self::InLine, Self::InOneSession, Self::Delayed, Self::Uncovered];

    fn name(self) -> &'static str {
        match self {
            Self::InLine => "in line",
            Self::InOneSession => "in one session",
            Self::Delayed => "delayed",
            Self::Uncovered => "uncovered",
        }
    }
}

fn main() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (counts, databases): (Vec<String>, Vec<String>) =
        env::args().skip(1).partition(|it| it.parse::<usize>().is_ok());
    println!(
        "| database | jobs that wait | number | push, each | claim p50 | p99 | end p50 | p99 |"
    );
    println!("|---|---|--:|--:|--:|--:|--:|--:|");
    for database in &databases {
        for waiting in Waiting::ALL {
            for count in &counts {
                let folder = new_folder()?;
                let (url, _server) = match database.as_str() {
                    "sqlite" => (format!("sqlite:{}/jobs.db", folder.0.display()), None),
                    "postgres" => {
                        let server = Postgres::start(&folder.0, Safety::Unsynced)?;
                        (server.url(), Some(server))
                    }
                    other => return Err(format!("unknown database `{other}`").into()),
                };
                let row = runtime.block_on(measure(&url, waiting, count.parse()?))?;
                println!("| {database} | {} | {count} | {row} |", waiting.name());
            }
        }
    }
    Ok(())
}

/// A folder that is removed in the end.
struct Folder(std::path::PathBuf);

fn new_folder() -> Result<Folder, Failure> {
    let path = env::temp_dir().join(format!("claims-{}", SessionId::generate()));
    std::fs::create_dir(&path)?;
    Ok(Folder(path))
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _removed = std::fs::remove_dir_all(&self.0);
    }
}

fn now() -> Timestamp {
    SystemTime::now().into()
}

async fn measure(url: &str, waiting: Waiting, count: usize) -> Result<String, Failure> {
    let store = open(url).await?;
    let queue = store.jobs().ok_or("the store has no queue")?;
    let flood = PrincipalTag::of("flood");
    let later = now().plus(Duration::from_hours(24));
    let one = create(&*store, &flood).await?;
    let mut jobs = Vec::with_capacity(count);
    for _ in 0..count {
        let job = match waiting {
            Waiting::InLine => Job::resume(create(&*store, &flood).await?),
            Waiting::InOneSession => Job::resume(one.clone()),
            Waiting::Delayed => Job::resume(one.clone()).with_start_at(later),
            Waiting::Uncovered => {
                let session = create(&*store, &flood).await?;
                Job::resume(session).with_needs("gpu".parse()?)
            }
        };
        jobs.push(job);
    }
    let began = Instant::now();
    for jobs in jobs.chunks(AT_ONCE) {
        queue.push_all(jobs, now()).await?;
    }
    let each = began.elapsed() / u32::try_from(count.max(1))?;
    let mine = PrincipalTag::of("mine");
    let (mut claims, mut ends) = (Vec::new(), Vec::new());
    for _ in 0..CLAIMS {
        let job = Job::resume(create(&*store, &mine).await?);
        queue.push(&job, now()).await?;
        let (claim, end) = work(queue).await?;
        claims.push(claim);
        ends.push(end);
    }
    store.close().await;
    let [claims, ends] = [claims, ends].map(figures);
    Ok(format!("{each:.0?} | {claims} | {ends}"))
}

async fn work(queue: &dyn JobQueue) -> Result<(Duration, Duration), Failure> {
    let began = Instant::now();
    let request = ClaimRequest::new("worker", now(), Duration::from_mins(1));
    let claimed = queue.claim(request).await?.ok_or("a job can be claimed")?;
    let claim = began.elapsed();
    let began = Instant::now();
    queue.settle(&claimed, &JobOutcome::Done, now()).await?;
    Ok((claim, began.elapsed()))
}

fn figures(mut times: Vec<Duration>) -> String {
    times.sort();
    let (middle, high) = (times.len() / 2, times.len() * 99 / 100);
    format!("{:.2?} | {:.2?}", times[middle], times[high])
}

async fn create(store: &dyn SessionStore, tag: &PrincipalTag) -> Result<SessionId, Failure> {
    let id = SessionId::generate_tagged(tag);
    let header = SessionHeader::new(id.clone(), "agent", now());
    let definition = AgentDefinition::new("agent", "does things", "You do things.");
    store.create(NewSession { header: &header, definition: &definition, changes: &[] }).await?;
    Ok(id)
}
