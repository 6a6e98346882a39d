//! What every scheduler must do.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use futures::future::BoxFuture;
use loopwright_core::Timestamp;

use super::{create, header, id, moment};
use crate::{
    id::{JobId, PrincipalTag, SessionId},
    jobs::{ClaimedJob, Job, JobOutcome, JobQuery, JobStatus, JobTask},
    labels::JobLabels,
    schedule::{Schedule, ScheduleSession},
    scheduler::{ClaimRequest, PushOutcome, Scheduler},
    store::SessionStore,
};

/// A scheduler under test, and the end of it where workers are.
#[async_trait]
pub trait SchedulerUnderTest: Send + Sync {
    /// Returns the store of the sessions; it is empty.
    fn store(&self) -> &dyn SessionStore;

    /// Returns the scheduler; it has no jobs.
    fn scheduler(&self) -> &dyn Scheduler;

    /// Returns the next job that a worker with these labels gets, or `None` if it can run none now. The job runs until it is
    /// finished.
    async fn start(&self, labels: &JobLabels, now: Timestamp) -> Option<ClaimedJob>;

    /// Reports the outcome of a job that runs.
    async fn finish(&self, running: &ClaimedJob, outcome: &JobOutcome, now: Timestamp);
}

/// The queue of a store under test.
pub struct QueueUnderTest<'a>(pub &'a dyn SessionStore);

/// The time for which [`QueueUnderTest`] claims jobs.
const LASTS: Duration = Duration::from_mins(5);

#[async_trait]
impl SchedulerUnderTest for QueueUnderTest<'_> {
    fn store(&self) -> &dyn SessionStore {
        self.0
    }

    fn scheduler(&self) -> &dyn Scheduler {
        self.0.jobs().unwrap()
    }

    async fn start(&self, labels: &JobLabels, now: Timestamp) -> Option<ClaimedJob> {
        let request = ClaimRequest::new("worker", now, LASTS).with_labels(labels);
        self.0.jobs().unwrap().claim(request).await.unwrap()
    }

    async fn finish(&self, running: &ClaimedJob, outcome: &JobOutcome, now: Timestamp) {
        assert!(self.0.jobs().unwrap().settle(running, outcome, now).await.unwrap());
    }
}

impl fmt::Debug for QueueUnderTest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueUnderTest").finish_non_exhaustive()
    }
}

/// Something that holds of every scheduler.
#[derive(Clone, Copy)]
pub struct SchedulerCase {
    /// What holds.
    pub name: &'static str,
    /// Panics if it does not hold of a scheduler.
    pub check: for<'a> fn(&'a dyn SchedulerUnderTest) -> BoxFuture<'a, ()>,
}

impl fmt::Debug for SchedulerCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

macro_rules! scheduler_facts {
    ($(#[$doc:meta])* $list:ident: $($name:ident),* $(,)?) => {
        $(#[$doc])*
        pub const $list: &[SchedulerCase] = &[
            $(SchedulerCase { name: stringify!($name), check: |world| Box::pin($name(world)) }),*
        ];
    };
}

scheduler_facts![
    /// What holds of every scheduler. The queue of a store is tested as a [`QueueUnderTest`].
    SCHEDULER_CASES:
    a_job_is_started_once_and_is_as_it_was_pushed,
    a_job_is_for_a_session_that_is_there,
    a_name_that_is_pushed_again_is_one_job,
    a_job_for_an_idle_session_is_added_once,
    jobs_of_one_session_are_done_in_their_order,
    jobs_of_other_sessions_are_not_kept_waiting,
    a_job_behind_the_long_queue_of_a_busy_session_is_found,
    jobs_that_wait_for_a_decision_are_over_once_their_session_went_on,
    a_job_that_failed_is_ready_later,
    a_job_that_is_left_is_ready_at_once,
    a_job_that_waits_for_its_start_is_started_then_and_blocks_no_other,
    many_jobs_are_pushed_at_once_and_each_of_them_once,
    schedules_are_listed_by_name_until_they_are_removed,
    jobs_are_listed_and_counted,
    jobs_that_are_over_are_forgotten_once_they_are_old,
];

scheduler_facts![
    /// What holds of a scheduler that chooses among the jobs that can run, as the queue of a store does. An engine may refuse
    /// jobs with labels or a priority instead.
    ORDER_CASES:
    a_job_waits_for_a_worker_that_has_every_label_it_needs,
    jobs_of_a_higher_priority_start_first,
    a_principal_with_many_jobs_does_not_delay_the_others,
];

async fn scheduler<'a>(world: &'a dyn SchedulerUnderTest, sessions: &[&str]) -> &'a dyn Scheduler {
    for session in sessions {
        create(world.store(), &header(session), &[]).await;
    }
    world.scheduler()
}

