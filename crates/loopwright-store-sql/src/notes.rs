//! Logs beside the changes of a session.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures::future::{Either, select};
use loopwright_core::Clock;
use loopwright_sessions::{LogEntry, SessionId, SessionLog, StoreError};
use tokio::sync::broadcast::error::RecvError;

use crate::{
    database::{LogNotification, Transaction},
    error::Failure,
    head::SessionRow,
    row::{Cell, Row, Value, values},
};

/// The polling interval of log entries while notifications are unavailable.
const LOOKS: Duration = Duration::from_millis(100);
/// The polling interval with notifications.
const LOOKS_TOLD: Duration = Duration::from_secs(2);

/// The largest number of entries that one statement adds.
const AT_ONCE: usize = 128;

/// Of a log with at least this limit, old entries are deleted once in as many entries.
const TRIM_STEP: i64 = 64;

/// The most bytes of several entries that one statement adds.
const MAX_BYTES: usize = 1 << 20;

/// Entries to add to the log of a session.
#[derive(Debug)]
pub(crate) struct NewEntries<'a> {
    pub(crate) id: &'a SessionId,
    pub(crate) log: SessionLog,
    pub(crate) entries: &'a [Arc<[u8]>],
    /// How many of the latest entries are kept.
    pub(crate) keep: Option<u64>,
}

/// A row of the table.
struct NewRow<'a> {
    key: i64,
    log: SessionLog,
    number: i64,
    body: &'a [u8],
}

