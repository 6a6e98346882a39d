//! Working directories that follow their sessions. Two machines are two folders that take turns at one path.

use std::{
    collections::BTreeMap,
    fs,
    future::pending,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use loopwright_agent::AgentDefinition;
use loopwright_core::{
    AgentLoop, AgentState, Change, RunOptions, SideEffects, ToolOptions, ToolOutput,
    messages::Message,
};
use loopwright_sessions::{
    Job, JobOutcome, JobStatus, NewSession, SessionError, SessionHeader, SessionLog,
    SessionRuntime, SessionStore as _,
};
use loopwright_store_sql::SqliteStore;
use loopwright_testing::{FakeModel, FrozenClock, MockTool, ScenarioStep};
use loopwright_worker::{JobCounts, OnIdle, SessionFolders, Worker, WorkerOptions};
use loopwright_workspaces::{Removed, Snapshots, object_store::path::Path as ObjectPath};
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::worker::{Same, World, agent, id};

/// Machines that share a database and an object storage.
struct Machines {
    world: World,
    place: TempDir,
    /// Notified once a tool waits forever.
    hung: Arc<Notify>,
    on: &'static str,
    clock: FrozenClock,
}

impl Machines {
    /// Starts on machine `one`, with a session that has no working directory yet.
    async fn new() -> Self {
        let (world, place) = (World::with(&[]).await, tempfile::tempdir().unwrap());
        let mut header =
            SessionHeader::new(id("a"), "agent", FrozenClock::new().env(0).clock.now());
        header.workdir = Some(place.path().join("root/a").to_str().unwrap().into());
        let definition = &AgentDefinition::new("agent", "works", "You work.");
        let new = NewSession { header: &header, definition, changes: &[] };
        world.store.create(new).await.unwrap();
        fs::create_dir(place.path().join("root")).unwrap();
        Self { world, place, hung: Arc::default(), on: "one", clock: FrozenClock::new() }
    }

    fn root(&self) -> PathBuf {
        self.place.path().join("root")
    }

    fn folder(&self) -> PathBuf {
        self.root().join("a")
    }

    /// Continues on another machine.
    fn switch(&mut self, to: &'static str) {
        let of = |name: &str| self.place.path().join(name);
        fs::rename(self.root(), of(self.on)).unwrap();
        if of(to).exists() {
            fs::rename(of(to), self.root()).unwrap();
        } else {
            fs::create_dir(self.root()).unwrap();
        }
        self.on = to;
    }

    /// The storage stops responding, or responds again.
    fn disconnect(&self, is_away: bool) {
        let [storage, away] = ["storage", "away"].map(|name| self.place.path().join(name));
        if is_away {
            fs::rename(&storage, &away).unwrap();
            fs::write(&storage, "").unwrap();
        } else {
            fs::remove_file(&storage).unwrap();
            fs::rename(&away, &storage).unwrap();
        }
    }

    /// An agent that writes files in the working directory, all in one step, and then answers. A file with the text `half` is
    /// written once the result of another call is recorded, and that call never ends. After a file with the text `lost`, another
    /// worker has the directory.
    fn agent(&self, files: &[(&'static str, &'static str)]) -> AgentLoop {
        let (folder, hung, store) =
            (self.folder(), Arc::clone(&self.hung), Arc::clone(&self.world.store));
        let write = MockTool::with_cx("write", "", move |arguments, _| {
            let [file, text] =
                ["file", "text"].map(|name| arguments[name].as_str().unwrap().to_owned());
            let (path, hung, store) = (folder.join(file), Arc::clone(&hung), Arc::clone(&store));
            Box::pin(async move {
                let hangs = text == "half";
                while hangs && !is_any_result_recorded(&store).await {}
                fs::write(path, &text).unwrap();
                if text == "lost" {
                    continue_elsewhere(&store).await;
                }
                if hangs {
                    hung.notify_one();
                    return pending().await;
                }
                // It does not say that it changed files.
                Ok(ToolOutput::text("written"))
            })
        });
        let once = SideEffects::AtMostOnce;
        let write =
            write.with_options(ToolOptions { side_effects: once, ..ToolOptions::default() });
        let call = |(file, text): &(&str, &str)| ("write", json!({ "file": file, "text": text }));
        let step = (!files.is_empty()).then(|| ScenarioStep::tool_calls(files.iter().map(call)));
        let script = step.into_iter().chain([ScenarioStep::final_answer("done")]);
        agent(&FakeModel::script(script)).with_tool(write)
    }

    fn worker(&self, agent: &AgentLoop) -> Worker {
        let snapshots = Snapshots::in_folder(&self.place.path().join("storage"));
        // The folder of the storage cannot be opened while it is away.
        let snapshots = snapshots.unwrap_or_else(|_| Snapshots::open("memory:///").unwrap());
        self.worker_with(agent, snapshots)
    }

    fn worker_with(&self, agent: &AgentLoop, snapshots: Snapshots) -> Worker {
        let folders = SessionFolders::new(snapshots, self.root()).with_host(self.on);
        let options =
            WorkerOptions { on_idle: OnIdle::Exit, max_attempts: 1, ..WorkerOptions::default() };
        let worker = Worker::new(Arc::clone(&self.world.store) as _, Same(agent.clone())).unwrap();
        worker
            .with_options(options)
            .with_env(self.clock.env(0))
            .with_owner("worker")
            .with_folders(folders)
    }

    /// Does a job that writes these files.
    async fn job(&self, files: &[(&'static str, &'static str)]) -> JobCounts {
        self.world.push("a", "go").await;
        self.worker(&self.agent(files)).run(&CancellationToken::new()).await
    }

    /// Does a job until its tool waits forever, and ends the worker there.
    async fn killed(&self, agent: &AgentLoop) -> Job {
        let job = self.world.push("a", "go").await;
        let (worker, drain) = (self.worker(agent), CancellationToken::new());
        tokio::select! {
            counts = worker.run(&drain) => panic!("ended: {counts:?}"),
            () = self.hung.notified() => {}
        }
        let now = self.clock.env(0).clock.now();
        assert_eq!(self.world.queue().release_all("worker", now).await.unwrap(), 1);
        // The lease on the session ends.
        self.clock.advance(Duration::from_mins(1));
        job
    }

    fn files(&self) -> BTreeMap<String, String> {
        files(&self.folder())
    }
}

/// Has another process extend the chain of snapshots.
async fn continue_elsewhere(store: &SqliteStore) {
    let entries = store.read_log(&id("a"), SessionLog::Folder, 0, 99).await.unwrap();
    let last = entries.last().unwrap();
    let mut record: serde_json::Value = serde_json::from_slice(&last.body).unwrap();
    record["after"] = last.number.into();
    record["writer"]["id"] = "another".into();
    let entry = serde_json::to_vec(&record).unwrap();
    let number = store.append_log(&id("a"), SessionLog::Folder, &[entry.into()], None).await;
    assert_eq!(number.unwrap(), last.number + 1);
}

async fn is_any_result_recorded(store: &SqliteStore) -> bool {
    let session = store.load(&id("a")).await.unwrap().unwrap();
    session.changes.iter().any(|it| matches!(it.change, Change::ToolCallCompleted { .. }))
}

fn files(folder: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let read = |it: fs::DirEntry| {
        (it.file_name().into_string().unwrap(), fs::read_to_string(it.path()).unwrap())
    };
    entries.map(read).collect()
}

fn of<const N: usize>(files: [(&str, &str); N]) -> BTreeMap<String, String> {
    files.map(|(name, text)| (name.to_owned(), text.to_owned())).into()
}

fn completed() -> JobCounts {
    JobCounts { completed: 1, ..JobCounts::default() }
}

#[tokio::test]
async fn a_session_continues_on_another_machine_with_its_files() {
    let mut machines = Machines::new().await;
    assert_eq!(machines.job(&[("a.txt", "1"), ("b.txt", "1")]).await, completed());
    machines.switch("two");
    assert_eq!(machines.job(&[("b.txt", "2")]).await, completed());
    assert_eq!(machines.files(), of([("a.txt", "1"), ("b.txt", "2")]));
    machines.switch("one");
    assert_eq!(machines.files(), of([("a.txt", "1"), ("b.txt", "1")]));
    assert_eq!(machines.job(&[("c.txt", "3")]).await, completed());
    assert_eq!(machines.files(), of([("a.txt", "1"), ("b.txt", "2"), ("c.txt", "3")]));
}

#[tokio::test]
async fn a_directory_that_has_the_last_content_is_used_as_it_is() {
    let machines = Machines::new().await;
    assert_eq!(machines.job(&[("a.txt", "1")]).await, completed());
    // A restore would remove it.
    fs::write(machines.folder().join("own.txt"), "mine").unwrap();
    assert_eq!(machines.job(&[("b.txt", "2")]).await, completed());
    assert_eq!(machines.files(), of([("a.txt", "1"), ("b.txt", "2"), ("own.txt", "mine")]));
}

#[tokio::test]
async fn a_recorded_call_comes_with_its_files_and_an_interrupted_one_without() {
    let mut machines = Machines::new().await;
    let job = machines.killed(&machines.agent(&[("a.txt", "1"), ("b.txt", "half")])).await;
    assert_eq!(machines.files(), of([("a.txt", "1"), ("b.txt", "half")]));
    machines.switch("two");
    machines.worker(&machines.agent(&[])).run(&CancellationToken::new()).await;
    // The interrupted call waits for a decision.
    let record = machines.world.record(&job).await;
    assert_eq!(record.status, JobStatus::NeedsInput, "{record:?}");
    assert_eq!(machines.files(), of([("a.txt", "1")]));
    // What the killed worker left on its machine is discarded there as well.
    machines.switch("one");
    machines.world.push("a", "again").await;
    machines.worker(&machines.agent(&[])).run(&CancellationToken::new()).await;
    assert_eq!(machines.files(), of([("a.txt", "1")]));
}

#[tokio::test]
async fn a_recorded_call_of_a_sub_agent_comes_with_its_files() {
    let mut machines = Machines::new().await;
    let (child, hung) = (machines.agent(&[("a.txt", "1")]), Arc::clone(&machines.hung));
    let delegate = MockTool::with_cx("delegate", "", move |_, cx| {
        let (child, hung) = (child.clone(), Arc::clone(&hung));
        Box::pin(async move {
            let journal = cx.journal.map(|it| it.child(cx.key));
            let options = RunOptions { journal, ..RunOptions::default() };
            let state = AgentState::new().with_message(Message::user("go"));
            child.start(state, options).finish().await;
            hung.notify_one();
            pending().await
        })
    });
    let once = ToolOptions { side_effects: SideEffects::AtMostOnce, ..ToolOptions::default() };
    let call = ScenarioStep::tool_calls([("delegate", json!({}))]);
    let parent = agent(&FakeModel::script([call])).with_tool(delegate.with_options(once));
    let job = machines.killed(&parent).await;
    machines.switch("two");
    machines.worker(&machines.agent(&[])).run(&CancellationToken::new()).await;
    // The call of the session waits for a decision, because its outcome is unknown.
    assert_eq!(machines.world.record(&job).await.status, JobStatus::NeedsInput);
    assert_eq!(machines.files(), of([("a.txt", "1")]));
}

#[tokio::test]
async fn a_session_that_was_rewound_continues_with_its_last_files() {
    let mut machines = Machines::new().await;
    assert_eq!(machines.job(&[("a.txt", "1")]).await, completed());
    let runtime =
        SessionRuntime::new(Arc::clone(&machines.world.store) as _, Same(machines.agent(&[])));
    runtime.rewind(&id("a"), 0).await.unwrap();
    machines.switch("two");
    assert_eq!(machines.job(&[("b.txt", "2")]).await, completed());
    assert_eq!(machines.files(), of([("a.txt", "1"), ("b.txt", "2")]));
}

#[tokio::test]
async fn a_result_is_not_recorded_once_another_worker_has_the_directory() {
    let machines = Machines::new().await;
    assert_eq!(machines.job(&[("a.txt", "1")]).await, completed());
    let results = async || {
        let session = machines.world.store.load(&id("a")).await.unwrap().unwrap();
        let results = session.changes.iter();
        results.filter(|it| matches!(it.change, Change::ToolCallCompleted { .. })).count()
    };
    assert_eq!(results().await, 1);
    let counts = machines.job(&[("b.txt", "lost")]).await;
    assert_eq!(counts, JobCounts { failed: 1, ..JobCounts::default() });
    assert_eq!(results().await, 1);
    // The files of the call are discarded, here as well.
    machines.world.push("a", "again").await;
    machines.worker(&machines.agent(&[])).run(&CancellationToken::new()).await;
    assert_eq!((results().await, machines.files()), (1, of([("a.txt", "1")])));
}

#[tokio::test]
async fn a_session_that_ran_without_snapshots_is_refused() {
    let machines = Machines::new().await;
    machines.world.push("a", "go").await;
    let agent = machines.agent(&[]);
    let worker = machines.world.worker(&agent).with_env(machines.clock.env(0));
    assert_eq!(worker.run(&CancellationToken::new()).await, completed());
    let refused = machines.world.push("a", "go").await;
    machines.worker(&machines.agent(&[])).run(&CancellationToken::new()).await;
    let outcome = JobOutcome::Failed(
        "session a has already run without snapshots, so its files exist only on one machine; start a worker there without \
         `--snapshots`"
            .into(),
    );
    let record = machines.world.record(&refused).await;
    assert_eq!((record.status, record.reason.as_deref()), (outcome.status(), outcome.reason()));
}

#[tokio::test]
async fn a_session_with_snapshots_is_left_to_workers_that_restore_them() {
    let machines = Machines::new().await;
    assert_eq!(machines.job(&[("a.txt", "1")]).await, completed());
    let left = machines.world.push("a", "go").await;
    let options =
        WorkerOptions { on_idle: OnIdle::Exit, max_attempts: 1, ..WorkerOptions::default() };
    let agent = machines.agent(&[("a.txt", "2")]);
    let worker = machines.world.worker(&agent).with_options(options);
    worker.with_env(machines.clock.env(0)).run(&CancellationToken::new()).await;
    let outcome = JobOutcome::Failed(
        "gave up after 1 attempts: the directory of session a is stored as snapshots; start a worker with the same \
         `--session-dirs` and `--snapshots`"
            .into(),
    );
    let record = machines.world.record(&left).await;
    assert_eq!((record.status, record.reason.as_deref()), (outcome.status(), outcome.reason()));
    assert_eq!(machines.files(), of([("a.txt", "1")]));
}

#[tokio::test]
async fn the_sub_agents_of_a_session_with_snapshots_continue_only_with_it() {
    let machines = Machines::new().await;
    assert_eq!(machines.job(&[("a.txt", "1")]).await, completed());
    let store = &machines.world.store;
    let parent = store.header(&id("a")).await.unwrap().unwrap();
    let now = machines.clock.env(0).clock.now();
    let header = parent.subagent(&"call".into(), SessionHeader::new(id("b"), "agent", now));
    let definition = &AgentDefinition::new("agent", "works", "You work.");
    let new = NewSession { header: &header, definition, changes: &[] };
    store.create(new).await.unwrap();
    let agent = machines.agent(&[("a.txt", "2")]);
    let without = machines.world.worker(&agent).with_env(machines.clock.env(0));
    for worker in [machines.worker(&agent), without] {
        let job = machines.world.push(header.id.as_str(), "go").await;
        worker.run(&CancellationToken::new()).await;
        let outcome = JobOutcome::Failed(
            format!(
                "session {} is a sub-agent of session a, whose directory is stored as snapshots; submit a job to session a",
                header.id
            )
            .into(),
        );
        let record = machines.world.record(&job).await;
        assert_eq!((record.status, record.reason.as_deref()), (outcome.status(), outcome.reason()));
    }
    assert_eq!(machines.files(), of([("a.txt", "1")]));
}

#[tokio::test]
async fn a_session_with_snapshots_cannot_be_forked() {
    let machines = Machines::new().await;
    let runtime =
        SessionRuntime::new(Arc::clone(&machines.world.store) as _, Same(machines.agent(&[])));
    runtime.fork(&id("a"), None, Some(id("before"))).await.unwrap();
    assert_eq!(machines.job(&[("a.txt", "1")]).await, completed());
    let refused = runtime.fork(&id("a"), None, Some(id("after"))).await.unwrap_err();
    assert!(matches!(refused, SessionError::HasSnapshots(_)), "{refused:?}");
    assert!(machines.world.store.header(&id("after")).await.unwrap().is_none());
}

/// Returns the storage as it is for a worker that opened it before it stopped responding.
fn opened(machines: &Machines) -> Snapshots {
    Snapshots::in_folder(&machines.place.path().join("storage")).unwrap()
}

#[tokio::test]
async fn files_that_could_not_be_saved_are_used_only_where_they_are() {
    let mut machines = Machines::new().await;
    assert_eq!(machines.job(&[("a.txt", "1")]).await, completed());
    let [first, second] = [opened(&machines), opened(&machines)];
    machines.disconnect(true);
    for (storage, files) in [(first, [("b.txt", "2")]), (second, [("b.txt", "3")])] {
        machines.world.push("a", "go").await;
        let agent = machines.agent(&files);
        let counts = machines.worker_with(&agent, storage).run(&CancellationToken::new()).await;
        assert_eq!(counts, completed());
    }
    machines.disconnect(false);
    machines.switch("two");
    let refused = machines.world.push("a", "go").await;
    machines.worker(&machines.agent(&[])).run(&CancellationToken::new()).await;
    let record = machines.world.record(&refused).await;
    let reason = record.reason.unwrap();
    // Another worker may get it, so that it is tried again.
    let begin = "gave up after 1 attempts: the last files of session a were not saved, and are on machine `one`: the object \
                 storage is unavailable";
    assert!(reason.starts_with(begin), "{reason}");
    machines.switch("one");
    assert_eq!(machines.job(&[("c.txt", "3")]).await, completed());
    machines.switch("two");
    assert_eq!(machines.job(&[("d.txt", "4")]).await, completed());
    let all = of([("a.txt", "1"), ("b.txt", "3"), ("c.txt", "3"), ("d.txt", "4")]);
    assert_eq!(machines.files(), all);
}

#[tokio::test]
async fn files_that_could_not_be_saved_and_are_gone_are_not_replaced_by_an_empty_directory() {
    let machines = Machines::new().await;
    let storage = opened(&machines);
    machines.disconnect(true);
    machines.world.push("a", "go").await;
    let agent = machines.agent(&[("a.txt", "1")]);
    let counts = machines.worker_with(&agent, storage).run(&CancellationToken::new()).await;
    assert_eq!(counts, completed());
    machines.disconnect(false);
    fs::rename(machines.folder(), machines.root().join("b")).unwrap();
    let refused = machines.world.push("a", "go").await;
    machines.worker(&machines.agent(&[])).run(&CancellationToken::new()).await;
    let expected = format!(
        "the last files of session a were not saved, and `{}` does not exist; put the directory back",
        machines.folder().display()
    );
    assert_eq!(machines.world.record(&refused).await.reason.as_deref(), Some(&*expected));
    fs::rename(machines.root().join("b"), machines.folder()).unwrap();
    assert_eq!(machines.job(&[("b.txt", "2")]).await, completed());
    assert_eq!(machines.files(), of([("a.txt", "1"), ("b.txt", "2")]));
}

/// Lets everything in a folder be three days older.
fn age(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            age(&entry.path());
        } else {
            let file = fs::File::open(entry.path()).unwrap();
            let modified = file.metadata().unwrap().modified().unwrap();
            file.set_modified(modified - Duration::from_hours(72)).unwrap();
        }
    }
}

