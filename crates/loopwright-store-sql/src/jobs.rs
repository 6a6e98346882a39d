//! The queue of jobs.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use loopwright_core::Timestamp;
use loopwright_sessions::{
    ClaimedJob, Job, JobId, JobLabels, JobOutcome, JobQuery, JobRecord, JobStatus, SessionId,
    stored::{decode, encode},
};

use crate::{
    claiming,
    database::Transaction,
    error::Failure,
    head::{SessionRow, session_id},
    ledger,
    row::{Row, Value, values},
};

/// The columns of a record, which [`record`] reads.
const RECORD: &str = "
    SELECT j.id, s.id, j.task, j.needs, j.priority, j.start_at, j.claims, j.attempts, j.crashes, j.status,
        j.ready_at, j.owner, j.reason, j.created_at, j.updated_at
    FROM jobs j JOIN sessions s ON s.key = j.session";

/// The lock of a transaction that adds several jobs. Their IDs are locked in the order of the caller, which decides about
/// their numbers, and two such transactions with the same IDs in other orders would wait for each other.
const PUSHING: i64 = 0x4c6f_6f70_7773;

/// The columns of a claimed job, which [`claimed`] reads.
pub(crate) const CLAIMED: &str = "
    id, (SELECT s.id FROM sessions s WHERE s.key = jobs.session), task, needs, priority, start_at, claims, attempts,
        crashes";

/// Implements [`Scheduler::push`](loopwright_sessions::Scheduler::push).
pub(crate) async fn push(
    transaction: &mut dyn Transaction,
    job: &Job,
    now: Timestamp,
) -> Result<Option<(i64, u64)>, Failure> {
    Ok(push_all(transaction, std::slice::from_ref(job), now).await?.pop().flatten())
}

/// Implements [`Scheduler::push_all`](loopwright_sessions::Scheduler::push_all). Returns the key of the session and the
/// number of each job that is new.
pub(crate) async fn push_all(
    transaction: &mut dyn Transaction,
    jobs: &[Job],
    now: Timestamp,
) -> Result<Vec<Option<(i64, u64)>>, Failure> {
    let by = transaction.indexed_by("jobs_in_order");
    let sql = format!(
        "INSERT INTO jobs (id, session, task, status, ready_at, created_at, updated_at, needs,
            priority, principal, start_at, held)
        VALUES ($1, $2, $3, 'queued', $4, $5, $5, $6, $7, $8, $9, CASE WHEN $4 > $10 THEN 2
            WHEN EXISTS (
                SELECT 1 FROM jobs e{by} WHERE e.session = $2
                    AND e.status IN ('queued', 'running') AND (e.held IS NULL OR e.held = 1)
            ) THEN 1 END)
        ON CONFLICT (id) DO NOTHING RETURNING number, held"
    );
    if jobs.len() > 1 {
        transaction.one_at_a_time(PUSHING).await?;
    }
    // Jobs of one session are numbered in the order in which they become visible. Two transactions lock sessions in the
    // same order.
    let sessions: BTreeSet<_> = jobs.iter().map(|it| &it.session).collect();
    let mut keys = BTreeMap::new();
    for session in sessions {
        keys.insert(session, SessionRow::locked(transaction, session).await?.key);
    }
    let clock = transaction.clock(now).await?;
    let (mut pushed, mut ready) = (Vec::with_capacity(jobs.len()), Vec::new());
    for job in jobs {
        let Some(&key) = keys.get(&job.session) else { continue };
        let task = encode(&job.session, &job.task)?;
        let ready_at = job.start_at.map_or(clock, |at| clock.plus(at.since(now)));
        let (needs, tag) = (job.needs.to_string(), job.session.tag());
        let (priority, start) = (i64::from(job.priority), job.start_at.map(Timestamp::millis));
        let start = start.and_then(|it| i64::try_from(it).ok());
        let (id, principal) = (job.id.as_str(), ledger::name(tag.as_ref()));
        let values =
            values![id, key, &*task, ready_at, now, &*needs, priority, principal, start, clock];
        let Some(mut row) = transaction.row(&sql, values).await? else {
            pushed.push(None);
            continue;
        };
        let number = row.int(0)?;
        if row.maybe_int(1)?.is_none() {
            ready.push(number);
        }
        let is_no = |_| Failure::Form(format!("a job has the invalid number {number}"));
        pushed.push(Some((key, u64::try_from(number).map_err(is_no)?)));
    }
    claiming::enter(transaction, &ready, clock).await?;
    Ok(pushed)
}

