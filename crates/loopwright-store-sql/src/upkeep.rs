//! Freeing space, and looking for damage.

use loopwright_sessions::{Finding, Reclaimed, SessionId, StoreError};

use crate::{
    database::Transaction,
    error::Failure,
    head::Head,
    loading::{Stored, read},
    row::values,
    writing::go_back,
};

/// Does what [`SessionStore::reclaim`](loopwright_sessions::SessionStore::reclaim) says.
pub(crate) async fn reclaim(
    transaction: &mut dyn Transaction,
    abandoned: bool,
) -> Result<Reclaimed, Failure> {
    transaction.stop_writers().await?;
    // How much is needed of each line, for the sessions that can be loaded.
    transaction
        .script(
            "CREATE TEMPORARY TABLE needed (session BIGINT, line BIGINT, until BIGINT,
                PRIMARY KEY (session, line));
            INSERT INTO needed
            WITH RECURSIVE reach (session, line, until) AS (
                SELECT key, line, length FROM sessions WHERE status <> 'deleted'
                UNION
                SELECT l.from_session, l.from_line,
                    CASE WHEN l.at < r.until THEN l.at ELSE r.until END
                FROM reach r JOIN lines l ON l.session = r.session AND l.line = r.line
                WHERE l.from_session IS NOT NULL
            )
            SELECT session, line, MAX(until) FROM reach GROUP BY session, line;",
        )
        .await?;
    let sql = "
        DELETE FROM batches
        WHERE ($1 = 1 OR session IN (SELECT key FROM sessions WHERE status = 'deleted'))
            AND NOT EXISTS (
                SELECT 1 FROM needed n
                WHERE n.session = batches.session AND n.line = batches.line AND n.until > batches.first
            )";
    let batches = transaction.run(sql, values![i64::from(abandoned)]).await?;
    let bare = "
        session IN (SELECT key FROM sessions WHERE status = 'deleted')
            AND session NOT IN (SELECT session FROM needed)";
    transaction.run(&format!("DELETE FROM notes WHERE {bare}"), &[]).await?;
    let sessions = transaction.run(&format!("DELETE FROM definitions WHERE {bare}"), &[]).await?;
    transaction.script("DROP TABLE needed").await?;
    Ok(Reclaimed { sessions, batches })
}

/// Returns the names of all sessions that can be loaded, those first that were there first.
pub(crate) async fn names(transaction: &mut dyn Transaction) -> Result<Vec<String>, Failure> {
    let sql = "SELECT id FROM sessions WHERE status <> 'deleted' ORDER BY key";
    let rows = transaction.rows(sql, &[]).await?;
    rows.into_iter().map(|mut row| row.text(0)).collect()
}

/// What was found out about a session.
#[derive(Debug)]
pub(crate) enum Health {
    /// It is in order, or it is gone.
    Good,
    /// So many of its changes can be read.
    Part(u64, StoreError),
    /// It cannot be read, and there is nothing to do about it.
    Bad(StoreError),
}

/// Looks whether a session can be loaded.
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

/// Makes a session go on from what can be read of it. Nothing of it is deleted. It is suspended: calls
/// that are not on record any more may have taken effect, so somebody has to decide that it goes on.
pub(crate) async fn go_on_from(
    transaction: &mut dyn Transaction,
    id: &SessionId,
    readable: u64,
) -> Result<(), Failure> {
    let head = Head::locked(transaction, id).await?;
    go_back(transaction, id, &head, readable, head.updated_at).await?;
    let sql = "UPDATE sessions SET status = 'suspended' WHERE key = $1 AND status = 'active'";
    transaction.run(sql, values![head.key]).await?;
    Ok(())
}

/// Says what was found out about a session.
pub(crate) fn finding(id: &SessionId, error: &StoreError, repaired: Option<String>) -> Finding {
    let problem = match error {
        StoreError::Corrupt { reason, .. } => reason.clone(),
        error => error.to_string(),
    };
    Finding { session: Some(id.clone()), problem, repaired }
}