async fn push(scheduler: &dyn Scheduler, session: &str, name: &str) -> Job {
    let job = Job::resume(id(session)).with_id(JobId::new(name).unwrap());
    assert!(scheduler.push(&job, moment(0)).await.unwrap());
    job
}

async fn start(world: &dyn SchedulerUnderTest, now: u64) -> Option<ClaimedJob> {
    world.start(JobLabels::EMPTY, moment(now)).await
}

/// Starts the next job, and returns its name.
async fn started(world: &dyn SchedulerUnderTest, now: u64) -> Option<String> {
    start(world, now).await.map(|it| it.job.id.to_string())
}

async fn status(scheduler: &dyn Scheduler, job: &Job) -> JobStatus {
    scheduler.job(&job.id).await.unwrap().unwrap().status
}

async fn a_job_is_started_once_and_is_as_it_was_pushed(world: &dyn SchedulerUnderTest) {
    let scheduler = scheduler(world, &["a"]).await;
    let message = loopwright_core::messages::Message::user("Grüße, 世界");
    let job = Job::send_message(id("a"), message);
    assert!(scheduler.push(&job, moment(0)).await.unwrap());
    assert_eq!(status(scheduler, &job).await, JobStatus::Queued);
    let running = start(world, 1).await.unwrap();
    assert_eq!(running, ClaimedJob { job: job.clone(), claim: 1, attempts: 0, crashes: 0 });
    assert_eq!(started(world, 1).await, None);
    assert_eq!(status(scheduler, &job).await, JobStatus::Running);
    world.finish(&running, &JobOutcome::Done, moment(2)).await;
    assert_eq!(status(scheduler, &job).await, JobStatus::Completed);
    assert_eq!(started(world, 2).await, None);
}

async fn a_job_is_for_a_session_that_is_there(world: &dyn SchedulerUnderTest) {
    let scheduler = scheduler(world, &[]).await;
    let refused = scheduler.push(&Job::resume(id("nobody")), moment(0)).await;
    assert!(matches!(refused, Err(crate::StoreError::NotFound(_))), "{refused:?}");
    assert_eq!(scheduler.job(&JobId::generate()).await.unwrap(), None);
}

async fn a_name_that_is_pushed_again_is_one_job(world: &dyn SchedulerUnderTest) {
    let scheduler = scheduler(world, &["a", "b"]).await;
    let job = push(scheduler, "a", "once").await;
    let again = Job { session: id("b"), ..job.clone() };
    assert!(!scheduler.push(&again, moment(1)).await.unwrap());
    assert_eq!(scheduler.job(&job.id).await.unwrap().unwrap().job, job);
    assert_eq!(started(world, 2).await.as_deref(), Some("once"));
    assert_eq!(started(world, 2).await, None);
}

