//! Sessions to write and to look at, and what holds of either database.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use loopwright_agent::AgentDefinition;
use loopwright_core::{
    AgentState, Change, ChangeRecord, Edit, Seq, Timestamp,
    messages::{Message, SectionName},
};
use loopwright_sessions::{
    AppendRequest, ChangeBatch, ClaimRequest, Job, JobOutcome, JobStatus, LogEntry, NewSession,
    SessionHeader, SessionId, SessionLog, SessionStore, StoreError,
};

pub(crate) fn id(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

pub(crate) fn moment(number: u64) -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000 + number * 1_000)
}

/// Creates a session to which nothing was said.
pub(crate) async fn create(store: &dyn SessionStore, name: &str) {
    let header = SessionHeader::new(id(name), "agent", moment(0));
    let definition = AgentDefinition::new("agent", "does things", "You do things.");
    let new = NewSession { header: &header, definition: &definition, changes: &[] };
    store.create(new).await.unwrap();
}

/// Says one thing, as the change with this number and on the version that leads there if each said
/// one thing.
pub(crate) async fn say(
    store: &dyn SessionStore,
    name: &str,
    number: Seq,
    text: &str,
) -> Result<u64, StoreError> {
    say_on(store, name, number + 1, number, text).await
}

/// Says one thing on some version.
pub(crate) async fn say_on(
    store: &dyn SessionStore,
    name: &str,
    expected: u64,
    number: Seq,
    text: &str,
) -> Result<u64, StoreError> {
    let edit = Edit::Append { section: SectionName::MESSAGES.into(), message: Message::user(text) };
    let changes =
        [ChangeRecord { at: moment(0), change: Change::StateEdited { by: "test".into(), edit } }];
    let batch = ChangeBatch { first: number, changes: &changes };
    let (id, now) = (&id(name), moment(1));
    store.append(AppendRequest::new(id, expected, batch, now)).await
}

/// Returns what was said.
pub(crate) async fn texts(
    store: &dyn SessionStore,
    name: &str,
) -> Result<Option<Vec<String>>, StoreError> {
    let Some(loaded) = store.load(&id(name)).await? else { return Ok(None) };
    let state = AgentState::new().replay(loaded.changes).unwrap();
    Ok(Some(state.transcript().iter().map(|turn| turn.message().text()).collect()))
}

/// Returns the texts of a session that is in order.
pub(crate) async fn said(store: &dyn SessionStore, name: &str) -> Vec<String> {
    texts(store, name).await.unwrap().unwrap()
}

/// Keeps something of each kind.
pub(crate) async fn keep(store: &dyn SessionStore) {
    create(store, "a").await;
    say(store, "a", 0, "one").await.unwrap();
    let notes: [Arc<[u8]>; 1] = [b"noted".as_slice().into()];
    store.append_log(&id("a"), SessionLog::Events, &notes, None).await.unwrap();
}

/// Shows that all of it is there, and that it continues.
pub(crate) async fn is_kept(store: &dyn SessionStore) {
    assert_eq!(said(store, "a").await, ["one"]);
    let noted = store.read_log(&id("a"), SessionLog::Events, 0, 9).await.unwrap();
    assert_eq!(noted, [LogEntry { number: 1, body: b"noted".as_slice().into() }]);
    say(store, "a", 1, "two").await.unwrap();
    assert_eq!(said(store, "a").await, ["one", "two"]);
}

