//! What every queue of jobs must do.

use std::time::Duration;

use loopwright_core::Timestamp;

use super::{ConformanceCase, create, header, id, moment};
use crate::{
    id::JobId,
    jobs::{ClaimedJob, Job, JobOutcome, JobStatus, JobTask},
    labels::JobLabels,
    schedule::{Schedule, ScheduleSession},
    scheduler::{ClaimRequest, JobQueue},
    store::{SessionStore, StoreError},
};

macro_rules! job_facts {
    ($($name:ident),* $(,)?) => {
        /// What holds of every store that is a queue of jobs.
        pub const JOB_CASES: &[ConformanceCase] = &[
            $(ConformanceCase { name: stringify!($name), check: |store| Box::pin($name(store)) }),*
        ];
    };
}

job_facts![
    a_job_is_claimed_by_one_and_is_as_it_was_pushed,
    a_job_that_is_not_renewed_is_claimed_by_another_and_the_first_one_is_lost,
    a_job_that_is_renewed_is_not_claimed,
    a_claim_that_its_holder_does_not_name_is_not_renewed,
    what_a_holder_that_is_gone_had_is_given_back,
    a_job_is_claimed_by_its_id_whatever_comes_before_it,
    a_job_is_not_claimed_by_its_id_while_another_claim_lasts_or_once_it_is_over,
    a_worker_has_work_while_jobs_run_or_wait_for_its_labels,
    a_job_that_is_over_stays_as_it_is,
    a_time_of_a_schedule_is_one_job_however_many_workers_push_it,
    a_schedule_whose_session_is_gone_can_be_skipped,
];

const LASTS: Duration = Duration::from_secs(5);

async fn queue<'a>(store: &'a dyn SessionStore, sessions: &[&str]) -> &'a dyn JobQueue {
    for session in sessions {
        create(store, &header(session), &[]).await;
    }
    store.jobs().unwrap()
}

async fn push(queue: &dyn JobQueue, session: &str, name: &str) -> Job {
    let job = Job::resume(id(session)).with_id(JobId::new(name).unwrap());
    assert!(queue.push(&job, moment(0)).await.unwrap());
    job
}

async fn claim(queue: &dyn JobQueue, owner: &str, now: u64) -> Option<ClaimedJob> {
    queue.claim(ClaimRequest::new(owner, moment(now), LASTS)).await.unwrap()
}

/// Renews claims of `me`, and returns their number.
async fn renew(queue: &dyn JobQueue, jobs: &[&Job], now: u64, lasts: Duration) -> u64 {
    let jobs: Vec<JobId> = jobs.iter().map(|it| it.id.clone()).collect();
    queue.renew("me", &jobs, moment(now), lasts).await.unwrap()
}

/// Claims, and tells which job it is.
async fn claimed(queue: &dyn JobQueue, now: u64) -> Option<String> {
    claim(queue, "me", now).await.map(|it| it.job.id.to_string())
}

async fn status(queue: &dyn JobQueue, job: &Job) -> JobStatus {
    queue.job(&job.id).await.unwrap().unwrap().status
}

async fn a_job_is_claimed_by_one_and_is_as_it_was_pushed(store: &dyn SessionStore) {
    let queue = queue(store, &["a"]).await;
    let message = loopwright_core::messages::Message::user("Grüße, 世界");
    let job = Job::send_message(id("a"), message);
    assert!(queue.push(&job, moment(0)).await.unwrap());
    assert_eq!(status(queue, &job).await, JobStatus::Queued);
    let found = claim(queue, "me", 1).await;
    assert_eq!(found, Some(ClaimedJob { job: job.clone(), claim: 1, attempts: 0, crashes: 0 }));
    assert_eq!(claim(queue, "you", 1).await, None);
    let record = queue.job(&job.id).await.unwrap().unwrap();
    assert_eq!((record.status, record.owner.as_deref()), (JobStatus::Running, Some("me")));
    assert_eq!((record.created_at, record.updated_at), (moment(0), moment(1)));
    assert!(queue.holds(&found.clone().unwrap()).await.unwrap());
    assert!(queue.settle(&found.unwrap(), &JobOutcome::Done, moment(2)).await.unwrap());
    let record = queue.job(&job.id).await.unwrap().unwrap();
    assert_eq!((record.status, record.owner, record.reason), (JobStatus::Completed, None, None));
    assert_eq!(claim(queue, "you", 99).await, None);
}

