//! Schedules of jobs.

use loopwright_core::Timestamp;
use loopwright_sessions::{
    Job, JobId, Schedule, SessionId,
    stored::{decode, encode},
};

use crate::{
    database::Transaction,
    error::Failure,
    jobs,
    row::{Row, values},
};

/// The most schedules that are due at once.
const MAX_DUE: usize = 256;

/// Implements [`Scheduler::add_schedule`](loopwright_sessions::Scheduler::add_schedule).
pub(crate) async fn add(
    transaction: &mut dyn Transaction,
    schedule: &Schedule,
) -> Result<bool, Failure> {
    let body = encode(&schedule.session, schedule)?;
    let sql = "INSERT INTO schedules (name, next_at, body) VALUES ($1, $2, $3) ON CONFLICT (name) DO NOTHING";
    let values = values![schedule.name.as_str(), schedule.next_at, &*body];
    Ok(transaction.run(sql, values).await? > 0)
}

/// Implements [`Scheduler::schedules`](loopwright_sessions::Scheduler::schedules).
pub(crate) async fn all(transaction: &mut dyn Transaction) -> Result<Vec<Schedule>, Failure> {
    let sql = "SELECT name, next_at, body FROM schedules ORDER BY name";
    transaction.rows(sql, &[]).await?.into_iter().map(schedule).collect()
}

/// Implements [`Scheduler::remove_schedule`](loopwright_sessions::Scheduler::remove_schedule).
pub(crate) async fn remove(
    transaction: &mut dyn Transaction,
    name: &JobId,
) -> Result<bool, Failure> {
    let sql = "DELETE FROM schedules WHERE name = $1";
    Ok(transaction.run(sql, values![name.as_str()]).await? > 0)
}

/// Implements [`JobQueue::due_schedules`](loopwright_sessions::JobQueue::due_schedules).
pub(crate) async fn due(
    transaction: &mut dyn Transaction,
    now: Timestamp,
) -> Result<(Timestamp, Vec<Schedule>), Failure> {
    let clock = transaction.clock(now).await?;
    let sql = format!(
        "SELECT name, next_at, body FROM schedules WHERE next_at <= $1
        ORDER BY next_at, name LIMIT {MAX_DUE}"
    );
    let rows = transaction.rows(&sql, values![clock]).await?;
    let due: Result<_, Failure> = rows.into_iter().map(schedule).collect();
    Ok((clock, due?))
}

/// What became of a due time.
pub(crate) enum Pushed {
    /// Another worker was first.
    Late,
    /// The schedule has its next time. The key of the session and the number of the job, if there is a new one.
    Done(Option<(i64, u64)>),
}

/// Implements [`JobQueue::push_due`](loopwright_sessions::JobQueue::push_due).
pub(crate) async fn push_due(
    transaction: &mut dyn Transaction,
    schedule: &Schedule,
    job: Option<&Job>,
    next_at: Option<Timestamp>,
    now: Timestamp,
) -> Result<Pushed, Failure> {
    let (name, due) = (schedule.name.as_str(), schedule.next_at);
    // Another transaction that does the same waits here, and then finds another time.
    let changed = if let Some(next) = next_at {
        let sql = "UPDATE schedules SET next_at = $3 WHERE name = $1 AND next_at = $2";
        transaction.run(sql, values![name, due, next]).await?
    } else {
        let sql = "DELETE FROM schedules WHERE name = $1 AND next_at = $2";
        transaction.run(sql, values![name, due]).await?
    };
    if changed == 0 {
        return Ok(Pushed::Late);
    }
    match job {
        Some(job) => jobs::push(transaction, job, now).await.map(Pushed::Done),
        None => Ok(Pushed::Done(None)),
    }
}

fn schedule(mut row: Row) -> Result<Schedule, Failure> {
    // Errors name the schedule where a session stands.
    let name = row.text(0)?;
    let (next_at, body) = (row.moment(1)?, row.bytes(2)?);
    let id = SessionId::new(name).map_err(|error| Failure::Form(error.to_string()))?;
    Ok(Schedule { next_at, ..decode(&id, &body)? })
}
