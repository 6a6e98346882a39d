//! Freeing space, and finding damage.

use loopwright_agent::AgentDefinition;
use loopwright_sessions::{
    Finding, ReclaimStats, SessionId, SessionStatus, StoreError,
    stored::{checksum, decode, encode},
};

use crate::{
    database::Transaction,
    error::Failure,
    head::{SessionRow, session_id},
    loading::{Stored, read},
    row::{Row, values},
    seal::{SEALED, Sealed, seal},
    writing::go_back,
};

/// Implements [`SessionStore::reclaim`](loopwright_sessions::SessionStore::reclaim).
pub(crate) async fn reclaim(
    transaction: &mut dyn Transaction,
    abandoned: bool,
) -> Result<ReclaimStats, Failure> {
    transaction.stop_writers().await?;
    // The required length of each branch, for the sessions that can be loaded.
    transaction
        .script(
            "CREATE TEMPORARY TABLE needed (session BIGINT, branch BIGINT, until BIGINT,
                PRIMARY KEY (session, branch));
            INSERT INTO needed
            WITH RECURSIVE reach (session, branch, until) AS (
                SELECT key, branch, length FROM sessions WHERE status <> 'deleted'
                UNION
                SELECT l.from_session, l.from_branch,
                    CASE WHEN l.at < r.until THEN l.at ELSE r.until END
                FROM reach r JOIN branches l ON l.session = r.session AND l.branch = r.branch
                WHERE l.from_session IS NOT NULL
            )
            SELECT session, branch, MAX(until) FROM reach GROUP BY session, branch;",
        )
        .await?;
    let sql = "
        DELETE FROM batches
        WHERE ($1 = 1 OR session IN (SELECT key FROM sessions WHERE status = 'deleted'))
            AND NOT EXISTS (
                SELECT 1 FROM needed n
                WHERE n.session = batches.session AND n.branch = batches.branch AND n.until > batches.first
            )";
    let batches = transaction.run(sql, values![i64::from(abandoned)]).await?;
    let bare = "
        session IN (SELECT key FROM sessions WHERE status = 'deleted')
            AND session NOT IN (SELECT session FROM needed)";
    transaction.run(&format!("DELETE FROM log_entries WHERE {bare}"), &[]).await?;
    transaction.run(&format!("DELETE FROM recorded_spend WHERE {bare}"), &[]).await?;
    let sessions = transaction.run(&format!("DELETE FROM definitions WHERE {bare}"), &[]).await?;
    transaction.script("DROP TABLE needed").await?;
    Ok(ReclaimStats { sessions, batches })
}

/// A session to check.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) key: i64,
    /// The ID, or the reason why it cannot be read.
    pub(crate) id: Result<SessionId, Failure>,
    /// The damage to a row that claims that the session was deleted.
    pub(crate) deleted: Option<Failure>,
}

/// Returns all sessions that can be loaded, and those whose row wrongly claims that they were deleted, oldest
/// first.
pub(crate) async fn names(transaction: &mut dyn Transaction) -> Result<Vec<Named>, Failure> {
    let sql = format!("SELECT key, sum, {SEALED} FROM sessions ORDER BY key");
    let mut names = Vec::new();
    let mut take = |mut row: Row| {
        let (key, sum) = (row.int(0)?, row.maybe_int(1));
        let sealed = Sealed::split_off(&mut row, 2);
        let mut covered = sealed.row();
        let is_deleted = covered.text(2).is_ok_and(|it| it == SessionStatus::Deleted.as_str());
        let deleted = sum.and_then(|sum| sealed.check(sum)).err().filter(|_| is_deleted);
        if !is_deleted || deleted.is_some() {
            names.push(Named { key, id: covered.text(0).and_then(session_id), deleted });
        }
        Ok(())
    };
    transaction.each(&sql, &[], &mut take).await?;
    Ok(names)
}

/// The text columns of a session's row, with the replacements for damaged values.
const TEXTS: [(&str, Option<&str>); 7] = [
    ("parent", None),
    ("call", None),
    ("workdir", None),
    ("title", None),
    ("missing", None),
    ("agent_name", Some("unknown")),
    ("agent_label", Some("unknown")),
];

/// The repair of a session's row.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Restored {
    /// None: the row is intact.
    Nothing,
    /// These columns contained no valid text or status.
    Columns(Vec<&'static str>),
    /// A column was altered.
    Altered,
    /// A column was altered, and nothing else of the session is left, so it stays deleted.
    Deleted,
}