async fn a_job_for_an_idle_session_is_added_once(world: &dyn SchedulerUnderTest) {
    let scheduler = scheduler(world, &["a", "b"]).await;
    let job = |name: &str| Job::resume(id("a")).with_id(JobId::new(name).unwrap());
    let names: Vec<String> = (0..8).map(|it| format!("job-{it}")).collect();
    let jobs: Vec<Job> = names.iter().map(|it| job(it)).collect();
    let pushed = jobs.iter().map(|it| scheduler.push_if_idle(it, moment(0)));
    let pushed = futures::future::try_join_all(pushed).await.unwrap();
    let added: Vec<usize> = (0..8).filter(|it| pushed[*it] == PushOutcome::Added).collect();
    assert_eq!(added.len(), 1, "{pushed:?}");
    assert_eq!(pushed.iter().filter(|it| **it == PushOutcome::Busy).count(), 7);
    let (first, other) = (&jobs[added[0]], &jobs[(added[0] + 1) % 8]);
    let again = async |job: &Job, now| scheduler.push_if_idle(job, moment(now)).await.unwrap();
    assert_eq!(again(first, 1).await, PushOutcome::Exists);
    let elsewhere = Job::resume(id("b"));
    assert_eq!(again(&elsewhere, 1).await, PushOutcome::Added);
    let claimed = start(world, 2).await.unwrap();
    assert_eq!(again(other, 2).await, PushOutcome::Busy);
    assert_eq!(claimed.job, *first);
    world.finish(&claimed, &JobOutcome::Done, moment(3)).await;
    assert_eq!(again(other, 3).await, PushOutcome::Added);
    let refused = scheduler.push_if_idle(&Job::resume(id("nobody")), moment(3)).await;
    assert!(matches!(refused, Err(crate::StoreError::NotFound(_))), "{refused:?}");
}

async fn jobs_of_one_session_are_done_in_their_order(world: &dyn SchedulerUnderTest) {
    let scheduler = scheduler(world, &["a", "b"]).await;
    push(scheduler, "a", "first").await;
    push(scheduler, "a", "second").await;
    let first = start(world, 1).await.unwrap();
    assert_eq!(first.job.id.as_str(), "first");
    assert_eq!(started(world, 1).await, None);
    let again = JobOutcome::Retry { at: moment(50), reason: "away".into() };
    world.finish(&first, &again, moment(2)).await;
    assert_eq!(started(world, 3).await, None);
    push(scheduler, "b", "third").await;
    push(scheduler, "b", "fourth").await;
    let third = start(world, 3).await.unwrap();
    assert_eq!(third.job.id.as_str(), "third");
    world.finish(&third, &JobOutcome::Done, moment(4)).await;
    assert_eq!(started(world, 4).await.as_deref(), Some("fourth"));
}

async fn jobs_of_other_sessions_are_not_kept_waiting(world: &dyn SchedulerUnderTest) {
    let scheduler = scheduler(world, &["a", "b"]).await;
    for (session, name) in [("a", "a1"), ("a", "a2"), ("b", "b1")] {
        push(scheduler, session, name).await;
    }
    let found = [started(world, 1).await, started(world, 1).await, started(world, 1).await];
    assert_eq!(found, [Some("a1".to_owned()), Some("b1".to_owned()), None]);
}

async fn a_job_behind_the_long_queue_of_a_busy_session_is_found(world: &dyn SchedulerUnderTest) {
    let scheduler = scheduler(world, &["a", "b", "c"]).await;
    for number in 0..300 {
        push(scheduler, "b", &format!("b{number}")).await;
    }
    push(scheduler, "c", "c0").await;
    push(scheduler, "a", "a0").await;
    for expect in ["b0", "c0", "a0"] {
        assert_eq!(started(world, 1).await.as_deref(), Some(expect));
    }
    assert_eq!(started(world, 1).await, None);
}

async fn jobs_that_wait_for_a_decision_are_over_once_their_session_went_on(
    world: &dyn SchedulerUnderTest,
) {
    let scheduler = scheduler(world, &["a", "b"]).await;
    let parked = JobOutcome::NeedsInput("which?".into());
    for (session, name) in [("a", "a0"), ("b", "b0")] {
        push(scheduler, session, name).await;
        let found = start(world, 1).await.unwrap();
        world.finish(&found, &parked, moment(2)).await;
    }
    let later = push(scheduler, "a", "a1").await;
    assert_eq!(scheduler.answered(&id("a"), &JobOutcome::Done, moment(3)).await.unwrap(), 1);
    assert_eq!(scheduler.answered(&id("a"), &JobOutcome::Done, moment(4)).await.unwrap(), 0);
    let record = async |name| scheduler.job(&JobId::new(name).unwrap()).await.unwrap().unwrap();
    let [a, b] = [record("a0").await, record("b0").await];
    assert_eq!((a.status, a.reason, a.updated_at), (JobStatus::Completed, None, moment(3)));
    assert_eq!((b.status, b.reason.as_deref()), (JobStatus::NeedsInput, Some("which?")));
    assert_eq!(status(scheduler, &later).await, JobStatus::Queued);
}

