//! Which job a worker gets.
//!
//! A job that can run stands in line: it has a *turn*. A worker takes the job that is first by priority, turn and number,
//! among those whose needs it covers; one index has this order. When a job enters the line, its turn is after the last one
//! of its principal, or that of the first job in line if its principal has none there. So principals take turns, and one
//! with many jobs does not delay the others. A job that was interrupted continues before others.
//!
//! Before the line are jobs of the present that nothing has examined yet: retries, released jobs, and those of programs that
//! know no line. Jobs behind others of their session and jobs that wait for their start are *held*, and are not looked at.
//! So the cost of a claim grows neither with the jobs in line nor with those that wait.

use loopwright_core::Timestamp;
use loopwright_sessions::{ClaimRequest, ClaimedJob, JobId, JobLabels};

use crate::{
    database::Transaction,
    error::Failure,
    jobs,
    row::{Value, values},
};

/// The most jobs that enter the line with one claim.
pub(crate) const MAX_ENTERING: usize = 256;
/// The numbers of jobs that one statement lets enter the line. The database prepares each statement once.
const AT_ONCE: [usize; 4] = [MAX_ENTERING, 16, 4, 1];
/// The number of jobs that are found at once, because others may claim the first ones.
const FOUND: usize = 16;
/// The most attempts of one claim, if jobs in line turn out to be unable to run.
const MAX_ATTEMPTS: usize = 8;

/// Returns the end of a query that locks the rows it finds, and skips those that another transaction has locked.
fn skip_locked(transaction: &dyn Transaction) -> String {
    let lock = transaction.for_update();
    if lock.is_empty() { String::new() } else { format!("{lock} SKIP LOCKED") }
}

/// Returns the condition for a job `j` of whose session no job runs and none comes before.
fn is_next(transaction: &dyn Transaction) -> String {
    let in_order = transaction.indexed_by("jobs_in_order");
    let running = transaction.indexed_by("jobs_running_by_session");
    format!(
        "(j.number = (
            SELECT e.number FROM jobs e{in_order} WHERE e.session = j.session
                AND e.status IN ('queued', 'running') AND (e.held IS NULL OR e.held = 1)
            ORDER BY e.number LIMIT 1
        ) AND NOT EXISTS (
            SELECT 1 FROM jobs r{running} WHERE r.session = j.session AND r.status = 'running'
        ))"
    )
}

/// Returns the statement that finds what the jobs in line need: each set of labels, with one step in the index.
fn needs_in_line(transaction: &dyn Transaction) -> String {
    let by = transaction.indexed_by("jobs_in_line");
    format!(
        "WITH RECURSIVE found (needs) AS (
            SELECT MIN(j.needs) FROM jobs j{by} WHERE j.status = 'queued' AND j.turn IS NOT NULL
            UNION ALL
            SELECT (
                SELECT MIN(n.needs) FROM jobs n{by}
                WHERE n.status = 'queued' AND n.turn IS NOT NULL AND n.needs > f.needs
            ) FROM found f WHERE f.needs IS NOT NULL
        )
        SELECT needs FROM found WHERE needs IS NOT NULL"
    )
}

/// Returns the query for the first jobs in line with these needs, the first of which is the parameter `first`.
fn first_in_line(transaction: &dyn Transaction, first: usize, sets: usize) -> String {
    let by = transaction.indexed_by("jobs_in_line");
    let of_set = |set: usize| {
        format!(
            "SELECT * FROM (
                SELECT l.number, l.priority, l.turn FROM jobs l{by}
                WHERE l.status = 'queued' AND l.turn IS NOT NULL AND l.needs = ${}
                ORDER BY l.priority DESC, l.turn, l.number LIMIT {FOUND}
            ) AS n{set}",
            first + set
        )
    };
    let all = (0..sets).map(of_set).collect::<Vec<_>>().join(" UNION ALL ");
    format!(
        "SELECT c.number FROM ({all}) AS c ORDER BY c.priority DESC, c.turn, c.number LIMIT {FOUND}"
    )
}

