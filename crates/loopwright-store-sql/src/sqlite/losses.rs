//! Losses of a database, found by the files beside it and its indexes.

use std::{collections::BTreeMap, sync::PoisonError};

use loopwright_sessions::{SessionId, SessionLog, SessionStatus};

use super::{Mark, Sqlite};
use crate::{
    database::{Access, Counter, Database as _, Transaction},
    error::{Failure, SqlError},
    head::SessionRow,
    maintenance::DAMAGED,
    row::values,
    seal::seal,
    store::end,
    writing::go_back,
};

impl Sqlite {
    /// Compares the database with the acknowledged counters. A session that lost writes is suspended.
    pub(super) async fn compare(&self) -> Result<(), SqlError> {
        let marks = self.acknowledged.read().unwrap_or_default();
        let is_version = |it: &Mark| it.counter == Counter::Version;
        let (marks, beside): (Vec<_>, Vec<_>) = marks.into_iter().partition(is_version);
        if !marks.is_empty() {
            self.compare_versions(marks).await?;
        }
        if !beside.is_empty() {
            self.compare_beside(beside).await?;
        }
        Ok(())
    }

    async fn compare_versions(&self, marks: Vec<Mark>) -> Result<(), SqlError> {
        let mut transaction = self.begin(Access::Read).await?;
        let behind = behind(&mut *transaction, marks).await;
        transaction.rollback().await?;
        for (mark, is_there) in behind? {
            if is_there {
                let mut transaction = self.begin(Access::Write).await?;
                let done = note_loss(&mut *transaction, &mark).await;
                match end(transaction, done).await {
                    Err(Failure::Sql(error)) => return Err(error),
                    // A session that cannot be read is reported anyway.
                    Err(Failure::Form(_) | Failure::Store(_)) | Ok(()) => {}
                }
            } else {
                self.lost.lock().unwrap_or_else(PoisonError::into_inner).push(mark);
            }
        }
        Ok(())
    }
}

impl Sqlite {
    /// Compares the data beside the changes of sessions. A session that lost something is suspended, and its row
    /// contains the loss from then on.
    async fn compare_beside(&self, marks: Vec<Mark>) -> Result<(), SqlError> {
        let mut transaction = self.begin(Access::Read).await?;
        let behind = behind_beside(&mut *transaction, marks).await;
        transaction.rollback().await?;
        for (mark, found) in behind? {
            let mut transaction = self.begin(Access::Write).await?;
            let done = note_missing(&mut *transaction, &mark, found).await;
            match end(transaction, done).await {
                Err(Failure::Sql(error)) => return Err(error),
                // A session that cannot be read is reported anyway.
                Err(Failure::Form(_) | Failure::Store(_)) => {}
                // It is reported once, until the session is written.
                Ok(()) => self.acknowledged.write(&Mark { number: found, ..mark }),
            }
        }
        Ok(())
    }
}

/// Formats the keys of marks as a list in SQL.
fn keys(marks: &[Mark]) -> String {
    let keys: Vec<_> = marks.iter().map(|mark| mark.key.to_string()).collect();
    keys.join(", ")
}

/// Reads rows of a key, a name and a number. The name is `None` if it is damaged; a row without a number is left out.
async fn numbers(
    transaction: &mut dyn Transaction,
    sql: &str,
) -> Result<BTreeMap<i64, (Option<String>, u64)>, SqlError> {
    let mut found = BTreeMap::new();
    for mut row in transaction.rows(sql, &[]).await? {
        if let (Ok(key), Ok(number)) = (row.int(0), row.number::<u64>(2)) {
            found.insert(key, (row.text(1).ok(), number));
        }
    }
    Ok(found)
}

/// Returns the marks that are ahead of the database, with the value of each counter. Losses of a deleted session do
/// not matter. A session of which nothing is left is reported by its version.
async fn behind_beside(
    transaction: &mut dyn Transaction,
    marks: Vec<Mark>,
) -> Result<Vec<(Mark, u64)>, SqlError> {
    let mut behind = Vec::new();
    // One statement for each counter, because this runs whenever a program opens the database.
    for marks in marks.chunk_by(|one, other| one.counter == other.counter) {
        let counted = match marks[0].counter {
            Counter::Version => continue,
            Counter::Notes(log) => format!("log_entries n WHERE n.log = '{}' AND", log.as_str()),
            Counter::Jobs => "jobs n WHERE".to_owned(),
            Counter::Messages => "control_messages n WHERE".to_owned(),
        };
        let sql = format!(
            "SELECT s.key, s.id,
                (SELECT COALESCE(MAX(n.number), 0) FROM {counted} n.session = s.key)
            FROM sessions s WHERE s.key IN ({}) AND s.status <> 'deleted'",
            keys(marks)
        );
        let found = numbers(transaction, &sql).await?;
        behind.extend(marks.iter().filter_map(|mark| match found.get(&mark.key) {
            Some((Some(id), number)) if *id == *mark.id.as_str() && *number < mark.number => {
                Some((mark.clone(), *number))
            }
            _ => None,
        }));
    }
    Ok(behind)
}