/// Implements [`Scheduler::push_if_idle`](loopwright_sessions::Scheduler::push_if_idle). Returns `None` if the
/// session is busy.
pub(crate) async fn push_if_idle(
    transaction: &mut dyn Transaction,
    job: &Job,
    now: Timestamp,
) -> Result<Option<Option<(i64, u64)>>, Failure> {
    // Other transactions that push for the session wait until this one has ended.
    let key = SessionRow::locked(transaction, &job.session).await?.key;
    let by = transaction.indexed_by("jobs_in_order");
    let sql = format!(
        "SELECT j.number FROM jobs j{by} WHERE j.session = $1
            AND j.status IN ('queued', 'running') AND (j.held IS NULL OR j.held = 1)
            AND j.id <> $2 LIMIT 1"
    );
    if transaction.row(&sql, values![key, job.id.as_str()]).await?.is_some() {
        return Ok(None);
    }
    push(transaction, job, now).await.map(Some)
}

/// Implements [`JobQueue::renew`](loopwright_sessions::JobQueue::renew).
pub(crate) async fn renew(
    transaction: &mut dyn Transaction,
    owner: &str,
    jobs: &[JobId],
    now: Timestamp,
    lasts: Duration,
) -> Result<u64, Failure> {
    let Some(last) = jobs.last() else { return Ok(0) };
    // The database prepares a statement for each size once. An ID that is repeated changes nothing.
    let size = jobs.len().next_power_of_two();
    let ids = (0..size).map(|job| format!("${}", job + 3)).collect::<Vec<_>>().join(", ");
    // Jobs are locked in their order, as in `give_back`, so that two transactions about one owner do not wait for each other.
    let lock = transaction.for_update();
    let sql = format!(
        "UPDATE jobs SET until = $1 WHERE number IN (
            SELECT j.number FROM jobs j
            WHERE j.id IN ({ids}) AND j.owner = $2 AND j.status = 'running' ORDER BY j.number{lock}
        )"
    );
    let until = transaction.clock(now).await?.plus(lasts);
    let mut values = values![until, owner].to_vec();
    let padding = std::iter::repeat_n(last, size - jobs.len());
    values.extend(jobs.iter().chain(padding).map(|it| Value::from(it.as_str())));
    Ok(transaction.run(&sql, &values).await?)
}

/// Implements [`JobQueue::holds`](loopwright_sessions::JobQueue::holds).
pub(crate) async fn holds(
    transaction: &mut dyn Transaction,
    claimed: &ClaimedJob,
) -> Result<bool, Failure> {
    let sql = "SELECT number FROM jobs WHERE id = $1 AND claims = $2 AND status = 'running'";
    let values = values![claimed.job.id.as_str(), claimed.claim];
    Ok(transaction.row(sql, values).await?.is_some())
}

/// Implements [`JobQueue::settle`](loopwright_sessions::JobQueue::settle).
pub(crate) async fn settle(
    transaction: &mut dyn Transaction,
    claimed: &ClaimedJob,
    outcome: &JobOutcome,
    now: Timestamp,
) -> Result<bool, Failure> {
    let clock = transaction.clock(now).await?;
    let (ready_at, attempts) = match outcome {
        JobOutcome::Retry { at, .. } => (clock.plus(at.since(now)), claimed.attempts + 1),
        _ => (clock, claimed.attempts),
    };
    let sql = "
        UPDATE jobs SET status = $1, reason = $2, ready_at = $3, attempts = $4, updated_at = $5,
            owner = NULL
        WHERE id = $6 AND claims = $7 AND status = 'running'";
    let status = outcome.status().as_str();
    let (id, claim) = (claimed.job.id.as_str(), claimed.claim);
    let values = values![status, outcome.reason(), ready_at, attempts, now, id, claim];
    Ok(transaction.run(sql, values).await? > 0)
}

