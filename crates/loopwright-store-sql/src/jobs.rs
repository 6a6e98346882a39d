//! The queue of jobs.

use std::{sync::Arc, time::Duration};

use loopwright_core::Timestamp;
use loopwright_sessions::{
    ClaimedJob, Job, JobId, JobOutcome, JobQuery, JobRecord, JobStatus, SessionId,
    stored::{decode, encode},
};

use crate::{
    database::Transaction,
    error::Failure,
    head::{SessionRow, session_id},
    row::{Row, values},
};

/// The columns of a record, which [`record`] reads.
const RECORD: &str = "
    SELECT j.id, s.id, j.task, j.status, j.claims, j.attempts, j.ready_at, j.owner, j.reason,
        j.created_at, j.updated_at, j.crashes
    FROM jobs j JOIN sessions s ON s.key = j.session";

/// The number of oldest open jobs that are examined first, one after the other.
const OLDEST: usize = 256;
/// The number of jobs that are found at once, because others may claim the first ones.
const FOUND: usize = 16;

/// Returns the condition for a job that can run now and that no earlier job of its session blocks.
fn is_ready(transaction: &dyn Transaction) -> String {
    let by = transaction.indexed_by("jobs_open_by_session");
    format!(
        "(CASE j.status WHEN 'queued' THEN j.ready_at ELSE j.until END) <= $1
        AND j.number = (
            SELECT e.number FROM jobs e{by} WHERE e.session = j.session
                AND e.status IN ('queued', 'running') ORDER BY e.number LIMIT 1
        )"
    )
}

/// Returns the statements that find the oldest jobs that can run now and that no earlier jobs of their sessions
/// block. The second statement is only needed if the first one finds none.
///
/// Usually one of the first jobs can run. If sessions have long queues, only the first job of each is examined.
pub(crate) fn looks(transaction: &dyn Transaction) -> [String; 2] {
    let (by, is_ready) = (transaction.indexed_by("jobs_open"), is_ready(transaction));
    let first = format!(
        "SELECT j.number FROM (
            SELECT o.number, o.session, o.status, o.ready_at, o.until FROM jobs o{by}
            WHERE o.status IN ('queued', 'running') ORDER BY o.number LIMIT {OLDEST}
        ) j WHERE {is_ready} ORDER BY j.number LIMIT {FOUND}"
    );
    let by = transaction.indexed_by("jobs_open_by_session");
    let of_each_session = format!(
        "WITH RECURSIVE heads (session) AS (
            SELECT MIN(o.session) FROM jobs o{by} WHERE o.status IN ('queued', 'running')
            UNION ALL
            SELECT (
                SELECT MIN(n.session) FROM jobs n{by}
                WHERE n.status IN ('queued', 'running') AND n.session > h.session
            ) FROM heads h WHERE h.session IS NOT NULL
        )
        SELECT j.number FROM heads h JOIN jobs j ON j.number = (
            SELECT e.number FROM jobs e{by} WHERE e.session = h.session
                AND e.status IN ('queued', 'running') ORDER BY e.number LIMIT 1
        )
        WHERE (CASE j.status WHEN 'queued' THEN j.ready_at ELSE j.until END) <= $1
        ORDER BY j.number LIMIT {FOUND}"
    );
    [first, of_each_session]
}

