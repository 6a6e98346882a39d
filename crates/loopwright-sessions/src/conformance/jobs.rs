//! What every queue of jobs must do.

use std::time::Duration;

use super::{ConformanceCase, create, header, id, moment};
use crate::{
    id::JobId,
    jobs::{ClaimedJob, Job, JobOutcome, JobQuery, JobQueue, JobStatus, PushOutcome},
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
    a_job_is_for_a_session_that_is_there,
    a_name_that_is_pushed_again_is_one_job,
    a_job_for_an_idle_session_is_added_once,
    jobs_of_one_session_are_done_in_their_order,
    jobs_of_other_sessions_are_not_kept_waiting,
    a_job_behind_the_long_queue_of_a_busy_session_is_found,
    jobs_that_wait_for_a_decision_are_over_once_their_session_went_on,
    a_job_that_is_not_renewed_is_claimed_by_another_and_the_first_one_is_lost,
    a_job_that_is_renewed_is_not_claimed,
    what_a_holder_that_is_gone_had_is_given_back,
    a_job_that_failed_is_ready_later,
    a_job_that_is_left_is_ready_at_once,
    a_job_that_is_over_stays_as_it_is,
    jobs_are_listed_and_counted,
    jobs_that_are_over_are_forgotten_once_they_are_old,
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
    queue.claim(owner, moment(now), LASTS).await.unwrap()
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

async fn a_job_is_for_a_session_that_is_there(store: &dyn SessionStore) {
    let queue = queue(store, &[]).await;
    let refused = queue.push(&Job::resume(id("nobody")), moment(0)).await;
    assert!(matches!(refused, Err(StoreError::NotFound(_))), "{refused:?}");
    assert_eq!(queue.job(&JobId::generate()).await.unwrap(), None);
}

async fn a_name_that_is_pushed_again_is_one_job(store: &dyn SessionStore) {
    let queue = queue(store, &["a", "b"]).await;
    let job = push(queue, "a", "once").await;
    let again = Job { session: id("b"), ..job.clone() };
    assert!(!queue.push(&again, moment(1)).await.unwrap());
    assert_eq!(queue.job(&job.id).await.unwrap().unwrap().job, job);
    assert_eq!(claimed(queue, 2).await.as_deref(), Some("once"));
    assert_eq!(claimed(queue, 2).await, None);
}

async fn a_job_for_an_idle_session_is_added_once(store: &dyn SessionStore) {
    let queue = queue(store, &["a", "b"]).await;
    let job = |name: &str| Job::resume(id("a")).with_id(JobId::new(name).unwrap());
    let names: Vec<String> = (0..8).map(|it| format!("job-{it}")).collect();
    let jobs: Vec<Job> = names.iter().map(|it| job(it)).collect();
    let pushed = jobs.iter().map(|it| queue.push_if_idle(it, moment(0)));
    let pushed = futures::future::try_join_all(pushed).await.unwrap();
    let added: Vec<usize> = (0..8).filter(|it| pushed[*it] == PushOutcome::Added).collect();
    assert_eq!(added.len(), 1, "{pushed:?}");
    assert_eq!(pushed.iter().filter(|it| **it == PushOutcome::Busy).count(), 7);
    let (first, other) = (&jobs[added[0]], &jobs[(added[0] + 1) % 8]);
    let again = async |job: &Job, now| queue.push_if_idle(job, moment(now)).await.unwrap();
    assert_eq!(again(first, 1).await, PushOutcome::Exists);
    let elsewhere = Job::resume(id("b"));
    assert_eq!(again(&elsewhere, 1).await, PushOutcome::Added);
    let claimed = claim(queue, "me", 2).await.unwrap();
    assert_eq!(again(other, 2).await, PushOutcome::Busy);
    assert_eq!(claimed.job, *first);
    assert!(queue.settle(&claimed, &JobOutcome::Done, moment(3)).await.unwrap());
    assert_eq!(again(other, 3).await, PushOutcome::Added);
    let refused = queue.push_if_idle(&Job::resume(id("nobody")), moment(3)).await;
    assert!(matches!(refused, Err(StoreError::NotFound(_))), "{refused:?}");
}

async fn jobs_of_one_session_are_done_in_their_order(store: &dyn SessionStore) {
    let queue = queue(store, &["a", "b"]).await;
    push(queue, "a", "first").await;
    push(queue, "a", "second").await;
    let first = claim(queue, "me", 1).await.unwrap();
    assert_eq!(first.job.id.as_str(), "first");
    assert_eq!(claimed(queue, 1).await, None);
    let again = JobOutcome::Retry { at: moment(50), reason: "away".into() };
    assert!(queue.settle(&first, &again, moment(2)).await.unwrap());
    assert_eq!(claimed(queue, 3).await, None);
    push(queue, "b", "third").await;
    push(queue, "b", "fourth").await;
    let third = claim(queue, "me", 3).await.unwrap();
    assert_eq!(third.job.id.as_str(), "third");
    assert!(queue.settle(&third, &JobOutcome::Done, moment(4)).await.unwrap());
    assert_eq!(claimed(queue, 4).await.as_deref(), Some("fourth"));
}

async fn jobs_of_other_sessions_are_not_kept_waiting(store: &dyn SessionStore) {
    let queue = queue(store, &["a", "b"]).await;
    for (session, name) in [("a", "a1"), ("a", "a2"), ("b", "b1")] {
        push(queue, session, name).await;
    }
    let found = [claimed(queue, 1).await, claimed(queue, 1).await, claimed(queue, 1).await];
    assert_eq!(found, [Some("a1".to_owned()), Some("b1".to_owned()), None]);
}

async fn a_job_that_is_not_renewed_is_claimed_by_another_and_the_first_one_is_lost(
    store: &dyn SessionStore,
) {
    let queue = queue(store, &["a"]).await;
    let job = push(queue, "a", "job").await;
    let first = claim(queue, "me", 1).await.unwrap();
    assert_eq!(claim(queue, "you", 5).await, None);
    // Its time has ended.
    assert_eq!(queue.renew("me", moment(5), Duration::ZERO).await.unwrap(), 1);
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
    push(queue, "a", "a").await;
    push(queue, "b", "b").await;
    assert!(queue.claim("me", moment(1), Duration::ZERO).await.unwrap().is_some());
    assert_eq!(queue.renew("me", moment(5), LASTS).await.unwrap(), 1);
    assert_eq!(claimed(queue, 6).await.as_deref(), Some("b"));
    assert_eq!(claimed(queue, 9).await, None);
    assert_eq!(queue.renew("nobody", moment(5), LASTS).await.unwrap(), 0);
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

async fn a_job_that_failed_is_ready_later(store: &dyn SessionStore) {
    let queue = queue(store, &["a", "b"]).await;
    let later = push(queue, "a", "later").await;
    let at_once = push(queue, "b", "at-once").await;
    let before = queue.job(&later.id).await.unwrap().unwrap();
    for (name, seconds) in [("later", 9), ("at-once", 2)] {
        let found = claim(queue, "me", 1).await.unwrap();
        assert_eq!(found.job.id.as_str(), name);
        let again = JobOutcome::Retry { at: moment(seconds), reason: "away".into() };
        assert!(queue.settle(&found, &again, moment(2)).await.unwrap());
    }
    let record = queue.job(&later.id).await.unwrap().unwrap();
    assert_eq!((record.status, record.reason.as_deref()), (JobStatus::Queued, Some("away")));
    assert!(record.ready_at.since(before.ready_at) >= Duration::from_secs(7), "{record:?}");
    assert_eq!((record.attempts, record.claims), (1, 1));
    let found = claim(queue, "me", 3).await.unwrap();
    assert_eq!(found.job, at_once);
    assert_eq!((found.claim, found.attempts, found.crashes), (2, 1, 0));
    assert_eq!(claimed(queue, 7).await, None);
}

async fn a_job_that_is_left_is_ready_at_once(store: &dyn SessionStore) {
    let queue = queue(store, &["a"]).await;
    push(queue, "a", "job").await;
    let found = claim(queue, "me", 1).await.unwrap();
    assert!(queue.settle(&found, &JobOutcome::Released, moment(2)).await.unwrap());
    let found = claim(queue, "you", 2).await.unwrap();
    assert_eq!((found.claim, found.attempts, found.crashes), (2, 0, 0));
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

async fn jobs_are_listed_and_counted(store: &dyn SessionStore) {
    let queue = queue(store, &["a", "b"]).await;
    for (session, name) in [("a", "a1"), ("b", "b1"), ("a", "a2")] {
        push(queue, session, name).await;
    }
    assert!(claim(queue, "me", 1).await.is_some());
    let names = async |query: JobQuery| -> Vec<String> {
        let found = queue.records(&query).await.unwrap();
        found.into_iter().map(|it| it.job.id.to_string()).collect()
    };
    assert_eq!(names(JobQuery::last(9)).await, ["a2", "b1", "a1"]);
    assert_eq!(names(JobQuery::last(2)).await, ["a2", "b1"]);
    let of_a = JobQuery { session: Some(id("a")), ..JobQuery::last(9) };
    assert_eq!(names(of_a.clone()).await, ["a2", "a1"]);
    let waiting = JobQuery { status: Some(JobStatus::Queued), ..of_a };
    assert_eq!(names(waiting).await, ["a2"]);
    let mut counts = Vec::new();
    for status in JobStatus::ALL {
        counts.push(queue.count(status).await.unwrap());
    }
    assert_eq!(counts, [2, 1, 0, 0, 0, 0]);
}

async fn jobs_that_are_over_are_forgotten_once_they_are_old(store: &dyn SessionStore) {
    let queue = queue(store, &["a", "b", "c"]).await;
    for (session, name, now) in [("a", "old", 1), ("b", "new", 5)] {
        push(queue, session, name).await;
        let claimed = claim(queue, "me", now).await.unwrap();
        assert!(queue.settle(&claimed, &JobOutcome::Done, moment(now)).await.unwrap());
    }
    push(queue, "c", "open").await;
    assert_eq!(queue.delete_finished(moment(5)).await.unwrap(), 1);
    let left = queue.records(&JobQuery::last(9)).await.unwrap();
    let left: Vec<String> = left.iter().map(|it| it.job.id.to_string()).collect();
    assert_eq!(left, ["open", "new"]);
    push(queue, "a", "old").await;
    assert_eq!(queue.delete_finished(moment(5)).await.unwrap(), 0);
}

async fn a_job_behind_the_long_queue_of_a_busy_session_is_found(store: &dyn SessionStore) {
    let queue = queue(store, &["a", "b", "c"]).await;
    for number in 0..300 {
        push(queue, "b", &format!("b{number}")).await;
    }
    push(queue, "c", "c0").await;
    push(queue, "a", "a0").await;
    for expect in ["b0", "c0", "a0"] {
        assert_eq!(claimed(queue, 1).await.as_deref(), Some(expect));
    }
    assert_eq!(claimed(queue, 1).await, None);
}

async fn jobs_that_wait_for_a_decision_are_over_once_their_session_went_on(
    store: &dyn SessionStore,
) {
    let queue = queue(store, &["a", "b"]).await;
    let parked = JobOutcome::NeedsInput("which?".into());
    for (session, name) in [("a", "a0"), ("b", "b0")] {
        push(queue, session, name).await;
        let found = claim(queue, "me", 1).await.unwrap();
        assert!(queue.settle(&found, &parked, moment(2)).await.unwrap());
    }
    let later = push(queue, "a", "a1").await;
    assert_eq!(queue.answered(&id("a"), &JobOutcome::Done, moment(3)).await.unwrap(), 1);
    assert_eq!(queue.answered(&id("a"), &JobOutcome::Done, moment(4)).await.unwrap(), 0);
    let record = async |name| queue.job(&JobId::new(name).unwrap()).await.unwrap().unwrap();
    let [a, b] = [record("a0").await, record("b0").await];
    assert_eq!((a.status, a.reason, a.updated_at), (JobStatus::Completed, None, moment(3)));
    assert_eq!((b.status, b.reason.as_deref()), (JobStatus::NeedsInput, Some("which?")));
    assert_eq!(status(queue, &later).await, JobStatus::Queued);
}
