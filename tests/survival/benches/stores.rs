//! What sessions cost in each store.
//!
//! `cargo bench -p loopwright-survival --bench stores` prints one table: for a run of 10,000 steps what
//! a checkpoint takes and how many bytes it writes around certain steps, and how that grows; how long
//! such a session takes to load and to fork; and how long a page of 50 of 100,000 sessions takes.
//! Above it stands what the disk takes to keep 500 bytes.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `STORES` | which stores | `memory,files,sqlite,postgres` |
//! | `STEPS` | steps of the run | 10000 |
//! | `SESSIONS` | sessions that are listed | 100000 |

#![expect(clippy::print_stdout, clippy::expect_used, reason = "a bench prints, and may give up")]

use std::{
    env,
    fs::{self, File},
    io::Write as _,
    path::Path,
    process,
    str::FromStr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use loopwright_core::{Change, Timestamp};
use loopwright_sessions::{
    AgentSession, ForkPoint, NewSession, SendMessage, SessionCursor, SessionHeader, SessionId,
    SessionQuery, SessionRepository, SessionRuntime, SessionStore,
};
use loopwright_survival::{
    ledger::Entry,
    open::open,
    postgres::{Postgres, Safety},
    script::Script,
    watched::{Watched, Watcher},
    worker::session,
};

fn main() {
    let (steps, sessions) = (read("STEPS", 10_000), read("SESSIONS", 100_000));
    let names = env::var("STORES").unwrap_or("memory,files,sqlite,postgres".to_owned());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.expect("there are threads");
    let disk = tempfile::tempdir().expect("there is a folder");
    println!(
        "the disk keeps 500 bytes in {}; {steps} steps, {sessions} sessions",
        sync(disk.path())
    );
    println!();
    println!(
        "| store | checkpoint at step 10 | 100 | 1,000 | {steps} | all p50 / p99 | time grows | bytes \
         grow | load | with its state | fork | page of 50 | in the middle |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for name in names.split(',') {
        let place = Place::of(name);
        println!("{}", runtime.block_on(measure(name, &place, steps, sessions)));
    }
}

fn read<T: FromStr>(name: &str, default: T) -> T {
    env::var(name).ok().and_then(|it| it.parse().ok()).unwrap_or(default)
}

// ------------------------------------------------------------------------------------------------
// Places

/// A store in an empty place.
struct Place {
    url: String,
    server: Option<Postgres>,
    _folder: tempfile::TempDir,
}

impl Place {
    fn of(name: &str) -> Self {
        let folder = tempfile::tempdir().expect("there is a folder");
        let path = folder.path().display();
        let (url, server) = match name {
            "memory" => ("memory:".to_owned(), None),
            "files" => (format!("files:{path}/sessions"), None),
            "sqlite" => (format!("sqlite:{path}/sessions.db"), None),
            "postgres" => {
                let server = Postgres::start(folder.path(), Safety::Synced);
                let server = server.expect("there is a server");
                (server.url(), Some(server))
            }
            other => panic!("there is no store `{other}`"),
        };
        Self { url, server, _folder: folder }
    }
}

/// Returns how many bytes were written so far by the process that keeps a store: a server, or this process.
fn bytes_of_keeper(server: Option<u32>) -> u64 {
    let Some(server) = server else { return bytes_of(process::id()) };
    let children = fs::read_to_string(format!("/proc/{server}/task/{server}/children"));
    let children = children.unwrap_or_default();
    let children = children.split_ascii_whitespace().filter_map(|it| it.parse().ok());
    std::iter::once(server).chain(children).map(bytes_of).sum()
}

/// Returns how many bytes a process has written so far.
fn bytes_of(process: u32) -> u64 {
    let told = fs::read_to_string(format!("/proc/{process}/io")).unwrap_or_default();
    let line = told.lines().find_map(|line| line.strip_prefix("wchar: "));
    line.and_then(|it| it.parse().ok()).unwrap_or_default()
}

/// Returns how long the disk takes to keep a little.
fn sync(folder: &Path) -> String {
    let mut file = File::create(folder.join("sync")).expect("a file can be made");
    let mut times = Vec::new();
    for _ in 0..500 {
        let began = Instant::now();
        file.write_all(&[b'x'; 500]).and_then(|()| file.sync_data()).expect("it can be written");
        times.push(began.elapsed());
    }
    format!("{} (p99 {})", shown(share(&mut times, 50)), shown(share(&mut times, 99)))
}

// ------------------------------------------------------------------------------------------------
// Measures

async fn measure(name: &str, place: &Place, steps: u32, sessions: u64) -> String {
    let store = open(&place.url).await.expect("the store can be opened");
    let id = SessionId::new("long").expect("it is a name");
    let blocks = run(&store, place, &id, steps).await;
    let at = |step: u32| {
        let block = blocks.iter().rfind(|it| it.first <= step).unwrap_or(&blocks[0]);
        format!("{} {} B", shown(block.median()), block.bytes_each())
    };
    let windows = [10, 100, 1_000, steps].map(at).join(" | ");
    let mut all: Vec<Duration> = blocks.iter().flat_map(|it| it.times.clone()).collect();
    let all = format!("{} / {}", shown(share(&mut all, 50)), shown(share(&mut all, 99)));
    let time = |it: &Block| micros(it.median());
    #[expect(clippy::cast_precision_loss, reason = "they are few")]
    let bytes = |it: &Block| it.bytes_each() as f64;
    let (time, bytes) = (growth(&blocks, time), growth(&blocks, bytes));
    let load = shown(median_of(5, || async { drop(store.load(&id).await) }).await);
    let repository = SessionRepository::new(Arc::clone(&store));
    let state = shown(median_of(5, || async { drop(repository.load(&id).await) }).await);
    let fork = shown(fork(&*store, &id).await);
    let [first, middle] = list(&store, sessions).await.map(shown);
    format!(
        "| {name} | {windows} | {all} | {time:+.2} % | {bytes:+.2} % | {load} | {state} | {fork} | \
         {first} | {middle} |"
    )
}

/// So many steps in a row: a multiple of the script's period, so that all blocks do the same.
const BLOCK: u32 = 60;

/// What the checkpoints of some steps cost.
#[derive(Default)]
struct Block {
    first: u32,
    times: Vec<Duration>,
    bytes: u64,
}

impl Block {
    fn median(&self) -> Duration {
        share(&mut self.times.clone(), 50)
    }

    fn bytes_each(&self) -> u64 {
        self.bytes / (self.times.len() as u64).max(1)
    }
}

/// Runs the agent, and returns what its checkpoints cost from step 10 on.
async fn run(
    store: &Arc<dyn SessionStore>,
    place: &Place,
    id: &SessionId,
    steps: u32,
) -> Vec<Block> {
    let watched = Arc::new(Watched::new(
        Arc::clone(store),
        Meter::new(place.server.as_ref().and_then(Postgres::process)),
    ));
    let runtime = SessionRuntime::new(Arc::clone(&watched) as _, Script::silent(steps));
    runtime.create(session(id)).await.expect("the session is created");
    let done = runtime.execute(id, &SendMessage::text("go")).await.expect("the run ends");
    assert_eq!(done.state().step_count(), steps, "{:?}", done.state().status());
    let mut blocks = std::mem::take(&mut watched.watcher().meter().blocks);
    // The last one is not whole.
    blocks.pop();
    blocks
}

/// Measures writes.
struct Meter(Mutex<Metered>);

struct Metered {
    server: Option<u32>,
    began: Instant,
    step: u32,
    bytes: u64,
    blocks: Vec<Block>,
}

impl Meter {
    fn new(server: Option<u32>) -> Self {
        let (began, blocks) = (Instant::now(), Vec::new());
        Self(Mutex::new(Metered { server, began, step: 1, bytes: 0, blocks }))
    }

    fn meter(&self) -> MutexGuard<'_, Metered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watcher for Meter {
    fn before(&self, _write: u64) {
        self.meter().began = Instant::now();
    }

    fn after(&self, _write: u64, kept: Option<Entry>) {
        let took = self.meter().began.elapsed();
        let Some(Entry::Kept { changes, .. }) = kept else { return };
        let meter = &mut *self.meter();
        if let Some(block) = meter.blocks.last_mut() {
            block.times.push(took);
        }
        for stamped in changes {
            if matches!(stamped.change, Change::StepCompleted { .. }) {
                meter.step += 1;
                if meter.step >= 10 && (meter.step - 10).is_multiple_of(BLOCK) {
                    meter.turn();
                }
            }
        }
    }
}

impl Metered {
    /// Ends a block and begins another one.
    fn turn(&mut self) {
        let bytes = bytes_of_keeper(self.server);
        if let Some(block) = self.blocks.last_mut() {
            // A process that ended takes its count along.
            block.bytes = bytes.saturating_sub(self.bytes);
        }
        self.bytes = bytes;
        self.blocks.push(Block { first: self.step, ..Block::default() });
    }
}

/// Returns by how many percent something grows from the first block to the last: the median of all
/// slopes between two blocks (Theil and Sen), so that no single block counts.
fn growth(blocks: &[Block], value: impl Fn(&Block) -> f64) -> f64 {
    let values: Vec<f64> = blocks.iter().map(value).collect();
    let mut slopes = Vec::new();
    for (late, end) in values.iter().enumerate() {
        for (early, begin) in values[..late].iter().enumerate() {
            #[expect(clippy::cast_precision_loss, reason = "they are few")]
            slopes.push((end - begin) / (late - early) as f64);
        }
    }
    let mut sorted = values;
    sorted.sort_by(f64::total_cmp);
    slopes.sort_by(f64::total_cmp);
    #[expect(clippy::cast_precision_loss, reason = "they are few")]
    let length = sorted.len() as f64;
    let middle = |of: &[f64]| of.get(of.len() / 2).copied().unwrap_or_default();
    let usual = middle(&sorted);
    if usual == 0.0 { 0.0 } else { 100.0 * middle(&slopes) * length / usual }
}

async fn fork(store: &dyn SessionStore, id: &SessionId) -> Duration {
    let source = store.header(id).await.ok().flatten().expect("the session is there");
    let definition = session(id).definition().clone();
    let mut times = Vec::new();
    for number in 0..101 {
        let id = SessionId::new(format!("fork-{number}")).expect("it is a name");
        let from =
            ForkPoint { session: source.id.clone(), branch: source.branch, at: source.length };
        let header = SessionHeader::new(id, "survivor", source.updated_at);
        let header = SessionHeader { from: Some(from), ..header };
        let new = NewSession { header: &header, definition: &definition, changes: &[] };
        let began = Instant::now();
        store.create(new).await.expect("the session is forked");
        times.push(began.elapsed());
    }
    share(&mut times, 50)
}

/// When the sessions that are listed were written.
fn moment(number: u64) -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000 + number)
}