/// Returns the statement that claims the first job in line with one of so many sets of needs.
fn take(transaction: &dyn Transaction, sets: usize) -> String {
    let (first, is_next) = (first_in_line(transaction, 5, sets), is_next(transaction));
    let (skip, columns) = (skip_locked(transaction), jobs::CLAIMED);
    format!(
        "UPDATE jobs SET status = 'running', claims = claims + 1, owner = $1, until = $2,
            updated_at = $3, turn = NULL, held = NULL
        WHERE number = (
            SELECT j.number FROM jobs j WHERE j.number IN ({first})
                AND j.status = 'queued' AND j.turn IS NOT NULL AND j.ready_at <= $4 AND {is_next}
            ORDER BY j.priority DESC, j.turn, j.number LIMIT 1{skip}
        )
        RETURNING {columns}"
    )
}

/// Returns the statement that takes jobs out of the line that cannot run: their time has not come, or another job of the
/// session comes first by now.
fn leave(transaction: &dyn Transaction, sets: usize) -> String {
    let (first, is_next) = (first_in_line(transaction, 2, sets), is_next(transaction));
    let skip = skip_locked(transaction);
    format!(
        "UPDATE jobs SET turn = NULL WHERE number IN (
            SELECT j.number FROM jobs j WHERE j.number IN ({first})
                AND j.status = 'queued' AND (j.ready_at > $1 OR NOT {is_next}){skip}
        )"
    )
}

/// Returns the queries for the jobs whose claims have expired, whose start has come, and that no claim has examined yet.
fn due(transaction: &dyn Transaction) -> [String; 3] {
    let by = |index| transaction.indexed_by(index);
    let (running, delayed, before) =
        (by("jobs_running"), by("jobs_delayed"), by("jobs_before_line"));
    [
        format!(
            "SELECT j.number FROM jobs j{running} WHERE j.status = 'running' AND j.until <= $1
            ORDER BY j.until LIMIT {MAX_ENTERING}"
        ),
        format!(
            "SELECT j.number FROM jobs j{delayed} WHERE j.held = 2 AND j.ready_at <= $1
            ORDER BY j.ready_at LIMIT {MAX_ENTERING}"
        ),
        format!(
            "SELECT j.number FROM jobs j{before}
            WHERE j.status = 'queued' AND j.turn IS NULL AND j.held IS NULL AND j.ready_at <= $1
            ORDER BY j.ready_at, j.number LIMIT {MAX_ENTERING}"
        ),
    ]
}

/// Returns the statement that finds what the jobs in line need, with one `NULL` if there are jobs that a claim examines first.
fn ready(transaction: &dyn Transaction) -> String {
    let due = due(transaction).map(|sql| format!("EXISTS ({sql})")).join(" OR ");
    let needs = needs_in_line(transaction);
    format!(
        "SELECT CAST(NULL AS TEXT) AS needs WHERE {due} UNION ALL SELECT w.needs FROM ({needs}) AS w"
    )
}