#[tokio::test]
async fn outdated_snapshots_are_deleted_once_a_later_one_is_recorded() {
    let mut machines = Machines::new().await;
    assert_eq!(machines.job(&[("a.txt", "1")]).await, completed());
    age(&machines.place.path().join("storage"));
    machines.clock.advance(Duration::from_hours(25));
    let before = opened(&machines);
    assert_eq!(machines.job(&[("b.txt", "2")]).await, completed());
    // No snapshot is left that is older than the last one.
    let prefix = ObjectPath::from_iter(["sessions", "a"]);
    let last = before.with_prefix(&prefix).save(&machines.folder(), None).await.unwrap();
    let removed = opened(&machines).with_prefix(&prefix);
    let removed = removed.remove_unused(&[last.snapshot.id()], Duration::ZERO).await.unwrap();
    assert_eq!(removed, Removed::default());
    machines.switch("two");
    assert_eq!(machines.job(&[]).await, completed());
    assert_eq!(machines.files(), of([("a.txt", "1"), ("b.txt", "2")]));
}

#[tokio::test]
async fn an_upload_is_the_first_content_and_can_be_repeated() {
    let machines = Machines::new().await;
    let header = machines.world.store.header(&id("a")).await.unwrap().unwrap();
    let copied = machines.place.path().join("copied");
    fs::create_dir(&copied).unwrap();
    fs::write(copied.join("a.txt"), "1").unwrap();
    let folders = SessionFolders::new(opened(&machines), machines.root());
    let upload = async || folders.upload(&*machines.world.store, &header, &copied).await;
    assert_eq!([upload().await.unwrap(), upload().await.unwrap()], [Some(Vec::new()), None]);
    assert_eq!(machines.job(&[("b.txt", "2")]).await, completed());
    assert_eq!(machines.files(), of([("a.txt", "1"), ("b.txt", "2")]));
    let refused = upload().await.unwrap_err();
    assert_eq!(refused.to_string(), "another worker has continued session a");
}

#[tokio::test]
async fn a_directory_that_is_not_below_the_root_is_used_as_it_is() {
    let machines = Machines::new().await;
    let folders = SessionFolders::new(Snapshots::open("memory:///").unwrap(), "/elsewhere");
    let header = machines.world.store.header(&id("a")).await.unwrap().unwrap();
    assert_eq!(folders.folder_of(&header), None);
    let folders = SessionFolders::new(Snapshots::open("memory:///").unwrap(), machines.root());
    assert_eq!(folders.folder_of(&header), Some(machines.folder()));
}