async fn a_job_that_is_not_renewed_is_claimed_by_another_and_the_first_one_is_lost(
    store: &dyn SessionStore,
) {
    let queue = queue(store, &["a"]).await;
    let job = push(queue, "a", "job").await;
    let first = claim(queue, "me", 1).await.unwrap();
    assert_eq!(claim(queue, "you", 5).await, None);
    // Its time has ended.
    assert_eq!(renew(queue, &[&job], 5, Duration::ZERO).await, 1);
    let second = claim(queue, "you", 6).await.unwrap();
    assert_eq!((second.claim, second.attempts, second.crashes), (2, 0, 1));
    assert!(!queue.holds(&first).await.unwrap());
    assert!(!queue.settle(&first, &JobOutcome::Done, moment(7)).await.unwrap());
    assert_eq!(status(queue, &job).await, JobStatus::Running);
    assert!(queue.holds(&second).await.unwrap());
    assert!(queue.settle(&second, &JobOutcome::Done, moment(7)).await.unwrap());
}

async fn a_job_that_is_renewed_is_not_claimed(store: &dyn SessionStore) {
    let queue = queue(store, &["a", "b"]).await;
    let job = push(queue, "a", "a").await;
    push(queue, "b", "b").await;
    assert!(
        queue.claim(ClaimRequest::new("me", moment(1), Duration::ZERO)).await.unwrap().is_some()
    );
    assert_eq!(renew(queue, &[&job], 5, LASTS).await, 1);
    assert_eq!(claimed(queue, 6).await.as_deref(), Some("b"));
    assert_eq!(claimed(queue, 9).await, None);
    let of_another = queue.renew("nobody", std::slice::from_ref(&job.id), moment(5), LASTS).await;
    assert_eq!(of_another.unwrap(), 0);
}

async fn a_claim_that_its_holder_does_not_name_is_not_renewed(store: &dyn SessionStore) {
    let queue = queue(store, &["a", "b", "c", "d"]).await;
    let [a, b, c, d] = [
        push(queue, "a", "a").await,
        push(queue, "b", "b").await,
        push(queue, "c", "c").await,
        push(queue, "d", "d").await,
    ];
    for _ in 0..3 {
        assert!(claim(queue, "me", 1).await.is_some());
    }
    // Their time has ended.
    assert_eq!(renew(queue, &[&a, &b, &c], 5, Duration::ZERO).await, 3);
    assert_eq!(renew(queue, &[], 5, LASTS).await, 0);
    // One of them is not claimed.
    assert_eq!(renew(queue, &[&a, &c, &d], 5, LASTS).await, 2);
    let found = [claim(queue, "you", 6).await, claim(queue, "you", 6).await];
    let mut found = found.map(|it| it.map(|it| (it.job.id, it.crashes)));
    found.sort_by_key(|it| it.as_ref().map(|(id, _)| id.to_string()));
    assert_eq!(found, [Some((b.id, 1)), Some((d.id, 0))]);
    assert_eq!(claim(queue, "you", 9).await, None);
}

async fn what_a_holder_that_is_gone_had_is_given_back(store: &dyn SessionStore) {
    let queue = queue(store, &["a", "b"]).await;
    push(queue, "a", "a").await;
    push(queue, "b", "b").await;
    let lost = claim(queue, "gone", 1).await.unwrap();
    let held = claim(queue, "me", 1).await.unwrap();
    let mut holders = queue.holders().await.unwrap();
    holders.sort();
    assert_eq!(holders, ["gone".into(), "me".into()]);
    assert_eq!(queue.release_all("gone", moment(2)).await.unwrap(), 1);
    assert_eq!(queue.holders().await.unwrap(), ["me".into()]);
    assert!(!queue.holds(&lost).await.unwrap());
    assert!(queue.holds(&held).await.unwrap());
    let found = claim(queue, "me", 2).await.unwrap();
    assert_eq!((found.job.id.as_str(), found.crashes), ("a", 1));
}