async fn a_job_that_failed_is_ready_later(world: &dyn SchedulerUnderTest) {
    let scheduler = scheduler(world, &["a", "b"]).await;
    let later = push(scheduler, "a", "later").await;
    let at_once = push(scheduler, "b", "at-once").await;
    let before = scheduler.job(&later.id).await.unwrap().unwrap();
    for (name, seconds) in [("later", 9), ("at-once", 2)] {
        let found = start(world, 1).await.unwrap();
        assert_eq!(found.job.id.as_str(), name);
        let again = JobOutcome::Retry { at: moment(seconds), reason: "away".into() };
        world.finish(&found, &again, moment(2)).await;
    }
    let record = scheduler.job(&later.id).await.unwrap().unwrap();
    assert_eq!((record.status, record.reason.as_deref()), (JobStatus::Queued, Some("away")));
    assert!(record.ready_at.since(before.ready_at) >= Duration::from_secs(7), "{record:?}");
    assert_eq!((record.attempts, record.claims), (1, 1));
    let found = start(world, 3).await.unwrap();
    assert_eq!(found.job, at_once);
    assert_eq!((found.claim, found.attempts, found.crashes), (2, 1, 0));
    assert_eq!(started(world, 7).await, None);
}

async fn a_job_that_is_left_is_ready_at_once(world: &dyn SchedulerUnderTest) {
    let scheduler = scheduler(world, &["a"]).await;
    push(scheduler, "a", "job").await;
    let found = start(world, 1).await.unwrap();
    world.finish(&found, &JobOutcome::Released, moment(2)).await;
    let found = start(world, 2).await.unwrap();
    assert_eq!((found.claim, found.attempts, found.crashes), (2, 0, 0));
}

async fn jobs_are_listed_and_counted(world: &dyn SchedulerUnderTest) {
    let scheduler = scheduler(world, &["a", "b"]).await;
    for (session, name) in [("a", "a1"), ("b", "b1"), ("a", "a2")] {
        push(scheduler, session, name).await;
    }
    assert!(start(world, 1).await.is_some());
    let names = async |query: JobQuery| -> Vec<String> {
        let found = scheduler.records(&query).await.unwrap();
        found.into_iter().map(|it| it.job.id.to_string()).collect()
    };
    assert_eq!(names(JobQuery::last(9)).await, ["a2", "b1", "a1"]);
    assert_eq!(names(JobQuery::last(2)).await, ["a2", "b1"]);
    let of_a = JobQuery { session: Some(id("a")), ..JobQuery::last(9) };
    assert_eq!(names(of_a.clone()).await, ["a2", "a1"]);
    let waiting = JobQuery { status: Some(JobStatus::Queued), ..of_a };
    assert_eq!(names(waiting).await, ["a2"]);
    let older =
        |name: &str| JobQuery { before: Some(JobId::new(name).unwrap()), ..JobQuery::last(9) };
    assert_eq!(names(older("a2")).await, ["b1", "a1"]);
    assert_eq!(names(JobQuery { session: Some(id("a")), ..older("a2") }).await, ["a1"]);
    assert_eq!([names(older("a1")).await, names(older("x")).await], [[""; 0]; 2]);
    let mut counts = Vec::new();
    for status in JobStatus::ALL {
        counts.push(scheduler.count(status).await.unwrap());
    }
    assert_eq!(counts, [2, 1, 0, 0, 0, 0]);
}