/// Lets writers who know nothing of each other write the same session until all that each had to say
/// is said, and shows that every version has one writer and nothing is lost.
pub(crate) async fn one_writer_wins_each_version(stores: Vec<Arc<dyn SessionStore>>) {
    const EACH: usize = 10;
    create(&*stores[0], "a").await;
    let write = |writer: usize, store: Arc<dyn SessionStore>| async move {
        let mut won = Vec::new();
        while won.len() < EACH {
            let header = store.header(&id("a")).await.unwrap().unwrap();
            let text = format!("{writer}-{}", won.len());
            match say(&*store, "a", header.length, &text).await {
                Ok(version) => won.push((version, text)),
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
        won
    };
    let tasks = (0..8)
        .map(|writer| tokio::spawn(write(writer, Arc::clone(&stores[writer % stores.len()]))));
    let mut won = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        won.extend(task.await.unwrap());
    }
    won.sort();
    let versions: Vec<_> = won.iter().map(|(version, _)| *version).collect();
    assert_eq!(versions, (2..=1 + 8 * EACH as u64).collect::<Vec<_>>());
    let texts: Vec<_> = won.into_iter().map(|(_, text)| text).collect();
    assert_eq!(said(&*stores[0], "a").await, texts);
}

/// Lets workers who know nothing of each other claim jobs of sessions until there are none, and shows
/// that each was claimed once, and no session by two of them at a time.
pub(crate) async fn each_job_is_claimed_once(stores: Vec<Arc<dyn SessionStore>>) {
    const SESSIONS: usize = 5;
    const JOBS: usize = 60;
    let queue = stores[0].jobs().unwrap();
    for number in 0..SESSIONS {
        create(&*stores[0], &format!("s{number}")).await;
    }
    let mut expect = BTreeSet::new();
    for number in 0..JOBS {
        let job = Job::resume(id(&format!("s{}", number % SESSIONS)));
        expect.insert(job.id.clone());
        assert!(queue.push(&job, moment(0)).await.unwrap());
    }
    let work = |worker: usize, store: Arc<dyn SessionStore>| async move {
        let (queue, owner, mut done) = (store.jobs().unwrap(), worker.to_string(), Vec::new());
        let open = async || {
            let running = queue.count(JobStatus::Running).await.unwrap();
            running + queue.count(JobStatus::Queued).await.unwrap()
        };
        while open().await > 0 {
            let claimed = queue
                .claim(ClaimRequest::new(&owner, moment(1), Duration::from_secs(9)))
                .await
                .unwrap();
            let Some(claimed) = claimed else { continue };
            assert_eq!(claimed.claim, 1);
            done.push(claimed.job.id.clone());
            assert!(queue.settle(&claimed, &JobOutcome::Done, moment(2)).await.unwrap());
        }
        done
    };
    let workers =
        (0..6).map(|worker| tokio::spawn(work(worker, Arc::clone(&stores[worker % stores.len()]))));
    let mut claimed = Vec::new();
    for worker in workers.collect::<Vec<_>>() {
        claimed.extend(worker.await.unwrap());
    }
    assert_eq!(claimed.len(), JOBS);
    assert_eq!(claimed.into_iter().collect::<BTreeSet<_>>(), expect);
}

/// Shows that workers of the tables' version 6 can push, claim and settle jobs beside those of this one. `script` runs a
/// statement as they do.
pub(crate) async fn older_workers_share_the_queue(
    store: &dyn SessionStore,
    script: impl AsyncFn(&'static str),
) {
    let queue = store.jobs().unwrap();
    let named = |session: &str, name: &str| Job::resume(id(session)).with_id(name.parse().unwrap());
    for session in ["a", "b", "c"] {
        create(store, session).await;
    }
    let claim = async || {
        let request = ClaimRequest::new("new", moment(1), Duration::from_secs(9));
        queue.claim(request).await.unwrap()
    };
    let done = async |expect: &str| {
        let claimed = claim().await.unwrap();
        assert_eq!(claimed.job.id.as_str(), expect);
        assert!(queue.settle(&claimed, &JobOutcome::Done, moment(2)).await.unwrap());
    };
    let jobs = [named("a", "a1"), named("a", "a2"), named("c", "c1")];
    assert_eq!(queue.push_all(&jobs, moment(0)).await.unwrap(), [true; 3]);
    // A job behind another one can run once an older worker has done that.
    script(
        "UPDATE loopwright.jobs SET status = 'running', claims = claims + 1, owner = 'old',
            until = 9000000000000000 WHERE id IN ('a1', 'c1')",
    )
    .await;
    assert_eq!(claim().await, None);
    script("UPDATE loopwright.jobs SET status = 'completed', owner = NULL WHERE id = 'a1'").await;
    done("a2").await;
    // A retry of an older worker waits for its time.
    script(
        "UPDATE loopwright.jobs SET status = 'queued', owner = NULL, attempts = 1,
            ready_at = 9000000000000000 WHERE id = 'c1'",
    )
    .await;
    assert_eq!(claim().await, None);
    script("UPDATE loopwright.jobs SET ready_at = 0 WHERE id = 'c1'").await;
    done("c1").await;
    // Jobs of older programs run in the order of their session.
    script(
        "INSERT INTO loopwright.jobs (id, session, task, status, ready_at, created_at, updated_at)
        SELECT n.id, s.key, j.task, 'queued', 0, 0, 0
        FROM loopwright.jobs j, loopwright.sessions s, (SELECT 'b1' AS id UNION SELECT 'b2') n
        WHERE j.id = 'a1' AND s.id = 'b' ORDER BY n.id",
    )
    .await;
    let first = claim().await.unwrap();
    assert_eq!((first.job.id.as_str(), claim().await), ("b1", None));
    assert!(queue.settle(&first, &JobOutcome::Done, moment(2)).await.unwrap());
    done("b2").await;
    assert_eq!(claim().await, None);
}
