//! Logs beside the changes of a session.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures::future::{Either, select};
use loopwright_core::Clock;
use loopwright_sessions::{LogEntry, SessionId, SessionLog};
use tokio::sync::broadcast::error::RecvError;

use crate::{
    database::{LogNotification, Transaction},
    error::Failure,
    head::SessionRow,
    row::values,
};

/// The polling interval of log entries without notifications.
const LOOKS: Duration = Duration::from_millis(100);
/// The polling interval with notifications.
const LOOKS_TOLD: Duration = Duration::from_secs(2);

/// Implements [`SessionStore::note`](loopwright_sessions::SessionStore::note). Also returns the session's key.
pub(crate) async fn note(
    transaction: &mut dyn Transaction,
    id: &SessionId,
    log: SessionLog,
    notes: &[Arc<[u8]>],
    keep: Option<u64>,
) -> Result<(i64, u64), Failure> {
    let (key, log_name) = (SessionRow::locked(transaction, id).await?.key, log.as_str());
    let sql = "SELECT MAX(number) FROM log_entries WHERE session = $1 AND log = $2";
    let row = transaction.row(sql, values![key, log_name]).await?;
    let mut last = match row {
        Some(mut row) => row.maybe_int(0)?.unwrap_or_default(),
        None => 0,
    };
    for body in notes {
        last += 1;
        let sql = "INSERT INTO log_entries (session, log, number, body) VALUES ($1, $2, $3, $4)";
        transaction.run(sql, values![key, log_name, last, &**body]).await?;
    }
    if let Some(keep) = keep {
        let until = last.saturating_sub_unsigned(keep.max(1));
        let sql = "DELETE FROM log_entries WHERE session = $1 AND log = $2 AND number <= $3";
        transaction.run(sql, values![key, log_name, until]).await?;
    }
    if !notes.is_empty() {
        transaction.tell(&news_of(id, log)).await?;
    }
    let number = u64::try_from(last);
    Ok((key, number.map_err(|_| Failure::Form(format!("a note has the number {last}")))?))
}

/// Implements [`SessionStore::read_log`](loopwright_sessions::SessionStore::read_log).
pub(crate) async fn notes(
    transaction: &mut dyn Transaction,
    id: &SessionId,
    log: SessionLog,
    after: u64,
    limit: usize,
) -> Result<Vec<LogEntry>, Failure> {
    let sql = "
        SELECT n.number, n.body FROM sessions s JOIN log_entries n ON n.session = s.key
        WHERE s.id = $1 AND s.status <> 'deleted' AND n.log = $2 AND n.number > $3
        ORDER BY n.number LIMIT $4";
    let rows = transaction.rows(sql, values![id.as_str(), log.as_str(), after, limit]).await?;
    let note = |mut row: crate::row::Row| {
        Ok(LogEntry { number: row.number(0)?, body: row.bytes(1)?.into() })
    };
    rows.into_iter().map(note).collect()
}

/// Returns the notification that a log has new entries.
fn news_of(id: &SessionId, log: SessionLog) -> String {
    format!("{id}/{}", log.as_str())
}

/// Waits until a log may have new entries, or until it is time to poll.
pub(crate) async fn hear(
    news: Option<&mut LogNotification>,
    id: &SessionId,
    log: SessionLog,
    clock: &dyn Clock,
    at_most: Duration,
) {
    let Some(LogNotification { heard, is_on }) = news else {
        return clock.sleep(at_most.min(LOOKS)).await;
    };
    let looks = if is_on.load(Ordering::Relaxed) { LOOKS_TOLD } else { LOOKS };
    let wanted = news_of(id, log);
    let told = async {
        loop {
            match heard.recv().await {
                Ok(name) if name.is_empty() || *name == *wanted => return,
                Ok(_) => {}
                Err(RecvError::Lagged(_)) => return,
                Err(RecvError::Closed) => return std::future::pending().await,
            }
        }
    };
    match select(Box::pin(told), clock.sleep(at_most.min(looks))).await {
        Either::Left(_) | Either::Right(_) => {}
    }
}