async fn jobs_that_are_over_are_forgotten_once_they_are_old(world: &dyn SchedulerUnderTest) {
    let scheduler = scheduler(world, &["a", "b", "c"]).await;
    for (session, name, now) in [("a", "old", 1), ("b", "new", 5)] {
        push(scheduler, session, name).await;
        let claimed = start(world, now).await.unwrap();
        world.finish(&claimed, &JobOutcome::Done, moment(now)).await;
    }
    push(scheduler, "c", "open").await;
    assert_eq!(scheduler.delete_finished(moment(5)).await.unwrap(), 1);
    let left = scheduler.records(&JobQuery::last(9)).await.unwrap();
    let left: Vec<String> = left.iter().map(|it| it.job.id.to_string()).collect();
    assert_eq!(left, ["open", "new"]);
    push(scheduler, "a", "old").await;
    assert_eq!(scheduler.delete_finished(moment(5)).await.unwrap(), 0);
}

async fn a_job_that_waits_for_its_start_is_started_then_and_blocks_no_other(
    world: &dyn SchedulerUnderTest,
) {
    let scheduler = scheduler(world, &["a"]).await;
    let name = |name: &str| JobId::new(name).unwrap();
    let later = Job::resume(id("a")).with_id(name("later")).with_start_at(moment(3_600));
    let past = Job::resume(id("a")).with_id(name("past")).with_start_at(moment(0));
    let has_jobs = async || scheduler.has_jobs(&id("a"), moment(1)).await.unwrap();
    assert!(scheduler.push(&later, moment(1)).await.unwrap());
    assert!(!has_jobs().await);
    assert_eq!(scheduler.push_if_idle(&past, moment(1)).await.unwrap(), PushOutcome::Added);
    assert!(has_jobs().await);
    push(scheduler, "a", "now").await;
    let record = scheduler.job(&later.id).await.unwrap().unwrap();
    assert_eq!((&record.job, record.status), (&later, JobStatus::Queued));
    for expect in ["past", "now"] {
        let running = start(world, 2).await.unwrap();
        assert_eq!(running.job.id.as_str(), expect);
        assert!(has_jobs().await);
        world.finish(&running, &JobOutcome::Done, moment(2)).await;
    }
    assert_eq!(started(world, 2).await, None);
    assert!(!has_jobs().await);
}

async fn a_job_waits_for_a_worker_that_has_every_label_it_needs(world: &dyn SchedulerUnderTest) {
    let scheduler = scheduler(world, &["a", "b", "c"]).await;
    let labels = |text: &str| text.parse::<JobLabels>().unwrap();
    for (session, needs) in [("a", "gpu,zone=eu"), ("b", "gpu"), ("c", "")] {
        let job = Job::resume(id(session)).with_needs(labels(needs));
        assert!(scheduler.push(&job, moment(0)).await.unwrap());
    }
    let started = async |has: &str| {
        let running = world.start(&labels(has), moment(1)).await;
        running.map(|it| (it.job.session.to_string(), it.job.needs.to_string()))
    };
    let found = |session: &str, needs: &str| Some((session.to_owned(), needs.to_owned()));
    assert_eq!(started("zone=eu").await, found("c", ""));
    assert_eq!(started("zone=eu").await, None);
    assert_eq!(started("gpu,zone=us").await, found("b", "gpu"));
    assert_eq!(started("gpu,zone=us").await, None);
    assert_eq!(started("cuda,gpu,zone=eu").await, found("a", "gpu,zone=eu"));
}

async fn jobs_of_a_higher_priority_start_first(world: &dyn SchedulerUnderTest) {
    let sessions = ["a", "b", "c", "d", "e"];
    let scheduler = scheduler(world, &sessions).await;
    for (session, priority) in sessions.iter().zip([0, 5, -1, 5, i32::MAX]) {
        let job = Job::resume(id(session)).with_priority(priority);
        assert!(scheduler.push(&job, moment(0)).await.unwrap());
    }
    let mut order = Vec::new();
    while let Some(running) = start(world, 1).await {
        order.push((running.job.session.to_string(), running.job.priority));
    }
    let expect = [("e", i32::MAX), ("b", 5), ("d", 5), ("a", 0), ("c", -1)];
    assert_eq!(order, expect.map(|(session, priority)| (session.to_owned(), priority)));
}