async fn a_job_is_claimed_by_its_id_whatever_comes_before_it(store: &dyn SessionStore) {
    let queue = queue(store, &["a"]).await;
    push(queue, "a", "first").await;
    let needs = Job::resume(id("a")).with_needs("gpu".parse().unwrap());
    let later = Job::resume(id("a")).with_start_at(moment(9));
    assert!(queue.push(&needs, moment(0)).await.unwrap());
    assert!(queue.push(&later, moment(0)).await.unwrap());
    let claim_job = async |job: &Job, now| {
        let request = ClaimRequest::new("me", moment(now), LASTS);
        queue.claim_job(&job.id, request).await.unwrap()
    };
    assert_eq!(claim_job(&later, 1).await, None);
    let found = claim_job(&needs, 1).await.unwrap();
    assert_eq!(found, ClaimedJob { job: needs, claim: 1, attempts: 0, crashes: 0 });
    assert!(queue.holds(&found).await.unwrap());
    assert_eq!(claimed(queue, 1).await, None);
    assert!(queue.settle(&found, &JobOutcome::Done, moment(2)).await.unwrap());
    assert_eq!(claimed(queue, 2).await.as_deref(), Some("first"));
    assert_eq!(claim_job(&Job::resume(id("a")), 2).await, None);
}

async fn a_job_is_not_claimed_by_its_id_while_another_claim_lasts_or_once_it_is_over(
    store: &dyn SessionStore,
) {
    let queue = queue(store, &["a"]).await;
    let job = push(queue, "a", "job").await;
    let claim_job = async |owner, now| {
        let request = ClaimRequest::new(owner, moment(now), LASTS);
        queue.claim_job(&job.id, request).await.unwrap()
    };
    let first = claim_job("me", 1).await.unwrap();
    assert_eq!(claim_job("you", 2).await, None);
    assert_eq!(renew(queue, &[&job], 2, Duration::ZERO).await, 1);
    let second = claim_job("you", 3).await.unwrap();
    assert_eq!((second.claim, second.crashes), (2, 1));
    assert!(!queue.settle(&first, &JobOutcome::Done, moment(3)).await.unwrap());
    let parked = JobOutcome::NeedsInput("which?".into());
    assert!(queue.settle(&second, &parked, moment(3)).await.unwrap());
    let third = claim_job("you", 4).await.unwrap();
    assert_eq!((third.claim, third.crashes), (3, 1));
    assert!(queue.settle(&third, &JobOutcome::Done, moment(5)).await.unwrap());
    assert_eq!(claim_job("you", 6).await, None);
}

async fn a_job_that_is_over_stays_as_it_is(store: &dyn SessionStore) {
    let queue = queue(store, &["a"]).await;
    let outcomes = [
        JobOutcome::Done,
        JobOutcome::NeedsInput("which?".into()),
        JobOutcome::Stopped("limit".into()),
        JobOutcome::Failed("no".into()),
    ];
    for outcome in outcomes {
        let job = push(queue, "a", outcome.status().as_str()).await;
        let found = claim(queue, "me", 1).await.unwrap();
        assert!(queue.settle(&found, &outcome, moment(2)).await.unwrap());
        assert!(!queue.settle(&found, &JobOutcome::Released, moment(3)).await.unwrap());
        assert_eq!(queue.release_all("me", moment(3)).await.unwrap(), 0);
        let record = queue.job(&job.id).await.unwrap().unwrap();
        assert_eq!((record.status, record.reason.as_deref()), (outcome.status(), outcome.reason()));
        assert_eq!(record.updated_at, moment(2));
    }
}

