//! Workers, the server and the database are killed, and everything happens once.

use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use loopwright_core::{
    AgentState, ApprovalDecision, Change, ChangeRecord, IdempotencyKey, ToolOutput,
    messages::{ExecutionId, Message},
};
use loopwright_restate::{RestateStore, register};
use loopwright_sessions::{
    DecideCall, Job, JobId, JobQuery, JobRecord, JobStatus, SessionError, SessionRuntime,
    SessionStore, StoreError,
};
use loopwright_survival::{
    Failure,
    ledger::{Entry, read},
    numbers::Numbers,
    open::open,
    script::{ANSWER, Kind, Script},
};

use crate::{
    Database, create,
    engine::{Engine, free_port},
    now,
    worker::{Options, STEPS, scheduler},
};

/// The number of workers.
const WORKERS: usize = 3;
/// Of so many kills, one is of the server, and one of the database.
const OF_OTHERS: usize = 10;
/// How long all sessions may take, for each kill and each session.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often the jobs are looked at.
const LOOKS: Duration = Duration::from_millis(50);
/// The bound of a fail-over.
const FAIL_OVER: Duration = Duration::from_secs(30);

/// What is done.
pub(crate) struct Load {
    pub(crate) sessions: usize,
    pub(crate) kills: usize,
    /// Whether Restate has three nodes.
    pub(crate) is_cluster: bool,
}

/// The workers of a run.
struct Fleet {
    options: Options,
    ledger: PathBuf,
    workers: Vec<(String, Child)>,
    started: usize,
}

impl Fleet {
    fn start(&mut self) -> Result<(), Failure> {
        self.started += 1;
        let owner = format!("worker-{}", self.started);
        let options = Options { owner: owner.clone(), ..self.options.clone() };
        let ledger = File::options().create(true).append(true).open(&self.ledger)?;
        let worker = Command::new(std::env::current_exe()?)
            .args(["worker", &serde_json::to_string(&options)?])
            .stdin(Stdio::null())
            .stdout(ledger)
            .spawn()?;
        self.workers.push((owner, worker));
        Ok(())
    }

    /// Kills a worker, and starts another one. Returns the name of the killed one.
    fn kill(&mut self, victim: usize) -> Result<String, Failure> {
        let (owner, mut worker) = self.workers.remove(victim);
        worker.kill()?;
        worker.wait()?;
        self.start()?;
        Ok(owner)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for (_, worker) in &mut self.workers {
            let _killed = worker.kill();
            let _waited = worker.wait();
        }
    }
}