/// Implements [`Scheduler::answered`](loopwright_sessions::Scheduler::answered).
pub(crate) async fn answered(
    transaction: &mut dyn Transaction,
    session: &SessionId,
    outcome: &JobOutcome,
    now: Timestamp,
) -> Result<u64, Failure> {
    let sql = "
        UPDATE jobs SET status = $1, reason = $2, updated_at = $3
        WHERE status = 'needs_input' AND session = (SELECT key FROM sessions WHERE id = $4)";
    let values = values![outcome.status().as_str(), outcome.reason(), now, session.as_str()];
    Ok(transaction.run(sql, values).await?)
}

/// Implements [`JobQueue::holders`](loopwright_sessions::JobQueue::holders).
pub(crate) async fn holders(transaction: &mut dyn Transaction) -> Result<Vec<Arc<str>>, Failure> {
    let sql = "SELECT DISTINCT owner FROM jobs WHERE status = 'running' AND owner IS NOT NULL";
    let rows = transaction.rows(sql, &[]).await?;
    rows.into_iter().map(|mut row| Ok(row.text(0)?.into())).collect()
}

/// Implements [`JobQueue::release_all`](loopwright_sessions::JobQueue::release_all).
pub(crate) async fn give_back(
    transaction: &mut dyn Transaction,
    owner: &str,
    now: Timestamp,
) -> Result<u64, Failure> {
    // Jobs are locked in their order, so that two transactions about one owner do not wait for each other.
    let lock = transaction.for_update();
    let sql = format!(
        "UPDATE jobs SET status = 'queued', owner = NULL, ready_at = $1, updated_at = $2,
            crashes = crashes + 1
        WHERE number IN (
            SELECT j.number FROM jobs j WHERE j.owner = $3 AND j.status = 'running'
            ORDER BY j.number{lock}
        )"
    );
    let ready_at = transaction.clock(now).await?;
    Ok(transaction.run(&sql, values![ready_at, now, owner]).await?)
}

/// Implements [`Scheduler::has_jobs`](loopwright_sessions::Scheduler::has_jobs).
pub(crate) async fn has_jobs(
    transaction: &mut dyn Transaction,
    session: &SessionId,
    now: Timestamp,
) -> Result<bool, Failure> {
    let (by, delayed) =
        (transaction.indexed_by("jobs_in_order"), transaction.indexed_by("jobs_delayed"));
    let of_session = "j.session = (SELECT key FROM sessions WHERE id = $1)";
    let open = format!(
        "SELECT j.number FROM jobs j{by} WHERE {of_session}
            AND j.status IN ('queued', 'running') AND (j.held IS NULL OR j.held = 1) LIMIT 1"
    );
    // The start of these has come, and no claim has examined them yet.
    let started = format!(
        "SELECT j.number FROM jobs j{delayed} WHERE {of_session}
            AND j.held = 2 AND j.ready_at <= $2 LIMIT 1"
    );
    let sql = format!("SELECT 1 WHERE EXISTS ({open}) OR EXISTS ({started})");
    let clock = transaction.clock(now).await?;
    Ok(transaction.row(&sql, values![session.as_str(), clock]).await?.is_some())
}

/// Implements [`Scheduler::job`](loopwright_sessions::Scheduler::job).
pub(crate) async fn job(
    transaction: &mut dyn Transaction,
    id: &JobId,
) -> Result<Option<JobRecord>, Failure> {
    let row = transaction.row(&format!("{RECORD} WHERE j.id = $1"), values![id.as_str()]).await?;
    row.map(|mut row| record(&mut row)).transpose()
}