async fn ready(transaction: &mut dyn Transaction, clock: Timestamp) -> Result<Vec<i64>, Failure> {
    for look in looks(transaction) {
        let found = numbers(transaction, &look, clock).await?;
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Ok(Vec::new())
}

async fn numbers(
    transaction: &mut dyn Transaction,
    sql: &str,
    clock: Timestamp,
) -> Result<Vec<i64>, Failure> {
    let rows = transaction.rows(sql, values![clock]).await?;
    rows.into_iter().map(|mut row| row.int(0)).collect()
}

/// Implements [`JobQueue::push`](loopwright_sessions::JobQueue::push).
pub(crate) async fn push(
    transaction: &mut dyn Transaction,
    job: &Job,
    now: Timestamp,
) -> Result<Option<(i64, u64)>, Failure> {
    // Jobs of one session are numbered in the order in which they become visible.
    let key = SessionRow::locked(transaction, &job.session).await?.key;
    let task = encode(&job.session, &job.task)?;
    let sql = "
        INSERT INTO jobs (id, session, task, status, ready_at, created_at, updated_at)
        VALUES ($1, $2, $3, 'queued', $4, $5, $5) ON CONFLICT (id) DO NOTHING
        RETURNING number";
    let ready_at = transaction.clock(now).await?;
    let values = values![job.id.as_str(), key, &*task, ready_at, now];
    let row = transaction.row(sql, values).await?;
    row.map(|mut row| Ok((key, row.number(0)?))).transpose()
}

/// Implements [`JobQueue::push_if_idle`](loopwright_sessions::JobQueue::push_if_idle). Returns `None` if the
/// session is busy.
pub(crate) async fn push_if_idle(
    transaction: &mut dyn Transaction,
    job: &Job,
    now: Timestamp,
) -> Result<Option<Option<(i64, u64)>>, Failure> {
    // Other transactions that push for the session wait until this one has ended.
    let key = SessionRow::locked(transaction, &job.session).await?.key;
    let by = transaction.indexed_by("jobs_open_by_session");
    let sql = format!(
        "SELECT j.number FROM jobs j{by} WHERE j.session = $1
            AND j.status IN ('queued', 'running') AND j.id <> $2 LIMIT 1"
    );
    if transaction.row(&sql, values![key, job.id.as_str()]).await?.is_some() {
        return Ok(None);
    }
    push(transaction, job, now).await.map(Some)
}

/// Returns `true` if there is anything to claim.
pub(crate) async fn has_ready(
    transaction: &mut dyn Transaction,
    now: Timestamp,
) -> Result<bool, Failure> {
    let clock = transaction.clock(now).await?;
    Ok(!ready(transaction, clock).await?.is_empty())
}

/// Implements [`JobQueue::claim`](loopwright_sessions::JobQueue::claim).
pub(crate) async fn claim(
    transaction: &mut dyn Transaction,
    owner: &str,
    now: Timestamp,
    lasts: Duration,
) -> Result<Option<ClaimedJob>, Failure> {
    let clock = transaction.clock(now).await?;
    let found = ready(transaction, clock).await?;
    if found.is_empty() {
        return Ok(None);
    }
    // Jobs that another process is about to claim are skipped, if there can be other processes.
    let lock = transaction.for_update();
    let skip = if lock.is_empty() { "" } else { " SKIP LOCKED" };
    let found = found.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
    let is_ready = is_ready(transaction);
    let sql = format!(
        "SELECT j.number FROM jobs j WHERE j.number IN ({found})
            AND j.status IN ('queued', 'running') AND {is_ready}
        ORDER BY j.number LIMIT 1{lock}{skip}"
    );
    let Some(mut found) = transaction.row(&sql, values![clock]).await? else { return Ok(None) };
    let number = found.int(0)?;
    let sql = "
        UPDATE jobs SET status = 'running', claims = claims + 1, owner = $1, until = $2,
            updated_at = $3, crashes = crashes + CASE status WHEN 'running' THEN 1 ELSE 0 END
        WHERE number = $4";
    transaction.run(sql, values![owner, clock.plus(lasts), now, number]).await?;
    let row = transaction.row(&format!("{RECORD} WHERE j.number = $1"), values![number]).await?;
    let Some(mut row) = row else { return Ok(None) };
    let JobRecord { job, claims, attempts, crashes, .. } = record(&mut row)?;
    Ok(Some(ClaimedJob { job, claim: claims, attempts, crashes }))
}

/// Implements [`JobQueue::renew`](loopwright_sessions::JobQueue::renew).
pub(crate) async fn renew(
    transaction: &mut dyn Transaction,
    owner: &str,
    now: Timestamp,
    lasts: Duration,
) -> Result<u64, Failure> {
    let sql = "UPDATE jobs SET until = $1 WHERE owner = $2 AND status = 'running'";
    let until = transaction.clock(now).await?.plus(lasts);
    Ok(transaction.run(sql, values![until, owner]).await?)
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

/// Implements [`JobQueue::answered`](loopwright_sessions::JobQueue::answered).
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

/// Implements [`JobQueue::give_back`](loopwright_sessions::JobQueue::give_back).
pub(crate) async fn give_back(
    transaction: &mut dyn Transaction,
    owner: &str,
    now: Timestamp,
) -> Result<u64, Failure> {
    let sql = "
        UPDATE jobs SET status = 'queued', owner = NULL, ready_at = $1, updated_at = $2,
            crashes = crashes + 1
        WHERE owner = $3 AND status = 'running'";
    let ready_at = transaction.clock(now).await?;
    Ok(transaction.run(sql, values![ready_at, now, owner]).await?)
}

/// Implements [`JobQueue::job`](loopwright_sessions::JobQueue::job).
pub(crate) async fn job(
    transaction: &mut dyn Transaction,
    id: &JobId,
) -> Result<Option<JobRecord>, Failure> {
    let row = transaction.row(&format!("{RECORD} WHERE j.id = $1"), values![id.as_str()]).await?;
    row.map(|mut row| record(&mut row)).transpose()
}

/// Implements [`JobQueue::records`](loopwright_sessions::JobQueue::records).
pub(crate) async fn records(
    transaction: &mut dyn Transaction,
    query: &JobQuery,
) -> Result<Vec<JobRecord>, Failure> {
    let (status, session) = (query.status.map(JobStatus::as_str), query.session.as_ref());
    let session = session.map(SessionId::as_str);
    // The statement contains only the requested conditions, so that an index is used.
    let mut wanted = Vec::new();
    let mut values = vec![query.limit.into()];
    for (column, value) in [("j.status", status), ("s.id", session)] {
        if value.is_some() {
            values.push(value.into());
            wanted.push(format!("{column} = ${}", values.len()));
        }
    }
    let wanted = if wanted.is_empty() { "1 = 1".to_owned() } else { wanted.join(" AND ") };
    let sql = format!("{RECORD} WHERE {wanted} ORDER BY j.number DESC LIMIT $1");
    let rows = transaction.rows(&sql, &values).await?;
    rows.into_iter().map(|mut row| record(&mut row)).collect()
}

/// Implements [`JobQueue::count`](loopwright_sessions::JobQueue::count).
pub(crate) async fn count(
    transaction: &mut dyn Transaction,
    status: JobStatus,
) -> Result<u64, Failure> {
    let sql = "SELECT COUNT(*) FROM jobs WHERE status = $1";
    let row = transaction.row(sql, values![status.as_str()]).await?;
    row.map_or(Ok(0), |mut row| row.number(0))
}

/// Implements [`JobQueue::forget`](loopwright_sessions::JobQueue::forget).
pub(crate) async fn forget(
    transaction: &mut dyn Transaction,
    before: Timestamp,
) -> Result<u64, Failure> {
    let sql = "DELETE FROM jobs WHERE status NOT IN ('queued', 'running') AND updated_at < $1";
    Ok(transaction.run(sql, values![before]).await?)
}

fn record(row: &mut Row) -> Result<JobRecord, Failure> {
    let form = |error: &dyn std::fmt::Display| Failure::Form(error.to_string());
    let id = JobId::new(row.text(0)?).map_err(|error| form(&error))?;
    let session = session_id(row.text(1)?)?;
    let task = decode(&session, &row.bytes(2)?)?;
    let word = row.text(3)?;
    let status = JobStatus::named(&word);
    Ok(JobRecord {
        job: Job { id, session, task },
        status: status.ok_or_else(|| Failure::Form(format!("`{word}` is not a job status")))?,
        claims: row.number(4)?,
        attempts: row.number(5)?,
        crashes: row.number(11)?,
        ready_at: row.moment(6)?,
        owner: row.maybe_text(7)?.map(Into::into),
        reason: row.maybe_text(8)?.map(Into::into),
        created_at: row.moment(9)?,
        updated_at: row.moment(10)?,
    })
}