/// How many sessions are created at the same time.
const AT_ONCE: usize = 8;

/// Creates sessions, and returns how long a page takes: the first, and one in the middle.
async fn list(store: &Arc<dyn SessionStore>, sessions: u64) -> [Duration; 2] {
    let tasks = (0..AT_ONCE as u64).map(|task| {
        let store = Arc::clone(store);
        tokio::spawn(async move {
            for number in (task..sessions).step_by(AT_ONCE) {
                let (header, session) = listed(number);
                let definition = session.definition();
                let new = NewSession { header: &header, definition, changes: &[] };
                store.create(new).await.expect("the session is created");
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("the sessions are created");
    }
    let first = SessionQuery::first(50);
    let id = SessionId::new("zzz").expect("it is a name");
    let after = Some(SessionCursor { updated_at: moment(sessions / 2), id });
    let middle = SessionQuery { after, ..first.clone() };
    let page = |query: SessionQuery| async move {
        let full = store.list(&query).await.expect("the sessions are listed");
        assert_eq!(full.len(), 50.min(usize::try_from(sessions / 2).unwrap_or(usize::MAX)));
    };
    [median_of(31, || page(first.clone())).await, median_of(31, || page(middle.clone())).await]
}

fn listed(number: u64) -> (SessionHeader, AgentSession) {
    let id = SessionId::new(format!("listed-{number}")).expect("it is a name");
    let session = session(&id);
    let header = SessionHeader {
        title: Some(format!("about {number}").into()),
        workdir: Some("/home/somebody".into()),
        ..SessionHeader::new(id, "survivor", moment(number))
    };
    (header, session)
}

// ------------------------------------------------------------------------------------------------
// Numbers

async fn median_of<F: Future<Output = ()>>(times: usize, what: impl Fn() -> F) -> Duration {
    let mut all = Vec::new();
    for _ in 0..times {
        let began = Instant::now();
        what().await;
        all.push(began.elapsed());
    }
    share(&mut all, 50)
}

/// Returns the time under which so many percent stay.
fn share(times: &mut [Duration], percent: usize) -> Duration {
    times.sort();
    times.get(times.len() * percent / 100).or(times.last()).copied().unwrap_or_default()
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn shown(time: Duration) -> String {
    let micros = micros(time);
    if micros < 1_000.0 { format!("{micros:.0} µs") } else { format!("{:.1} ms", micros / 1e3) }
}