/// Records what a session lost beside its changes.
async fn note_missing(
    transaction: &mut dyn Transaction,
    mark: &Mark,
    found: u64,
) -> Result<(), Failure> {
    let lost = mark.number.saturating_sub(found);
    let what = match mark.counter {
        Counter::Version => return Ok(()),
        Counter::Notes(SessionLog::Files) => {
            format!("the last {lost} entries of the session's file-change log are missing")
        }
        Counter::Notes(SessionLog::Folder) => {
            format!("the last {lost} entries of the session's snapshot log are missing")
        }
        Counter::Notes(_) => {
            format!("the last {lost} entries of the session's event log are missing")
        }
        Counter::Jobs => "a job that was queued for the session is missing".to_owned(),
        Counter::Messages => "a control message that was sent to the session is missing".to_owned(),
    };
    let sql = "UPDATE sessions SET missing = COALESCE(missing || '; ', $1) || $2,
            status = CASE WHEN status = $3 THEN $4 ELSE status END
        WHERE key = $5";
    let (active, suspended) = (SessionStatus::Active.as_str(), SessionStatus::Suspended.as_str());
    transaction.run(sql, values![DAMAGED, &*what, active, suspended, mark.key]).await?;
    seal(transaction, &[mark.key]).await
}

/// Returns the marks that are ahead of the database, and whether it has their sessions at all.
async fn behind(
    transaction: &mut dyn Transaction,
    marks: Vec<Mark>,
) -> Result<Vec<(Mark, bool)>, SqlError> {
    let sql = format!("SELECT key, id, version FROM sessions WHERE key IN ({})", keys(&marks));
    let found = numbers(transaction, &sql).await?;
    let behind = |mark: Mark| match found.get(&mark.key) {
        // A check finds damaged IDs.
        Some((Some(name), _)) if *name != *mark.id.as_str() => Some((mark, false)),
        Some((_, version)) => (*version < mark.number).then_some((mark, true)),
        None => Some((mark, false)),
    };
    Ok(marks.into_iter().filter_map(behind).collect())
}

/// Records that a session lost its last writes. Forks may start there, so it continues on a new branch.
async fn note_loss(transaction: &mut dyn Transaction, mark: &Mark) -> Result<(), Failure> {
    let head = SessionRow::locked(transaction, &mark.id).await?;
    let lost = mark.number.saturating_sub(head.version);
    if lost == 0 {
        return Ok(());
    }
    go_back(transaction, &mark.id, &head, head.length, head.updated_at).await?;
    let missing = match lost {
        1 => "the last write is missing".to_owned(),
        lost => format!("the last {lost} writes are missing"),
    };
    let missing = format!("{DAMAGED}{missing}");
    let sql = "UPDATE sessions SET version = $1, missing = $2,
            status = CASE WHEN status = $3 THEN $4 ELSE status END
        WHERE key = $5";
    let (active, suspended) = (SessionStatus::Active.as_str(), SessionStatus::Suspended.as_str());
    let values = values![mark.number + 1, &*missing, active, suspended, head.key];
    transaction.run(sql, values).await?;
    seal(transaction, &[head.key]).await
}

/// Returns the IDs of sessions that the index contains and the table does not. Damage to one does not imply damage
/// to the other.
pub(super) async fn names_of_index(
    transaction: &mut dyn Transaction,
) -> Result<Vec<(i64, SessionId)>, SqlError> {
    let sql = "SELECT i.key, i.id, s.id
        FROM (SELECT key, id FROM sessions INDEXED BY sqlite_autoindex_sessions_1) i
        JOIN sessions s ON s.key = i.key WHERE s.id <> i.id";
    let mut names = Vec::new();
    for mut row in transaction.rows(sql, &[]).await? {
        let (key, of_index, of_table) = (row.int(0), row.text(1), row.text(2));
        let is_name = |it| SessionId::new(it).ok();
        let is_damaged = of_table.ok().and_then(is_name).is_none();
        if let (Ok(key), Some(id), true) = (key, of_index.ok().and_then(is_name), is_damaged) {
            names.push((key, id));
        }
    }
    Ok(names)
}

/// Restores the IDs of sessions that only the index had.
pub(super) async fn give_names_back(
    transaction: &mut dyn Transaction,
    names: Vec<(i64, SessionId)>,
) -> Result<(), SqlError> {
    for (key, id) in names {
        let sql = "UPDATE OR IGNORE sessions SET id = $1 WHERE key = $2";
        transaction.run(sql, values![id.as_str(), key]).await?;
    }
    Ok(())
}