/// Runs everything, on Restate if its program is given, and fails unless all of it happened once.
pub(crate) async fn run(
    server: Option<&Path>,
    folder: &Path,
    database: &mut Database,
    load: &Load,
) -> Result<(), Failure> {
    let mut engine = match server {
        Some(server) if load.is_cluster => Some(Engine::start_cluster(server, folder).await?),
        Some(server) => Some(Engine::start(server, folder).await?),
        None => None,
    };
    let store = open(&database.url).await?;
    let ingress = engine.as_ref().map(Engine::ingress);
    let scheduler: Arc<dyn SessionStore> = match &ingress {
        Some(ingress) => Arc::new(RestateStore::new(scheduler(&store, ingress)?)),
        None => Arc::clone(&store),
    };
    let (port, owner) = (free_port()?, String::new());
    let options = Options { store: database.url.clone(), ingress, port, owner };
    let ledger = folder.join("ledger");
    let mut fleet = Fleet { options, ledger, workers: Vec::new(), started: 0 };
    for _ in 0..WORKERS {
        fleet.start()?;
    }
    if let Some(engine) = &engine {
        registered(engine, port).await?;
    }
    let ledger = fleet.ledger.clone();
    let mut world = World { store: scheduler, ledger, unsent: 0 };
    let began = Instant::now();
    let mut jobs = Vec::with_capacity(load.sessions);
    let mut numbers = Numbers::from_seed(0x5EED);
    let (mut kills, mut restarts, mut crashes) = (0, 0, 0);
    let mut watch = Watch::default();
    let limit = PATIENCE * u32::try_from(load.kills + load.sessions)?;
    let mut next_kill = Instant::now();
    loop {
        // Some sessions start after each kill, so that each worker has something to lose.
        let due = (load.sessions * (kills + 1)).div_ceil(load.kills + 1).min(load.sessions);
        let records = world.go_on(&mut jobs, due).await?;
        if began.elapsed() > limit {
            let open = records.map(|it| it.into_iter().filter(|it| !has_ended(it)).collect());
            let open: Vec<_> = open.ok_or("the database is away")?;
            return Err(format!("{} jobs are stuck: {open:#?}", open.len()).into());
        }
        tokio::time::sleep(LOOKS).await;
        let Some(records) = records else { continue };
        watch.look(&records);
        if jobs.len() == load.sessions && kills == load.kills && records.iter().all(has_ended) {
            break;
        }
        if kills < load.kills && Instant::now() >= next_kill {
            match (kills % OF_OTHERS, &mut engine, &mut database.server) {
                (9, Some(engine), _) => {
                    engine.restart().await?;
                    restarts += 1;
                }
                (4, _, Some(server)) => {
                    server.stop()?;
                    server.go_on()?;
                    crashes += 1;
                }
                _ => {
                    let owner = fleet.kill(usize::try_from(numbers.below(WORKERS as u64))?)?;
                    watch.killed(&owner, &records);
                }
            }
            kills += 1;
            let lull = 300 + numbers.below(1_500);
            next_kill = Instant::now() + Duration::from_millis(lull);
        }
    }
    println!(
        "{} sessions of {STEPS} steps, {kills} kills ({restarts} of the server, {crashes} of the database) in {:.0?}",
        load.sessions,
        began.elapsed()
    );
    report(engine.as_ref(), &world, &jobs, watch).await
}

fn has_ended(record: &JobRecord) -> bool {
    record.status.is_over() && record.status != JobStatus::NeedsInput
}

/// Checks what became of everything, and prints it.
async fn report(
    engine: Option<&Engine>,
    world: &World,
    jobs: &[Job],
    mut watch: Watch,
) -> Result<(), Failure> {
    let Happened { effects, questions, recoveries } = world.check(jobs).await?;
    let left = match engine {
        Some(engine) => left(engine).await?,
        None => 0,
    };
    let crashes: u32 = watch.crashes.values().sum();
    println!(
        "{effects} effects, each once; {questions} questions, each asked once, and {recoveries} interrupted calls were decided; \
         {crashes} attempts ended with their worker; {} jobs were recorded while Restate was away; 0 steps lost, 0 sessions \
         stuck, {left} invocations left",
        world.unsent,
    );
    let (median, worst) = watch.figures();
    println!("fail-over of {} sessions: median {median:.1?}, worst {worst:.1?}", watch.found.len());
    if left > 0 || worst > FAIL_OVER {
        return Err(format!("{left} invocations left, worst fail-over {worst:?}").into());
    }
    Ok(())
}