/// Repairs the row of a session: columns without a valid text or status, and its checksum. The session is
/// suspended.
pub(crate) async fn restore_row(
    transaction: &mut dyn Transaction,
    key: i64,
) -> Result<Restored, Failure> {
    let is_altered = is_altered(transaction, key).await?;
    let columns = restore_columns(transaction, key).await?;
    if columns.is_empty() && !is_altered {
        return Ok(Restored::Nothing);
    }
    let agent = "SELECT session FROM definitions WHERE session = $1";
    let is_gone = transaction.row(agent, values![key]).await?.is_none();
    let status = "SELECT key FROM sessions WHERE key = $1 AND status = 'deleted'";
    let is_deleted = is_gone && transaction.row(status, values![key]).await?.is_some();
    if !is_deleted {
        // A session never returns to an earlier branch, so the latest branch is the current one.
        let sql = "UPDATE sessions SET status = 'suspended',
                branch = COALESCE((SELECT MAX(branch) FROM branches WHERE session = $1), branch)
            WHERE key = $1";
        transaction.run(sql, values![key]).await?;
        let sql = "UPDATE sessions SET length = (SELECT MAX(first + count) FROM batches b
                WHERE b.session = sessions.key AND b.branch = sessions.branch)
            WHERE key = $1 AND length < (SELECT MAX(first + count) FROM batches b
                WHERE b.session = sessions.key AND b.branch = sessions.branch)";
        transaction.run(sql, values![key]).await?;
    }
    seal(transaction, &[key]).await?;
    Ok(match (is_deleted, columns) {
        (true, _) => Restored::Deleted,
        (false, columns) if columns.is_empty() => Restored::Altered,
        (false, columns) => Restored::Columns(columns),
    })
}

/// Returns `true` if the row of a session does not match its checksum.
async fn is_altered(transaction: &mut dyn Transaction, key: i64) -> Result<bool, Failure> {
    let sql = format!("SELECT sum, {SEALED} FROM sessions WHERE key = $1");
    let Some(mut row) = transaction.row(&sql, values![key]).await? else { return Ok(false) };
    let sealed = Sealed::split_off(&mut row, 1);
    Ok(row.maybe_int(0).and_then(|sum| sealed.check(sum)).is_err())
}

async fn restore_columns(
    transaction: &mut dyn Transaction,
    key: i64,
) -> Result<Vec<&'static str>, Failure> {
    let mut restored = Vec::new();
    for (column, instead) in TEXTS {
        let sql = format!("SELECT {column} FROM sessions WHERE key = $1");
        let Some(mut row) = transaction.row(&sql, values![key]).await? else { continue };
        let is_sound = match (column, row.maybe_text(0)) {
            ("parent", Ok(Some(parent))) => session_id(parent).is_ok(),
            (_, Ok(text)) => text.is_some() || instead.is_none(),
            (_, Err(_)) => false,
        };
        if !is_sound {
            let sql = format!("UPDATE sessions SET {column} = $1 WHERE key = $2");
            transaction.run(&sql, values![instead, key]).await?;
            restored.push(column);
        }
    }
    let row = transaction.row("SELECT status FROM sessions WHERE key = $1", values![key]).await?;
    let status = row.and_then(|mut row| row.text(0).ok());
    if status.and_then(|it| SessionStatus::named(&it)).is_none() {
        restored.push("status");
    }
    Ok(restored)
}

/// The beginning of a loss that was found when the database was opened.
pub(crate) const DAMAGED: &str = "the `-wal` file that the database needs is damaged: ";

/// Returns the sessions that lost acknowledged writes, with their losses.
pub(crate) async fn losses(
    transaction: &mut dyn Transaction,
) -> Result<Vec<(i64, SessionId, String)>, Failure> {
    let sql = "SELECT key, id, missing FROM sessions
        WHERE missing LIKE $1 || '%' AND status <> 'deleted' ORDER BY key";
    let rows = transaction.rows(sql, values![DAMAGED]).await?;
    let loss =
        |mut row: crate::row::Row| Ok((row.int(0)?, session_id(row.text(1)?)?, row.text(2)?));
    rows.into_iter().map(loss).collect()
}

/// Stops reporting the loss of a session.
pub(crate) async fn accept_loss(
    transaction: &mut dyn Transaction,
    key: i64,
) -> Result<(), Failure> {
    transaction.run("UPDATE sessions SET missing = NULL WHERE key = $1", values![key]).await?;
    seal(transaction, &[key]).await
}