async fn a_worker_has_work_while_jobs_run_or_wait_for_its_labels(store: &dyn SessionStore) {
    let queue = queue(store, &["a", "b", "c"]).await;
    let gpu = "gpu".parse().unwrap();
    let has_work = async || {
        let [plain, with_gpu] = [JobLabels::EMPTY, &gpu].map(|it| queue.has_work(it));
        (plain.await.unwrap(), with_gpu.await.unwrap())
    };
    assert_eq!(has_work().await, (false, false));
    let later = Job::resume(id("c")).with_start_at(moment(99));
    assert!(queue.push(&later, moment(0)).await.unwrap());
    assert_eq!(has_work().await, (false, false));
    let needs = Job::resume(id("b")).with_needs(gpu.clone());
    assert!(queue.push(&needs, moment(0)).await.unwrap());
    assert_eq!(has_work().await, (false, true));
    let request = ClaimRequest::new("me", moment(1), LASTS).with_labels(&gpu);
    let running = queue.claim(request).await.unwrap().unwrap();
    assert_eq!(has_work().await, (true, true));
    assert!(queue.settle(&running, &JobOutcome::Done, moment(2)).await.unwrap());
    push(queue, "a", "plain").await;
    assert_eq!(has_work().await, (true, true));
}

/// A schedule whose time came long ago by any clock.
fn schedule(name: &str, session: &str) -> Schedule {
    Schedule {
        name: JobId::new(name).unwrap(),
        cron: "0 * * * *".into(),
        session: id(session),
        runs_in: ScheduleSession::Same,
        task: JobTask::Resume,
        needs: "gpu".parse().unwrap(),
        priority: 7,
        next_at: Timestamp::from_millis(3_600_000),
    }
}

async fn a_time_of_a_schedule_is_one_job_however_many_workers_push_it(store: &dyn SessionStore) {
    let queue = queue(store, &["a"]).await;
    let due = schedule("hourly", "a");
    let later = Schedule { next_at: Timestamp::from_millis(1 << 50), ..schedule("later", "a") };
    for schedule in [&later, &due] {
        assert!(queue.add_schedule(schedule).await.unwrap());
    }
    let (clock, found) = queue.due_schedules(moment(1)).await.unwrap();
    assert!(clock > due.next_at, "{clock}");
    assert_eq!(found, std::slice::from_ref(&due));
    let job = due.next_job(id("a")).unwrap();
    let next = Timestamp::from_millis(1 << 50);
    let push = async |next| queue.push_due(&due, Some(&job), Some(next), moment(1)).await.unwrap();
    let pushed = futures::future::join_all((0..8).map(|_| push(next))).await;
    assert_eq!(pushed.iter().filter(|it| **it).count(), 1, "{pushed:?}");
    assert_eq!(queue.count(JobStatus::Queued).await.unwrap(), 1);
    assert_eq!(queue.job(&job.id).await.unwrap().unwrap().job, job);
    assert_eq!(queue.due_schedules(moment(1)).await.unwrap().1, []);
    let next = Schedule { next_at: next, ..due };
    assert_eq!(queue.schedules().await.unwrap(), [next.clone(), later.clone()]);
    // It has no further time.
    assert!(queue.push_due(&next, None, None, moment(2)).await.unwrap());
    assert_eq!(queue.schedules().await.unwrap(), [later]);
}

async fn a_schedule_whose_session_is_gone_can_be_skipped(store: &dyn SessionStore) {
    let queue = queue(store, &[]).await;
    let due = schedule("hourly", "gone");
    assert!(queue.add_schedule(&due).await.unwrap());
    let (job, next) = (due.next_job(id("gone")).unwrap(), Some(moment(99)));
    let refused = queue.push_due(&due, Some(&job), next, moment(1)).await;
    assert!(matches!(refused, Err(StoreError::NotFound(_))), "{refused:?}");
    assert_eq!(queue.schedules().await.unwrap(), std::slice::from_ref(&due));
    assert!(queue.push_due(&due, None, next, moment(1)).await.unwrap());
    assert!(!queue.push_due(&due, None, next, moment(1)).await.unwrap());
    assert_eq!(queue.schedules().await.unwrap(), [Schedule { next_at: moment(99), ..due }]);
}
