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
    row::{Value, values},
};

/// The polling interval of log entries while notifications are unavailable.
const LOOKS: Duration = Duration::from_millis(100);
/// The polling interval with notifications.
const LOOKS_TOLD: Duration = Duration::from_secs(2);

/// The numbers of entries that one statement adds. The database prepares each statement once.
const AT_ONCE: [usize; 4] = [128, 16, 4, 1];

/// Of a log with at least this limit, old entries are deleted once in as many entries.
const TRIM_STEP: i64 = 64;

/// The most bytes of several entries that one statement adds.
const MAX_BYTES: usize = 1 << 20;

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
    let mut rest = notes;
    while let Some(count) = AT_ONCE.into_iter().find(|it| fits(*it, rest)) {
        let (added, later) = rest.split_at(count);
        let mut values = values![key, log_name].to_vec();
        for body in added {
            last += 1;
            values.extend([Value::from(last), Value::from(&**body)]);
        }
        transaction.run(&insertion(count), &values).await?;
        rest = later;
    }
    if let Some(keep) = keep
        && is_trimmed(keep, last, notes.len())
    {
        let until = last.saturating_sub_unsigned(keep.max(1));
        let sql = "DELETE FROM log_entries WHERE session = $1 AND log = $2 AND number <= $3";
        transaction.run(sql, values![key, log_name, until]).await?;
    }
    if !notes.is_empty() {
        transaction.tell(&news_of(id, log)).await?;
    }
    let number = u64::try_from(last);
    Ok((key, number.map_err(|_| Failure::Form(format!("a note has the invalid number {last}")))?))
}

/// Returns `true` if it is time to delete old entries, after so many were added: not after each one, because that costs as much
/// as adding it.
fn is_trimmed(keep: u64, last: i64, added: usize) -> bool {
    let before = last.saturating_sub_unsigned(added as u64);
    keep < TRIM_STEP.unsigned_abs() || before / TRIM_STEP != last / TRIM_STEP
}

/// Returns `true` if one statement can add so many entries.
fn fits(count: usize, entries: &[Arc<[u8]>]) -> bool {
    let size = |entries: &[Arc<[u8]>]| entries.iter().map(|it| it.len()).sum::<usize>();
    entries.get(..count).is_some_and(|it| count == 1 || size(it) <= MAX_BYTES)
}

/// Returns the statement that adds entries. Its parameters are the session, the log, and number and body of each.
fn insertion(entries: usize) -> String {
    let row = |entry: usize| format!("($1, $2, ${}, ${})", 2 * entry + 3, 2 * entry + 4);
    let rows: Vec<String> = (0..entries).map(row).collect();
    format!("INSERT INTO log_entries (session, log, number, body) VALUES {}", rows.join(", "))
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

/// Returns the notification that a log has new entries, or belongs to a deleted session.
fn news_of(id: &SessionId, log: SessionLog) -> String {
    format!("{id}/{}", log.as_str())
}

/// Notifies the readers of a session that is deleted.
pub(crate) async fn tell_deleted(
    transaction: &mut dyn Transaction,
    id: &SessionId,
) -> Result<(), Failure> {
    for log in SessionLog::ALL {
        transaction.tell(&news_of(id, *log)).await?;
    }
    Ok(())
}

/// Waits until a log may have new entries, or until it is time to poll. Returns `true` if a notification came.
pub(crate) async fn hear(
    news: &mut LogNotification,
    id: &SessionId,
    log: SessionLog,
    clock: &dyn Clock,
    at_most: Duration,
) -> bool {
    let LogNotification { heard, is_on } = news;
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
    matches!(select(Box::pin(told), clock.sleep(at_most.min(looks))).await, Either::Left(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_entries_are_deleted_once_in_a_step_unless_few_are_kept() {
        let times = |keep| (1..=200).filter(|last| is_trimmed(keep, *last, 1)).count();
        assert_eq!([times(1), times(63), times(64), times(10_000)], [200, 200, 3, 3]);
        assert!(is_trimmed(10_000, 70, 7) && !is_trimmed(10_000, 70, 6));
    }

    #[test]
    fn one_statement_adds_many_small_entries_and_one_large_one() {
        let entries = |sizes: &[usize]| -> Vec<Arc<[u8]>> {
            sizes.iter().map(|it| vec![0; *it].into()).collect()
        };
        let count = |entries: &[Arc<[u8]>]| AT_ONCE.into_iter().find(|it| fits(*it, entries));
        let counts = [0, 1, 3, 4, 127, 300].map(|it| count(&entries(&vec![9; it])));
        assert_eq!(counts, [None, Some(1), Some(1), Some(4), Some(16), Some(128)]);
        assert_eq!(count(&entries(&[MAX_BYTES, 1, 1, 1])), Some(1));
        let expect = "INSERT INTO log_entries (session, log, number, body) VALUES ($1, $2, $3, $4), ($1, $2, $5, $6)";
        assert_eq!(insertion(2), expect);
    }
}