async fn a_principal_with_many_jobs_does_not_delay_the_others(world: &dyn SchedulerUnderTest) {
    let [flood, ada, bob] = ["flood", "ada", "bob"].map(PrincipalTag::of);
    let job = async |tag: &PrincipalTag, number: usize| {
        let session = SessionId::derived_tagged(Some(tag), &number.to_string());
        create(world.store(), &header(session.as_str()), &[]).await;
        Job::resume(session)
    };
    let scheduler = world.scheduler();
    for number in 0..20 {
        assert!(scheduler.push(&job(&flood, number).await, moment(0)).await.unwrap());
    }
    let mut order = String::new();
    let start = async |order: &mut String, jobs: usize| {
        for _ in 0..jobs {
            let running = start(world, 1).await.unwrap();
            let tag = running.job.session.tag().unwrap();
            order.push(if tag == flood {
                'f'
            } else if tag == ada {
                'a'
            } else {
                'b'
            });
            world.finish(&running, &JobOutcome::Done, moment(1)).await;
        }
    };
    start(&mut order, 3).await;
    for number in 0..3 {
        assert!(scheduler.push(&job(&ada, number).await, moment(1)).await.unwrap());
    }
    start(&mut order, 2).await;
    assert!(scheduler.push(&job(&bob, 0).await, moment(1)).await.unwrap());
    start(&mut order, 20 + 4 - 5).await;
    assert_eq!(order, format!("fff{}{}", "fafabfa", "f".repeat(14)));
    assert_eq!(started(world, 1).await, None);
}

async fn many_jobs_are_pushed_at_once_and_each_of_them_once(world: &dyn SchedulerUnderTest) {
    let scheduler = scheduler(world, &["a", "b"]).await;
    let known = push(scheduler, "b", "known").await;
    let of_a = |number| Job::resume(id("a")).with_id(JobId::new(format!("a{number}")).unwrap());
    let mut jobs: Vec<Job> = (0..300).map(of_a).collect();
    jobs.insert(7, known);
    let are_new = scheduler.push_all(&jobs, moment(0)).await.unwrap();
    let expect: Vec<bool> = (0..301).map(|it| it != 7).collect();
    assert_eq!(are_new, expect);
    assert_eq!(scheduler.push_all(&jobs, moment(0)).await.unwrap(), [false; 301]);
    assert_eq!(scheduler.count(JobStatus::Queued).await.unwrap(), 301);
    for expect in ["known", "a0"] {
        assert_eq!(started(world, 1).await.as_deref(), Some(expect));
    }
    assert_eq!(started(world, 1).await, None);
    let gone = scheduler.push_all(&[Job::resume(id("nobody"))], moment(0)).await;
    assert!(matches!(gone, Err(crate::StoreError::NotFound(_))), "{gone:?}");
}

async fn schedules_are_listed_by_name_until_they_are_removed(world: &dyn SchedulerUnderTest) {
    let scheduler = scheduler(world, &["a"]).await;
    let schedule = |name: &str| Schedule {
        name: JobId::new(name).unwrap(),
        cron: "0 7 * * 1-5".into(),
        session: id("a"),
        runs_in: ScheduleSession::Fork,
        task: JobTask::SendMessage(loopwright_core::messages::Message::user("Grüße")),
        needs: JobLabels::default(),
        priority: 0,
        next_at: Timestamp::from_millis(1 << 50),
    };
    let [one, two] = ["two", "one"].map(schedule);
    assert!(scheduler.add_schedule(&one).await.unwrap());
    assert!(scheduler.add_schedule(&two).await.unwrap());
    let other = Schedule { cron: "* * * * *".into(), ..one.clone() };
    assert!(!scheduler.add_schedule(&other).await.unwrap());
    assert_eq!(scheduler.schedules().await.unwrap(), [two, one.clone()]);
    assert!(scheduler.remove_schedule(&JobId::new("one").unwrap()).await.unwrap());
    assert!(!scheduler.remove_schedule(&JobId::new("one").unwrap()).await.unwrap());
    assert_eq!(scheduler.schedules().await.unwrap(), [one]);
}