/// Registers the workers, which may still be starting.
pub(crate) async fn registered(engine: &Engine, port: u16) -> Result<(), Failure> {
    let (began, url) = (Instant::now(), format!("http://127.0.0.1:{port}"));
    loop {
        match register(&engine.admin(), &url).await {
            Ok(()) => return Ok(()),
            Err(error) if began.elapsed() > PATIENCE => return Err(error.into()),
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Returns the number of invocations that have not ended. Duplicates may still find out that their job has ended.
async fn left(engine: &Engine) -> Result<usize, Failure> {
    let began = Instant::now();
    loop {
        let left = "SELECT id FROM sys_invocation WHERE status <> 'completed'";
        let left = engine.query(left).await?.len();
        if left == 0 || began.elapsed() > PATIENCE {
            return Ok(left);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// How long sessions of killed workers wait for another one.
#[derive(Default)]
struct Watch {
    /// Claims that ended with their worker, and when.
    open: HashMap<JobId, (u64, Instant)>,
    found: Vec<Duration>,
    crashes: HashMap<JobId, u32>,
}

impl Watch {
    fn killed(&mut self, owner: &str, records: &[JobRecord]) {
        let is_its = |it: &&JobRecord| it.owner.as_deref() == Some(owner);
        for record in records.iter().filter(is_its) {
            self.open.entry(record.job.id.clone()).or_insert((record.claims, Instant::now()));
        }
    }

    fn look(&mut self, records: &[JobRecord]) {
        for record in records {
            let id = &record.job.id;
            self.crashes.insert(id.clone(), record.crashes);
            let Some((claim, since)) = self.open.get(id) else { continue };
            if record.claims > *claim || record.status.is_over() {
                self.found.push(since.elapsed());
                self.open.remove(id);
            }
        }
    }

    fn figures(&mut self) -> (Duration, Duration) {
        self.found.sort();
        let median = self.found.get(self.found.len() / 2).copied().unwrap_or_default();
        (median, self.found.last().copied().unwrap_or_default())
    }
}

/// The sessions, and their user, who decides.
struct World {
    store: Arc<dyn SessionStore>,
    ledger: PathBuf,
    unsent: usize,
}

/// What happened, as often as it should.
struct Happened {
    effects: usize,
    /// Questions before a call.
    questions: usize,
    /// Questions about calls whose start is recorded and whose end is not.
    recoveries: usize,
}

impl World {
    /// Starts sessions, decides, and returns the records of all jobs; `None` if the database is away.
    async fn go_on(
        &mut self,
        jobs: &mut Vec<Job>,
        due: usize,
    ) -> Result<Option<Vec<JobRecord>>, Failure> {
        let done = async {
            while jobs.len() < due {
                jobs.push(self.push().await?);
            }
            let queue = self.store.jobs().ok_or("no queue")?;
            let records = queue.records(&JobQuery::last(100_000)).await?;
            self.decide(&records).await?;
            Ok::<_, Failure>(records)
        };
        match done.await {
            Ok(records) => Ok(Some(records)),
            Err(error) if is_away(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Starts a session.
    async fn push(&mut self) -> Result<Job, Failure> {
        let scheduler = self.store.scheduler().ok_or("no scheduler")?;
        let job = Job::send_message(create(&*self.store).await?, Message::user("go"));
        loop {
            match scheduler.push(&job, now()).await {
                Ok(_) => return Ok(job),
                // Workers send it later.
                Err(StoreError::Undelivered(_)) => {
                    self.unsent += 1;
                    return Ok(job);
                }
                // It may be recorded. The same job is recorded once.
                Err(StoreError::Unavailable(_)) => {
                    tokio::time::sleep(LOOKS).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn entries(&self) -> Result<Vec<Entry>, Failure> {
        Ok(read(&std::fs::read(&self.ledger)?))
    }

    /// Decides about every call that waits, as a user who can see what took effect.
    async fn decide(&self, records: &[JobRecord]) -> Result<(), Failure> {
        for record in records.iter().filter(|it| it.status == JobStatus::NeedsInput) {
            let session = &record.job.session;
            let Some(loaded) = self.store.load(session).await? else { continue };
            let changes = loaded.changes.clone();
            let state = AgentState::new().replay(loaded.changes)?;
            let entries = self.entries()?;
            for pending in state.pending() {
                let key = key(&changes, pending.index);
                let done = |it: &Entry| matches!(it, Entry::Done { key: k, .. } if *k == key);
                let resolution = if entries.iter().any(done) {
                    ApprovalDecision::Answer(ToolOutput::text("it took effect"))
                } else {
                    ApprovalDecision::Approve
                };
                let decide = DecideCall { path: Some(pending.address()), resolution };
                let runtime = SessionRuntime::new(Arc::clone(&self.store), Script::silent(STEPS));
                match runtime.execute(session, &decide).await {
                    // A worker has it for a moment.
                    Ok(_) | Err(SessionError::Store(StoreError::Busy { .. })) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    /// Checks that all sessions ended, and that everything happened once.
    async fn check(&self, jobs: &[Job]) -> Result<Happened, Failure> {
        let mut effects: BTreeMap<String, (Kind, usize)> = BTreeMap::new();
        for entry in self.entries()? {
            if let Entry::Done { kind, key } = entry {
                effects.entry(key).or_insert((kind, 0)).1 += 1;
            }
        }
        let mut problems = Vec::new();
        for (key, (kind, times)) in &effects {
            if *kind == Kind::Once && *times > 1 {
                problems.push(format!("{key} took effect {times} times"));
            }
        }
        let (mut questions, mut recoveries) = (0, 0);
        for Job { id, session, .. } in jobs {
            let scheduler = self.store.scheduler().ok_or("no scheduler")?;
            let record = scheduler.job(id).await?.ok_or("a job is lost")?;
            let loaded = self.store.load(session).await?.ok_or("a session is lost")?;
            problems.extend(missing(&loaded.changes, &effects));
            let (asked, interrupted) = requests(&loaded.changes);
            (questions, recoveries) = (questions + asked, recoveries + interrupted);
            let state = AgentState::new().replay(loaded.changes)?;
            let is_right = record.status == JobStatus::Completed
                && state.text() == ANSWER
                && state.step_count() == STEPS
                && state.execution_count() == 1
                && asked == 1;
            if !is_right {
                problems.push(format!(
                    "session {session}: job {:?} ({:?}), {} steps, {} executions, {asked} questions, answer {:?}",
                    record.status,
                    record.reason,
                    state.step_count(),
                    state.execution_count(),
                    state.text()
                ));
            }
        }
        let effects = effects.len();
        let happened = Happened { effects, questions, recoveries };
        if problems.is_empty() { Ok(happened) } else { Err(problems.join("\n").into()) }
    }
}

/// Returns `true` if the database did not respond.
fn is_away(error: &Failure) -> bool {
    let of_session =
        |it: &SessionError| matches!(it, SessionError::Store(StoreError::Unavailable(_)));
    matches!(error.downcast_ref(), Some(StoreError::Unavailable(_)))
        || error.downcast_ref().is_some_and(of_session)
}

/// Counts the questions before calls, and those about interrupted calls.
fn requests(changes: &[ChangeRecord]) -> (usize, usize) {
    let mut counts = (0, 0);
    for record in changes {
        match &record.change {
            Change::ApprovalRequested { question, .. } if question.is_recovery() => counts.1 += 1,
            Change::ApprovalRequested { .. } => counts.0 += 1,
            _ => {}
        }
    }
    counts
}

/// Finds the calls of a session that ended and did not take effect.
fn missing(changes: &[ChangeRecord], effects: &BTreeMap<String, (Kind, usize)>) -> Vec<String> {
    let mut missing = Vec::new();
    for (number, record) in changes.iter().enumerate() {
        if let Change::ToolCallCompleted { call, .. } = &record.change {
            let key = key(&changes[..number], *call);
            if !effects.contains_key(&key) {
                missing.push(format!("{key} has ended without effect"));
            }
        }
    }
    missing
}

/// Returns the key of a call of the step after these changes.
fn key(changes: &[ChangeRecord], call: u16) -> String {
    let (mut execution, mut step) = (ExecutionId::from(""), 1);
    for record in changes {
        match &record.change {
            Change::ExecutionStarted { execution: id, .. } => (execution, step) = (id.clone(), 1),
            Change::StepCompleted { .. } | Change::StepFailed { .. } => step += 1,
            _ => {}
        }
    }
    IdempotencyKey { execution, step, call: Some(call) }.to_string()
}