/// Implements [`Scheduler::records`](loopwright_sessions::Scheduler::records).
pub(crate) async fn records(
    transaction: &mut dyn Transaction,
    query: &JobQuery,
) -> Result<Vec<JobRecord>, Failure> {
    // The statement contains only the requested conditions, so that an index is used. SQLite prepares it again each time if
    // its limit, or what the conditions of indexes name, is a parameter.
    let (mut wanted, mut values) = (Vec::new(), Vec::new());
    if let Some(status) = query.status {
        wanted.push(format!("j.status = '{}'", status.as_str()));
    }
    if let Some(session) = &query.session {
        wanted.push("s.id = $1".to_owned());
        values.push(session.as_str().into());
    }
    if let Some(before) = &query.before {
        values.push(before.as_str().into());
        let number = format!("(SELECT number FROM jobs WHERE id = ${})", values.len());
        wanted.push(format!("j.number < {number}"));
    }
    let wanted = if wanted.is_empty() { "1 = 1".to_owned() } else { wanted.join(" AND ") };
    let sql = format!("{RECORD} WHERE {wanted} ORDER BY j.number DESC LIMIT {}", query.limit);
    let rows = transaction.rows(&sql, &values).await?;
    rows.into_iter().map(|mut row| record(&mut row)).collect()
}

/// Implements [`Scheduler::count`](loopwright_sessions::Scheduler::count).
pub(crate) async fn count(
    transaction: &mut dyn Transaction,
    status: JobStatus,
) -> Result<u64, Failure> {
    let sql = format!("SELECT COUNT(*) FROM jobs WHERE status = '{}'", status.as_str());
    let row = transaction.row(&sql, &[]).await?;
    row.map_or(Ok(0), |mut row| row.number(0))
}

/// Implements [`Scheduler::delete_finished`](loopwright_sessions::Scheduler::delete_finished).
pub(crate) async fn forget(
    transaction: &mut dyn Transaction,
    before: Timestamp,
) -> Result<u64, Failure> {
    let sql = "DELETE FROM jobs WHERE status NOT IN ('queued', 'running') AND updated_at < $1";
    Ok(transaction.run(sql, values![before]).await?)
}

/// Implements [`JobQueue::has_work`](loopwright_sessions::JobQueue::has_work).
pub(crate) async fn has_work(
    transaction: &mut dyn Transaction,
    labels: &JobLabels,
) -> Result<bool, Failure> {
    let sql = "SELECT number FROM jobs WHERE status = 'running' LIMIT 1";
    if transaction.row(sql, &[]).await?.is_some() {
        return Ok(true);
    }
    let sql = "
        SELECT DISTINCT COALESCE(needs, '') FROM jobs
        WHERE status = 'queued' AND (held IS NULL OR held = 1)";
    for mut row in transaction.rows(sql, &[]).await? {
        if claiming::covers(labels, &row.text(0)?) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Reads a row of [`CLAIMED`].
pub(crate) fn claimed(row: &mut Row) -> Result<ClaimedJob, Failure> {
    let form = |error: &dyn std::fmt::Display| Failure::Form(error.to_string());
    let id = JobId::new(row.text(0)?).map_err(|error| form(&error))?;
    let session = session_id(row.text(1)?)?;
    let task = decode(&session, &row.bytes(2)?)?;
    let needs = row.maybe_text(3)?.unwrap_or_default();
    let needs = needs.parse::<JobLabels>().map_err(|error| form(&error))?;
    let priority = row.maybe_int(4)?.unwrap_or_default();
    let priority = i32::try_from(priority).map_err(|error| form(&error))?;
    let start_at =
        row.maybe_int(5)?.map(u64::try_from).transpose().map_err(|error| form(&error))?;
    let start_at = start_at.map(Timestamp::from_millis);
    let job = Job { id, session, task, needs, priority, start_at };
    let (claim, attempts, crashes) = (row.number(6)?, row.number(7)?, row.number(8)?);
    Ok(ClaimedJob { job, claim, attempts, crashes })
}

fn record(row: &mut Row) -> Result<JobRecord, Failure> {
    let ClaimedJob { job, claim, attempts, crashes } = claimed(row)?;
    let word = row.text(9)?;
    let status = JobStatus::named(&word);
    Ok(JobRecord {
        job,
        status: status.ok_or_else(|| Failure::Form(format!("`{word}` is not a job status")))?,
        claims: claim,
        attempts,
        crashes,
        ready_at: row.moment(10)?,
        owner: row.maybe_text(11)?.map(Into::into),
        reason: row.maybe_text(12)?.map(Into::into),
        created_at: row.moment(13)?,
        updated_at: row.moment(14)?,
    })
}
