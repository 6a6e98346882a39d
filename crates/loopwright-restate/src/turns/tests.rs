//! The scheduler against a server of Restate, which `LOOPWRIGHT_RESTATE_SERVER` names. Without it, the tests say that they were left out.

use std::{
    collections::{BTreeMap, HashMap},
    env,
    net::TcpListener as StdListener,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use loopwright_core::Timestamp;
use loopwright_sessions::{
    ClaimRequest, ClaimedJob, JobId, JobLabels, JobOutcome, JobQuery, JobRecord, JobStatus,
    Scheduler, SessionId, SessionStore, StoreError,
    conformance::{self, SchedulerUnderTest},
};
use loopwright_store_sql::SqliteStore;
use loopwright_worker::JobDelivery;
use restate_sdk::prelude::HandlerError;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::DeliverTurn;
use crate::{
    ingress::Address,
    register::register,
    scheduler::{Overdue, RestateScheduler},
    service::RestateService,
    worker::serve,
};

/// The longest time for anything that Restate does here.
const PATIENCE: Duration = Duration::from_mins(1);

/// A server of Restate with its data in a folder of its own, which ends with this.
struct Engine {
    server: Child,
    ingress: String,
    admin: String,
    _folder: tempfile::TempDir,
}

impl Engine {
    /// Starts the server that the variable names, if it names one.
    async fn start() -> Option<Self> {
        let Some(program) = env::var_os("LOOPWRIGHT_RESTATE_SERVER") else {
            println!("left out: LOOPWRIGHT_RESTATE_SERVER names no server; run scripts/restate");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let free = || StdListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let [node, ingress, admin] = [(); 3].map(|()| free());
        let server = Command::new(program)
            .arg("--no-logo")
            .env("RESTATE_BASE_DIR", folder.path())
            .env("RESTATE_LISTEN_MODE", "tcp")
            .env("RESTATE_BIND_IP", "127.0.0.1")
            .env("RESTATE_ADVERTISED_HOST", "127.0.0.1")
            .env("RESTATE_BIND_PORT", node.to_string())
            .env("RESTATE_INGRESS__BIND_PORT", ingress.to_string())
            .env("RESTATE_ADMIN__BIND_PORT", admin.to_string())
            .env("RESTATE_DEFAULT_NUM_PARTITIONS", "4")
            .env("RESTATE_ROCKSDB_TOTAL_MEMORY_SIZE", "256MB")
            .env("RESTATE_DISABLE_TELEMETRY", "true")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let engine = Self { server, ingress: url(ingress), admin: url(admin), _folder: folder };
        let patience = Patience::new("the server");
        while engine.query("SELECT id FROM sys_invocation LIMIT 1").await.is_none() {
            patience.wait().await;
        }
        Some(engine)
    }

    /// Returns the rows of a query, or `None` if the server is not ready.
    async fn query(&self, sql: &str) -> Option<Vec<Value>> {
        let body = serde_json::json!({ "query": sql }).to_string();
        let response = Address::new(&self.admin).unwrap().post("/query", body, None).await.ok()?;
        let rows: Value = serde_json::from_str(&response.text().await.ok()?).ok()?;
        rows["rows"].as_array().cloned()
    }

    /// Returns the number of invocations of a service by their status.
    async fn invocations(&self, service: &RestateService) -> BTreeMap<String, u64> {
        let sql = format!(
            "SELECT status, COUNT(*) AS number FROM sys_invocation
            WHERE target_service_name = '{service}' GROUP BY status"
        );
        let rows = self.query(&sql).await.unwrap();
        let count = |row: &Value| {
            let number = &row["number"];
            let number = number.as_u64().or_else(|| number.as_str()?.parse().ok());
            (row["status"].as_str().unwrap().to_owned(), number.unwrap())
        };
        rows.iter().map(count).collect()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
    }
}

/// Looks for something again and again, for a limited time.
struct Patience {
    what: &'static str,
    began: Instant,
}

impl Patience {
    fn new(what: &'static str) -> Self {
        Self { what, began: Instant::now() }
    }

    async fn wait(&self) {
        assert!(self.began.elapsed() < PATIENCE, "waited for {}", self.what);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The worker under test: it starts the jobs that a test starts, and finishes them as the test says.
#[derive(Default)]
struct Manual(Mutex<Held>);

#[derive(Default)]
struct Held {
    /// Jobs that Restate delivered, which wait for their start.
    arrived: HashMap<JobId, oneshot::Sender<Timestamp>>,
    /// Jobs that run.
    running: HashMap<JobId, oneshot::Sender<(JobOutcome, Timestamp)>>,
    /// The claims of jobs that have just started.
    started: HashMap<JobId, Option<ClaimedJob>>,
    /// Jobs that Restate delivers again later.
    sleeping: HashMap<JobId, Duration>,
}

struct ManualWorker {
    store: Arc<SqliteStore>,
    manual: Arc<Manual>,
}

impl ManualWorker {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.manual.0.lock().unwrap()
    }
}

#[async_trait]
impl DeliverTurn for ManualWorker {
    async fn deliver(&self, session: &SessionId, job: &JobId) -> JobDelivery {
        let queue = self.store.jobs().unwrap();
        let (start, started) = oneshot::channel();
        {
            let mut held = self.held();
            held.sleeping.remove(job);
            held.arrived.insert(job.clone(), start);
        }
        let Ok(now) = started.await else { return JobDelivery::Elsewhere };
        let request = ClaimRequest::new("worker", now, Duration::from_mins(5));
        let claimed = queue.claim_job(job, request).await.unwrap();
        let (end, ended) = oneshot::channel();
        let Some(claimed) = claimed.filter(|it| it.job.session == *session) else {
            self.held().started.insert(job.clone(), None);
            return JobDelivery::Unknown;
        };
        {
            let mut held = self.held();
            held.running.insert(job.clone(), end);
            held.started.insert(job.clone(), Some(claimed.clone()));
        }
        let Ok((outcome, now)) = ended.await else { return JobDelivery::Elsewhere };
        match outcome {
            JobOutcome::Retry { at, .. } => {
                self.held().sleeping.insert(job.clone(), at.since(now));
                JobDelivery::Later(at.since(now))
            }
            JobOutcome::Released => JobDelivery::Elsewhere,
            outcome => JobDelivery::Ended(outcome.status()),
        }
    }

    async fn cancel(&self, _: &SessionId, _: &JobId) -> Result<JobDelivery, HandlerError> {
        Ok(JobDelivery::Ended(JobStatus::Stopped))
    }
}

/// A scheduler with a service of its own.
struct World<'a> {
    engine: &'a Engine,
    service: RestateService,
    store: Arc<SqliteStore>,
    scheduler: RestateScheduler,
    manual: Arc<Manual>,
    _folder: tempfile::TempDir,
    _stop: tokio_util::sync::DropGuard,
}

impl<'a> World<'a> {
    async fn new(engine: &'a Engine, name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(folder.path().join("sessions.db")).await.unwrap());
        let service: RestateService = name.parse().unwrap();
        let dynamic: Arc<dyn SessionStore> = Arc::clone(&store) as _;
        let scheduler = RestateScheduler::new(dynamic, &engine.ingress, &service).unwrap();
        let manual = Arc::new(Manual::default());
        let worker = ManualWorker { store: Arc::clone(&store), manual: Arc::clone(&manual) };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let stop = CancellationToken::new();
        let (of_worker, stopped) = (service.clone(), stop.clone());
        drop(tokio::spawn(async move {
            serve(listener, Arc::new(worker), &of_worker, &[], 1_000, &stopped).await.unwrap();
        }));
        register(&engine.admin, &url).await.unwrap();
        Self {
            engine,
            service,
            store,
            scheduler,
            manual,
            _folder: folder,
            _stop: stop.drop_guard(),
        }
    }

    /// Waits until Restate has delivered every job that can run now, and returns those that wait for their start.
    async fn arrived(&self) -> Vec<JobId> {
        let patience = Patience::new("Restate to deliver");
        loop {
            let counts = self.engine.invocations(&self.service).await;
            let records = self.store.jobs().unwrap().records(&JobQuery::last(1_000)).await;
            if let Some(arrived) = self.settled(&counts, &records.unwrap()) {
                return arrived;
            }
            patience.wait().await;
        }
    }

    /// Returns the jobs that wait for their start in the order in which they were pushed, or `None` if Restate may deliver more.
    fn settled(&self, counts: &BTreeMap<String, u64>, records: &[JobRecord]) -> Option<Vec<JobId>> {
        let count = |status: &str| counts.get(status).copied().unwrap_or_default();
        let held = self.held();
        let known = held.arrived.len() + held.running.len() + held.sleeping.len();
        let is_settled = counts.values().sum::<u64>() >= records.len() as u64
            && count("ready") + count("backing-off") == 0
            && held.sleeping.values().all(|it| *it > Duration::from_secs(1))
            && count("running") + count("suspended") == known as u64;
        let pushed = records.iter().rev().map(|it| it.job.id.clone());
        is_settled.then(|| pushed.filter(|it| held.arrived.contains_key(it)).collect())
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.manual.0.lock().unwrap()
    }
}

#[async_trait]
impl SchedulerUnderTest for World<'_> {
    fn store(&self) -> &dyn SessionStore {
        &*self.store
    }

    fn scheduler(&self) -> &dyn Scheduler {
        &self.scheduler
    }

    async fn start(&self, labels: &JobLabels, now: Timestamp) -> Option<ClaimedJob> {
        assert!(labels.is_empty());
        let first = self.arrived().await.into_iter().next()?;
        let start = self.held().arrived.remove(&first).unwrap();
        start.send(now).unwrap();
        let patience = Patience::new("the job to start");
        let mut claimed = loop {
            let started = self.held().started.remove(&first);
            match started {
                Some(started) => break started.unwrap(),
                None => patience.wait().await,
            }
        };
        assert_eq!(claimed.job.needs, self.service.label());
        claimed.job.needs = JobLabels::default();
        Some(claimed)
    }

    async fn finish(&self, running: &ClaimedJob, outcome: &JobOutcome, now: Timestamp) {
        let queue = self.store.jobs().unwrap();
        assert!(queue.settle(running, outcome, now).await.unwrap());
        let job = &running.job.id;
        let end = self.held().running.remove(job).unwrap();
        end.send((outcome.clone(), now)).unwrap();
        let is_back =
            |held: &Held| held.sleeping.contains_key(job) || held.arrived.contains_key(job);
        let patience = Patience::new("the job to sleep");
        while matches!(outcome, JobOutcome::Retry { .. }) && !is_back(&self.held()) {
            patience.wait().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restate_schedules_jobs_as_every_scheduler_must() {
    let Some(engine) = Engine::start().await else { return };
    for (number, fact) in conformance::SCHEDULER_CASES.iter().enumerate() {
        println!("{}", fact.name);
        (fact.check)(&World::new(&engine, &format!("case_{number}")).await).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_whose_record_was_written_before_its_process_died_is_sent_later_and_once() {
    let Some(engine) = Engine::start().await else { return };
    let world = World::new(&engine, "unsent").await;
    let [store, queue] = [world.store(), world.store()];
    conformance_session(store, "a").await;
    let job = loopwright_sessions::Job::resume(SessionId::new("a").unwrap());
    let recorded = job.clone().with_needs(world.service.label());
    let at = Timestamp::from_millis;
    assert!(queue.jobs().unwrap().push(&recorded, at(1_000)).await.unwrap());
    let send = async |before, overdue: &mut Overdue| {
        world.scheduler.send_overdue(at(before), overdue).await.unwrap()
    };
    // Three workers, each of which sends it once.
    for _ in 0..3 {
        let known = &mut Overdue::default();
        let counts = [send(1_000, known).await, send(2_000, known).await, send(2_000, known).await];
        assert_eq!(counts, [0, 1, 0]);
    }
    let running = world.start(JobLabels::EMPTY, at(3_000)).await.unwrap();
    assert_eq!(running.job, job);
    world.finish(&running, &JobOutcome::Done, at(4_000)).await;
    assert_eq!(world.start(JobLabels::EMPTY, at(5_000)).await, None);
    let invocations: u64 = engine.invocations(&world.service).await.values().sum();
    assert_eq!((invocations, send(9_000, &mut Overdue::default()).await), (1, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_restate_stores_of_a_job_has_no_word_of_its_message() {
    let Some(engine) = Engine::start().await else { return };
    let world = World::new(&engine, "journal").await;
    conformance_session(world.store(), "a").await;
    let message = loopwright_core::messages::Message::user("a secret plan");
    let job = loopwright_sessions::Job::send_message(SessionId::new("a").unwrap(), message);
    let at = Timestamp::from_millis;
    assert!(world.scheduler.push(&job, at(1_000)).await.unwrap());
    let running = world.start(JobLabels::EMPTY, at(2_000)).await.unwrap();
    let failed = JobOutcome::Failed("the secret plan failed".into());
    world.finish(&running, &failed, at(3_000)).await;
    assert_eq!(world.start(JobLabels::EMPTY, at(4_000)).await, None);
    let mut stored = String::new();
    for table in ["sys_invocation", "sys_journal", "state"] {
        let rows = engine.query(&format!("SELECT * FROM {table}")).await.unwrap();
        stored.push_str(&Value::from(rows).to_string());
    }
    // Entries of the journal are written in hexadecimal digits.
    let hex = |text: &str| text.bytes().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
    let has = |text: &str| [stored.contains(text), stored.contains(&hex(text))];
    assert_eq!(has(job.id.as_str()), [true, true], "{stored}");
    assert_eq!(has("secret"), [false, false], "{stored}");
}

#[tokio::test]
async fn jobs_that_restate_could_not_deliver_as_they_say_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(folder.path().join("sessions.db")).await.unwrap());
    conformance_session(&*store, "a").await;
    let nowhere = "http://127.0.0.1:1";
    let service = RestateService::default();
    let scheduler = RestateScheduler::new(Arc::clone(&store) as _, nowhere, &service).unwrap();
    let job = || loopwright_sessions::Job::resume(SessionId::new("a").unwrap());
    let now = Timestamp::from_millis(1_000);
    for refused in [job().with_needs("gpu".parse().unwrap()), job().with_priority(1)] {
        let result = scheduler.push(&refused, now).await;
        assert!(matches!(result, Err(StoreError::Unsupported(_))), "{result:?}");
        assert_eq!(scheduler.job(&refused.id).await.unwrap(), None);
    }
    // A job that Restate does not learn of now is recorded for later.
    let unsent = job();
    let result = scheduler.push(&unsent, now).await;
    assert!(matches!(result, Err(StoreError::Undelivered(_))), "{result:?}");
    let record = scheduler.job(&unsent.id).await.unwrap().unwrap();
    assert_eq!((record.job, record.status), (unsent, JobStatus::Queued));
    for url in ["restate:8080", "ftp://restate", "http://", "http://restate?a=b"] {
        assert!(RestateScheduler::new(Arc::clone(&store) as _, url, &service).is_err(), "{url}");
    }
}

async fn conformance_session(store: &dyn SessionStore, name: &str) {
    let now = Timestamp::from_millis(0);
    let id = SessionId::new(name).unwrap();
    let header = &loopwright_sessions::SessionHeader::new(id, "agent", now);
    let definition = &loopwright_agent::AgentDefinition::new("agent", "works", "You work.");
    let new = loopwright_sessions::NewSession { header, definition, changes: &[] };
    store.create(new).await.unwrap();
}