/// Returns `true` if a claim would change anything.
pub(crate) async fn has_ready(
    transaction: &mut dyn Transaction,
    labels: &JobLabels,
    now: Timestamp,
) -> Result<bool, Failure> {
    let clock = transaction.clock(now).await?;
    for mut row in transaction.rows(&ready(transaction), values![clock]).await? {
        if row.maybe_text(0)?.is_none_or(|needs| covers(labels, &needs)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Implements [`JobQueue::claim`](loopwright_sessions::JobQueue::claim).
pub(crate) async fn claim(
    transaction: &mut dyn Transaction,
    request: ClaimRequest<'_>,
) -> Result<Option<ClaimedJob>, Failure> {
    let clock = transaction.clock(request.now).await?;
    let [expired, started, _] = due(transaction);
    let skip = skip_locked(transaction);
    let sql = format!(
        "UPDATE jobs SET status = 'queued', owner = NULL, ready_at = $1, updated_at = $2,
            crashes = crashes + 1, turn = NULL
        WHERE number IN ({expired}{skip})"
    );
    transaction.run_later(&sql, values![clock, request.now]).await?;
    let sql = format!("UPDATE jobs SET held = NULL WHERE number IN ({started}{skip})");
    transaction.run_later(&sql, values![clock]).await?;
    for _ in 0..MAX_ATTEMPTS {
        enter_due(transaction, clock).await?;
        let needs = covered(transaction, request.labels).await?;
        if needs.is_empty() {
            return Ok(None);
        }
        let sets = || needs.iter().map(|it| Value::from(&**it));
        let mut values =
            values![request.owner, clock.plus(request.ttl), request.now, clock].to_vec();
        values.extend(sets());
        let sql = take(transaction, needs.len());
        if let Some(mut row) = transaction.row(&sql, &values).await? {
            return jobs::claimed(&mut row).map(Some);
        }
        let sql = leave(transaction, needs.len());
        let values: Vec<_> = std::iter::once(clock.into()).chain(sets()).collect();
        if transaction.run(&sql, &values).await? == 0 {
            return Ok(None);
        }
    }
    Ok(None)
}

/// Implements [`JobQueue::claim_job`](loopwright_sessions::JobQueue::claim_job).
pub(crate) async fn claim_job(
    transaction: &mut dyn Transaction,
    id: &JobId,
    request: ClaimRequest<'_>,
) -> Result<Option<ClaimedJob>, Failure> {
    let clock = transaction.clock(request.now).await?;
    let columns = jobs::CLAIMED;
    let sql = format!(
        "UPDATE jobs SET crashes = crashes + CASE WHEN status = 'running' THEN 1 ELSE 0 END,
            status = 'running', claims = claims + 1, owner = $1, until = $2, updated_at = $3,
            turn = NULL, held = NULL
        WHERE id = $4 AND (
            status IN ('queued', 'needs_input') AND ready_at <= $5
            OR status = 'running' AND until <= $5
        )
        RETURNING {columns}"
    );
    let (owner, until) = (request.owner, clock.plus(request.ttl));
    let values = values![owner, until, request.now, id.as_str(), clock];
    let row = transaction.row(&sql, values).await?;
    row.map(|mut row| jobs::claimed(&mut row)).transpose()
}

/// Returns the needs of jobs in line that a worker covers, as they are stored.
async fn covered(
    transaction: &mut dyn Transaction,
    labels: &JobLabels,
) -> Result<Vec<String>, Failure> {
    let sql = needs_in_line(transaction);
    let mut covered = Vec::new();
    for mut row in transaction.rows(&sql, &[]).await? {
        let needs = row.text(0)?;
        if covers(labels, &needs) {
            covered.push(needs);
        }
    }
    Ok(covered)
}

/// Returns `true` if a worker with these labels covers stored needs. No worker covers damaged ones.
pub(crate) fn covers(labels: &JobLabels, needs: &str) -> bool {
    needs.parse::<JobLabels>().is_ok_and(|needs| labels.covers(&needs))
}

/// Returns the query for the jobs that no claim has examined yet, and whether each is the next one of its session.
fn examining(transaction: &dyn Transaction) -> String {
    let ([_, _, before], is_next) = (due(transaction), is_next(transaction));
    let is_next = format!("CASE WHEN {is_next} THEN 1 ELSE 0 END");
    before.replacen("SELECT j.number", &format!("SELECT j.number, j.session, {is_next}"), 1)
}

/// Lets jobs of the present enter the line, and puts those behind that are not the next ones of their sessions.
async fn enter_due(transaction: &mut dyn Transaction, clock: Timestamp) -> Result<(), Failure> {
    let (sql, is_next) = (examining(transaction), is_next(transaction));
    let (mut next, mut later) = (Vec::new(), Vec::new());
    for mut row in transaction.rows(&sql, values![clock]).await? {
        let (number, session) = (row.int(0)?, row.int(1)?);
        if row.int(2)? == 1 { next.push(number) } else { later.push((number, session)) }
    }
    enter(transaction, &next, clock).await?;
    for (number, session) in later {
        // The lock keeps the job before it from ending unnoticed.
        let skip = skip_locked(transaction);
        let sql = format!("SELECT key FROM sessions WHERE key = $1{skip}");
        if transaction.row(&sql, values![session]).await?.is_some() {
            let sql = format!(
                "UPDATE jobs AS j SET held = 1 WHERE j.number = $1 AND j.status = 'queued'
                    AND j.turn IS NULL AND j.held IS NULL AND NOT {is_next}"
            );
            transaction.run(&sql, values![number]).await?;
        }
    }
    Ok(())
}

/// Lets queued jobs enter the line whose time has come.
pub(crate) async fn enter(
    transaction: &mut dyn Transaction,
    jobs: &[i64],
    clock: Timestamp,
) -> Result<(), Failure> {
    let mut rest = jobs;
    while let Some(count) = AT_ONCE.into_iter().find(|it| *it <= rest.len()) {
        let (entering, later) = rest.split_at(count);
        let sql = self::entering(transaction, count);
        let jobs = entering.iter().map(|it| Value::from(*it));
        let values: Vec<_> = std::iter::once(clock.into()).chain(jobs).collect();
        transaction.run_later(&sql, &values).await?;
        rest = later;
    }
    Ok(())
}

/// Returns the statement that lets so many jobs enter the line.
fn entering(transaction: &dyn Transaction, jobs: usize) -> String {
    let by = transaction.indexed_by("jobs_in_line");
    let by_principal = transaction.indexed_by("jobs_in_line_by_principal");
    let skip = skip_locked(transaction);
    let numbers = (0..jobs).map(|job| format!("${}", job + 2)).collect::<Vec<_>>().join(", ");
    let first = format!(
        "SELECT l.turn FROM jobs l{by} WHERE l.status = 'queued' AND l.turn IS NOT NULL
            AND l.needs = d.needs AND l.priority = d.priority ORDER BY l.turn LIMIT 1"
    );
    let last = format!(
        "SELECT n.turn FROM jobs n{by_principal} WHERE n.status = 'queued' AND n.turn IS NOT NULL
            AND n.needs = d.needs AND n.priority = d.priority AND n.principal = d.principal
        ORDER BY n.turn DESC LIMIT 1"
    );
    format!(
        "UPDATE jobs SET needs = p.needs, priority = p.priority, principal = p.principal,
            turn = p.turn
        FROM (
            SELECT d.number, d.needs, d.priority, d.principal,
                CASE WHEN d.claims > d.attempts THEN COALESCE(({first}), 0)
                ELSE COALESCE(({last}) + 1, ({first}), 0) + ROW_NUMBER() OVER (
                    PARTITION BY d.needs, d.priority, d.principal ORDER BY d.number
                ) - 1 END AS turn
            FROM (
                SELECT j.number, COALESCE(j.needs, '') AS needs, COALESCE(j.priority, 0) AS priority,
                    COALESCE(j.principal, '') AS principal, j.claims, j.attempts
                FROM jobs j WHERE j.number IN ({numbers}) AND j.status = 'queued'
                    AND j.turn IS NULL AND j.held IS NULL AND j.ready_at <= $1{skip}
            ) AS d
        ) AS p
        WHERE jobs.number = p.number"
    )
}

/// Returns the statements of a claim, for a look at how a database runs them.
#[cfg(all(test, feature = "sqlite"))]
pub(crate) fn statements(transaction: &dyn Transaction) -> Vec<String> {
    let mut statements = due(transaction).to_vec();
    statements.extend([ready(transaction), examining(transaction), entering(transaction, 4)]);
    statements.push(needs_in_line(transaction));
    statements.extend([1, 3].map(|sets| take(transaction, sets)));
    statements.push(leave(transaction, 2));
    statements
}