/// Implements [`SessionStore::append_log`](loopwright_sessions::SessionStore::append_log) for several callers. Returns the
/// session's key and the number of the last entry of each, or the error of a caller whose session does not exist.
pub(crate) async fn append_all(
    transaction: &mut dyn Transaction,
    all: &[NewEntries<'_>],
) -> Result<Vec<Result<(i64, u64), StoreError>>, Failure> {
    let mut last = last_numbers(transaction, all).await?;
    let (mut rows, mut results) = (Vec::new(), Vec::with_capacity(all.len()));
    for NewEntries { id, log, entries, .. } in all {
        let Some((key, last)) = last.get_mut(*id) else {
            results.push(Err(StoreError::NotFound((*id).clone())));
            continue;
        };
        let last = last.entry(*log).or_default();
        for body in *entries {
            *last += 1;
            rows.push(NewRow { key: *key, log: *log, number: *last, body });
        }
        let number = u64::try_from(*last);
        let number = number
            .map_err(|_| Failure::Form(format!("a log entry has the invalid number {last}")))?;
        results.push(Ok((*key, number)));
    }
    insert(transaction, &rows).await?;
    for (NewEntries { id, log, entries, keep }, result) in all.iter().zip(&results) {
        let Ok((key, last)) = result else { continue };
        let last = i64::try_from(*last).unwrap_or(i64::MAX);
        if let Some(keep) = *keep
            && is_trimmed(keep, last, entries.len())
        {
            let until = last.saturating_sub_unsigned(keep.max(1));
            let sql = "DELETE FROM log_entries WHERE session = $1 AND log = $2 AND number <= $3";
            transaction.run_later(sql, values![*key, log.as_str(), until]).await?;
        }
        if !entries.is_empty() {
            transaction.tell(&news_of(id, *log)).await?;
        }
    }
    Ok(results)
}

/// Finds the keys of sessions and the numbers of the last entries of their logs, and blocks other writers of the sessions.
async fn last_numbers(
    transaction: &mut dyn Transaction,
    all: &[NewEntries<'_>],
) -> Result<BTreeMap<SessionId, (i64, BTreeMap<SessionLog, i64>)>, Failure> {
    let ids: BTreeSet<&SessionId> = all.iter().map(|it| it.id).collect();
    let last = |log: &SessionLog| {
        format!(
            "(SELECT MAX(n.number) FROM log_entries n WHERE n.session = s.key AND n.log = '{}')",
            log.as_str()
        )
    };
    let logs: BTreeSet<SessionLog> = all.iter().map(|it| it.log).collect();
    let numbers: Vec<String> = logs.iter().map(last).collect();
    let is_exclusive = transaction.for_update().is_empty();
    let own = if is_exclusive { &numbers[..] } else { &[] };
    let mut found = SessionRow::all_locked(transaction, &ids, own).await?;
    if !is_exclusive {
        // A statement that waits for a lock sees the other table as it was before.
        for (key, values) in found.values_mut() {
            let sql = format!("SELECT {} FROM sessions s WHERE s.key = $1", numbers.join(", "));
            let row = transaction.row(&sql, values![*key]).await?;
            *values = row.map(|it| it.0).unwrap_or_default();
        }
    }
    let numbered = |(id, (key, values)): (SessionId, (i64, Vec<Cell>))| {
        let mut row = Row(values);
        let last = logs
            .iter()
            .enumerate()
            .map(|(at, log)| Ok((*log, row.maybe_int(at)?.unwrap_or_default())));
        Ok((id, (key, last.collect::<Result<_, Failure>>()?)))
    };
    found.into_iter().map(numbered).collect()
}

/// Adds entries. The last statement runs with the next one.
async fn insert(transaction: &mut dyn Transaction, rows: &[NewRow<'_>]) -> Result<(), Failure> {
    let mut rest = rows;
    while !rest.is_empty() {
        let (added, later) = rest.split_at(fitting(rest));
        let values = added.iter().flat_map(|it| {
            [Value::from(it.key), it.log.as_str().into(), it.number.into(), it.body.into()]
        });
        let (sql, values) = (insertion(added.len()), values.collect::<Vec<_>>());
        if later.is_empty() {
            transaction.run_later(&sql, &values).await?;
        } else {
            transaction.run(&sql, &values).await?;
        }
        rest = later;
    }
    Ok(())
}

/// Returns `true` if it is time to delete old entries, after so many were added: not after each one, because that costs as much
/// as adding it.
fn is_trimmed(keep: u64, last: i64, added: usize) -> bool {
    let before = last.saturating_sub_unsigned(added as u64);
    keep < TRIM_STEP.unsigned_abs() || before / TRIM_STEP != last / TRIM_STEP
}

/// Returns how many of the next entries one statement adds: a power of two, because the database prepares a statement for each
/// number once.
fn fitting(rows: &[NewRow<'_>]) -> usize {
    let mut count = AT_ONCE;
    while count > 1 {
        let size = |rows: &[NewRow<'_>]| rows.iter().map(|it| it.body.len()).sum::<usize>();
        if rows.get(..count).is_some_and(|it| size(it) <= MAX_BYTES) {
            break;
        }
        count /= 2;
    }
    count
}

/// Returns the statement that adds entries. Its parameters are the session, the log, number and body of each.
fn insertion(entries: usize) -> String {
    let row = |entry: usize| {
        let [session, log, number, body] = [1, 2, 3, 4].map(|it| 4 * entry + it);
        format!("(${session}, ${log}, ${number}, ${body})")
    };
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
    // SQLite prepares a statement again each time if its limit is a parameter.
    let sql = format!(
        "SELECT n.number, n.body FROM sessions s JOIN log_entries n ON n.session = s.key
        WHERE s.id = $1 AND s.status <> 'deleted' AND n.log = $2 AND n.number > $3
        ORDER BY n.number LIMIT {limit}"
    );
    let rows = transaction.rows(&sql, values![id.as_str(), log.as_str(), after]).await?;
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
    fn one_statement_adds_a_power_of_two_of_small_entries_and_one_large_one() {
        let (small, large) = ([0; 9], vec![0; MAX_BYTES]);
        let row = |body| NewRow { key: 1, log: SessionLog::Events, number: 1, body };
        let count = |entries| fitting(&(0..entries).map(|_| row(&small)).collect::<Vec<_>>());
        assert_eq!([1, 3, 4, 127, 300].map(count), [1, 2, 4, 64, 128]);
        let mixed = [row(&large), row(&small), row(&small), row(&small)];
        assert_eq!([fitting(&mixed), fitting(&mixed[1..])], [1, 2]);
        let expect = "INSERT INTO log_entries (session, log, number, body) VALUES ($1, $2, $3, $4), ($5, $6, $7, $8)";
        assert_eq!(insertion(2), expect);
    }
}