/// Replaces a damaged or missing definition of an agent, and returns a description of the replacement. The session
/// is suspended.
pub(crate) async fn restore_definition(
    transaction: &mut dyn Transaction,
    id: &SessionId,
    key: i64,
) -> Result<Option<&'static str>, Failure> {
    let is_sound = |row: &mut Row| -> Option<Vec<u8>> {
        let (body, sum) = (row.bytes(0).ok()?, row.maybe_int(1).ok()?);
        let is_whole = sum.is_none_or(|it| it == i64::from(checksum(&body)));
        (is_whole && decode::<AgentDefinition>(id, &body).is_ok()).then_some(body)
    };
    let own = "SELECT body, sum FROM definitions WHERE session = $1";
    let own = transaction.row(own, values![key]).await?;
    if own.is_some_and(|mut row| is_sound(&mut row).is_some()) {
        return Ok(None);
    }
    let others = "SELECT d.body, d.sum, s.agent_name
        FROM sessions s LEFT JOIN sessions o ON o.agent_name = s.agent_name AND o.key <> s.key
        LEFT JOIN definitions d ON d.session = o.key
        WHERE s.key = $1 ORDER BY o.updated_at DESC LIMIT 9";
    let mut others = transaction.rows(others, values![key]).await?;
    let name = others.first_mut().and_then(|row| row.text(2).ok());
    let (body, what) = if let Some(body) = others.iter_mut().find_map(is_sound) {
        (body, "the agent of the same name from another session")
    } else {
        let name = name.unwrap_or_else(|| "unknown".to_owned());
        let plain = AgentDefinition::new(&*name, &*name, "");
        (encode(id, &plain)?, "an agent without instructions")
    };
    transaction.run("DELETE FROM definitions WHERE session = $1", values![key]).await?;
    let sql = "INSERT INTO definitions (session, body, sum) VALUES ($1, $2, $3)";
    transaction.run(sql, values![key, &*body, checksum(&body)]).await?;
    let sql = "UPDATE sessions SET status = 'suspended' WHERE key = $1 AND status = 'active'";
    transaction.run(sql, values![key]).await?;
    seal(transaction, &[key]).await?;
    Ok(Some(what))
}

/// Gives a session a new ID if its own is damaged. The session is suspended.
pub(crate) async fn rename(transaction: &mut dyn Transaction, key: i64) -> Result<String, Failure> {
    let name = format!("salvaged-{key}");
    let sql = "UPDATE sessions SET id = $1, status = $2 WHERE key = $3";
    let suspended = SessionStatus::Suspended.as_str();
    transaction.run(sql, values![&*name, suspended, key]).await?;
    seal(transaction, &[key]).await?;
    Ok(name)
}

/// The state of a session.
#[derive(Debug)]
pub(crate) enum Health {
    /// It is intact, or it does not exist.
    Good,
    /// Only this number of its changes can be read.
    Part(u64, StoreError),
    /// It can be neither read nor repaired.
    Bad(StoreError),
}

/// Checks whether a session can be loaded.
pub(crate) async fn look(transaction: &mut dyn Transaction, id: &SessionId) -> Health {
    let stored = match read(transaction, id).await {
        Ok(None) => return Health::Good,
        Ok(Some(stored)) => stored,
        Err(error) => return Health::Bad(error.of(id)),
    };
    let (readable, length) = (stored.readable(), stored.header.length);
    match Stored::decode(stored) {
        Ok(_) => Health::Good,
        Err(error) if readable < length => Health::Part(readable, error),
        Err(error) => Health::Bad(error),
    }
}

/// Makes a session continue from its readable changes. Deletes none of its data. The session is suspended: lost
/// calls may have taken effect, so a user has to decide whether it continues.
pub(crate) async fn go_on_from(
    transaction: &mut dyn Transaction,
    id: &SessionId,
    readable: u64,
    problem: &str,
) -> Result<(), Failure> {
    let head = SessionRow::locked(transaction, id).await?;
    go_back(transaction, id, &head, readable, head.updated_at).await?;
    let sql = "UPDATE sessions SET status = 'suspended' WHERE key = $1 AND status = 'active'";
    transaction.run(sql, values![head.key]).await?;
    let missing = format!("the changes after the first {readable} are missing: {problem}");
    let sql = "UPDATE sessions SET missing = $1 WHERE key = $2";
    transaction.run(sql, values![&*missing, head.key]).await?;
    seal(transaction, &[head.key]).await
}

/// Returns the finding about a session.
pub(crate) fn finding(id: &SessionId, error: &StoreError, repaired: Option<String>) -> Finding {
    let problem = match error {
        StoreError::Corrupt { reason, .. } => reason.clone(),
        error => error.to_string(),
    };
    Finding { session: Some(id.clone()), problem, repaired }
}
