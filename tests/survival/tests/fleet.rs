//! Workers on one queue, killed at random and asked to end.

use std::{
    num::NonZeroUsize,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use loopwright_agent::AgentDefinition;
use loopwright_core::{
    AgentState, Timestamp,
    messages::{Role, TurnBody},
};
use loopwright_sessions::{
    Job, JobId, JobQuery, JobRecord, JobStatus, NewSession, SessionHeader, SessionId, SessionStore,
};
use loopwright_survival::{
    fleet::{CAREFUL, Calls, PAYING},
    ledger::Entry,
    script::ANSWER,
    task::{Task, Work},
};

use crate::{
    numbers::{is_long, numbers_of_env},
    places::Place,
    workers::{Notes, Worker, was_killed},
};

/// How many workers there are.
const WORKERS: usize = 3;
/// How many jobs each of them does at once.
const AT_ONCE: usize = 4;

/// What is to be done: sessions with so many messages each whose tools may run twice, and sessions with one
/// message each whose tools may not.
struct Load {
    sessions: usize,
    messages: usize,
    paying: usize,
    /// The most milliseconds between two kills.
    lull: u64,
}

impl Load {
    /// Thirty jobs, or with `LOOPWRIGHT_LONG` a thousand and fifty.
    fn of_env() -> Self {
        if is_long() {
            Self { sessions: 250, messages: 4, paying: 50, lull: 700 }
        } else {
            Self { sessions: 8, messages: 3, paying: 6, lull: 180 }
        }
    }

    fn jobs(&self) -> usize {
        self.sessions * self.messages + self.paying
    }

    /// Names the sessions, with their agents and how much is said to them.
    fn names(&self) -> Vec<(SessionId, &'static str, usize)> {
        let careful = (0..self.sessions).map(|number| (CAREFUL, number, self.messages));
        let paying = (0..self.paying).map(|number| (PAYING, number, 1));
        let all = careful.chain(paying);
        all.map(|(agent, number, messages)| (id(&format!("{agent}-{number}")), agent, messages))
            .collect()
    }

    /// Makes all sessions, and pushes their jobs in turns.
    async fn push(&self, store: &dyn SessionStore) {
        let now = now();
        let names = self.names();
        for (session, agent, _) in &names {
            let header = &SessionHeader::new(session.clone(), *agent, now);
            let definition = &AgentDefinition::new(*agent, "works", "You work.");
            store.create(NewSession { header, definition, changes: &[] }).await.unwrap();
        }
        for number in 0..self.messages {
            for (session, _, _) in names.iter().filter(|it| number < it.2) {
                let job = Job::send_message(session.clone(), message(number))
                    .with_id(job_id(session, number));
                assert!(store.jobs().unwrap().push(&job, now).await.unwrap());
            }
        }
    }
}

fn id(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

fn job_id(session: &SessionId, number: usize) -> JobId {
    JobId::new(format!("{session}-{number}")).unwrap()
}

fn message(number: usize) -> loopwright_core::messages::Message {
    loopwright_core::messages::Message::user(format!("message {number}"))
}

fn now() -> Timestamp {
    std::time::SystemTime::now().into()
}

fn serve(place: &Place, notes: &Notes) -> Worker {
    let work = Work::Serve { concurrency: NonZeroUsize::new(AT_ONCE).unwrap() };
    let (url, session) = (place.url().to_owned(), "none".to_owned());
    notes.start(&Task { url, session, work, fault: None })
}

/// What became of all jobs.
struct Found {
    records: Vec<JobRecord>,
    states: Vec<(SessionId, usize, AgentState)>,
    calls: Calls,
}

impl Found {
    fn of(place: &Place, load: &Load) -> Self {
        place.with(async |store| {
            let records = store.jobs().unwrap().records(&JobQuery::last(load.jobs() + 1)).await;
            let (mut states, mut calls) = (Vec::new(), Calls::default());
            for (session, _, messages) in load.names() {
                let loaded = store.load(&session).await.unwrap().unwrap();
                calls.read(&loaded.changes);
                states.push((session, messages, AgentState::new().replay(loaded.changes).unwrap()));
            }
            Self { records: records.unwrap(), states, calls }
        })
    }

    fn count(&self, status: JobStatus) -> usize {
        self.records.iter().filter(|it| it.status == status).count()
    }

    fn of_agent(&self, agent: &str, status: JobStatus) -> usize {
        let is =
            |it: &&JobRecord| it.job.session.as_str().starts_with(agent) && it.status == status;
        self.records.iter().filter(is).count()
    }

    /// Checks that all that was to happen did, once, but for what waits for a decision.
    #[track_caller]
    fn check(&self, load: &Load, entries: &[Entry]) {
        assert_eq!(self.records.len(), load.jobs());
        let careful = load.sessions * load.messages;
        assert_eq!(self.of_agent(CAREFUL, JobStatus::Completed), careful, "{:#?}", self.odd());
        let ended =
            [JobStatus::Completed, JobStatus::NeedsInput].map(|it| self.of_agent(PAYING, it));
        assert_eq!(ended.iter().sum::<usize>(), load.paying, "{:#?}", self.odd());
        assert_eq!(self.calls.open(), ended[1], "each parked job has one call that waits");
        for (session, messages, state) in &self.states {
            let parked = !state.pending().is_empty();
            let mut expect = Vec::new();
            for number in 0..*messages {
                expect.push(format!("message {number}"));
                expect.extend((!parked).then(|| ANSWER.to_owned()));
            }
            assert_eq!(said(state), expect, "{session}");
        }
        let problems = self.calls.problems(entries);
        assert!(problems.is_empty(), "{problems:#?}");
    }

    fn odd(&self) -> Vec<&JobRecord> {
        self.records.iter().filter(|it| it.status != JobStatus::Completed).collect()
    }
}

/// Returns what users and agents said, without the steps on the way.
fn said(state: &AgentState) -> Vec<String> {
    let turns = state.transcript().iter();
    let words = turns.filter(|turn| {
        turn.message().role() == Role::User || matches!(turn.body(), TurnBody::Reply(_))
    });
    words.map(|turn| turn.message().text()).collect()
}

fn killed_at_random(place: &Place) {
    let (load, mut numbers) = (Load::of_env(), numbers_of_env());
    place.with(async |store| load.push(store).await);
    let notes = Notes::new(place, "fleet");
    let began = Instant::now();
    let mut workers: Vec<Worker> = (0..WORKERS).map(|_| serve(place, &notes)).collect();
    let mut kills = 0;
    // Once a worker finds nothing left to do, all of them do.
    while workers.iter_mut().all(|worker| !worker.is_over()) {
        thread::sleep(Duration::from_millis(20 + numbers.below(load.lull)));
        let victim = usize::try_from(numbers.below(WORKERS as u64)).unwrap();
        let worker = std::mem::replace(&mut workers[victim], serve(place, &notes));
        kills += u32::from(worker.kill_after(Duration::ZERO));
    }
    for worker in workers {
        assert!(worker.end().success(), "{:?}", notes.entries().last());
    }
    let took = began.elapsed();
    let found = Found::of(place, &load);
    found.check(&load, &notes.entries());
    let deaths: u32 = found.records.iter().map(|it| it.crashes).sum();
    let most = found.records.iter().map(|it| it.crashes).max().unwrap_or_default();
    println!(
        "{} jobs, {kills} of the workers killed: {} done, {} parked; {deaths} deliveries ended with \
         their worker, at most {most} of one job; {took:?}",
        load.jobs(),
        found.count(JobStatus::Completed),
        found.count(JobStatus::NeedsInput),
    );
    assert!(kills > 0, "nobody was killed");
}

#[test]
fn jobs_in_sqlite_end_once_however_often_workers_are_killed() {
    killed_at_random(&Place::sqlite());
}

#[test]
fn jobs_in_postgres_end_once_however_often_workers_are_killed() {
    killed_at_random(&Place::postgres());
}

/// One of two workers is asked to end in the middle: no call of it is cut off, and the other one does the
/// rest.
fn asked_to_end(place: &Place) {
    let load = Load { sessions: 6, messages: 3, paying: 20, lull: 0 };
    place.with(async |store| load.push(store).await);
    let notes = Notes::new(place, "drain");
    let workers = [serve(place, &notes), serve(place, &notes)];
    notes.wait_for(|entries| entries.len() > 40);
    let process = workers[0].process().to_string();
    assert!(Command::new("kill").args(["-TERM", &process]).status().unwrap().success());
    let [asked, other] = workers;
    let status = asked.end();
    assert!(status.success() && !was_killed(status), "{status:?}");
    let left = place.with(async |store| {
        let queue = store.jobs().unwrap();
        queue.count(JobStatus::Queued).await.unwrap()
            + queue.count(JobStatus::Running).await.unwrap()
    });
    assert!(left > 0, "it ended before the jobs did");
    assert!(other.end().success());
    let found = Found::of(place, &load);
    found.check(&load, &notes.entries());
    assert_eq!(found.count(JobStatus::Completed), load.jobs());
    assert_eq!(found.records.iter().map(|it| it.crashes).sum::<u32>(), 0);
}

#[test]
fn a_worker_of_sqlite_that_is_asked_to_end_leaves_nothing_undone_or_unknown() {
    asked_to_end(&Place::sqlite());
}

#[test]
fn a_worker_of_postgres_that_is_asked_to_end_leaves_nothing_undone_or_unknown() {
    asked_to_end(&Place::postgres());
}
