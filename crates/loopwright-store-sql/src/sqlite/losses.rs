//! What a database lost, as files beside it and indexes tell.

use std::sync::PoisonError;

use loopwright_sessions::{SessionId, SessionStatus};

use super::{Mark, Sqlite};
use crate::{
    database::{Access, Database as _, Transaction},
    error::{Failure, SqlError},
    head::SessionRow,
    row::values,
    seal::seal,
    store::end,
    writing::go_back,
};

impl Sqlite {
    /// Compares the database with what was acknowledged. A session that lost writes is suspended.
    pub(super) async fn compare(&self) -> Result<(), SqlError> {
        let marks = self.acknowledged.read().unwrap_or_default();
        if marks.is_empty() {
            return Ok(());
        }
        let mut transaction = self.begin(Access::Read).await?;
        let behind = behind(&mut *transaction, marks).await;
        transaction.rollback().await;
        for (mark, is_there) in behind? {
            if is_there {
                let mut transaction = self.begin(Access::Write).await?;
                let done = note_loss(&mut *transaction, &mark).await;
                match end(transaction, done).await {
                    Err(Failure::Sql(error)) => return Err(error),
                    // A session that cannot be read is named anyway.
                    Err(Failure::Form(_) | Failure::Store(_)) | Ok(()) => {}
                }
            } else {
                self.lost.lock().unwrap_or_else(PoisonError::into_inner).push(mark);
            }
        }
        Ok(())
    }
}

/// Returns the marks that the database is behind, and whether it has their sessions at all.
async fn behind(
    transaction: &mut dyn Transaction,
    marks: Vec<Mark>,
) -> Result<Vec<(Mark, bool)>, SqlError> {
    let keys: Vec<_> = marks.iter().map(|it| it.key.to_string()).collect();
    let sql = format!("SELECT key, id, version FROM sessions WHERE key IN ({})", keys.join(", "));
    let mut found = std::collections::BTreeMap::new();
    for mut row in transaction.rows(&sql, &[]).await? {
        if let (Ok(key), Ok(version)) = (row.int(0), row.number::<u64>(2)) {
            found.insert(key, (row.text(1).ok(), version));
        }
    }
    let behind = |mark: Mark| match found.get(&mark.key) {
        // A name that is damaged is found by a check.
        Some((Some(name), _)) if *name != *mark.id.as_str() => Some((mark, false)),
        Some((_, version)) => (*version < mark.version).then_some((mark, true)),
        None => Some((mark, false)),
    };
    Ok(marks.into_iter().filter_map(behind).collect())
}

/// Writes down that a session lost its last writes. Forks may begin there, so it continues on a new line.
async fn note_loss(transaction: &mut dyn Transaction, mark: &Mark) -> Result<(), Failure> {
    let head = SessionRow::locked(transaction, &mark.id).await?;
    let lost = mark.version.saturating_sub(head.version);
    if lost == 0 {
        return Ok(());
    }
    go_back(transaction, &mark.id, &head, head.length, head.updated_at).await?;
    let missing = match lost {
        1 => "its last write is missing".to_owned(),
        lost => format!("its last {lost} writes are missing"),
    };
    let missing = format!("the `-wal` file that the database needs is damaged: {missing}");
    let sql = "UPDATE sessions SET version = $1, missing = $2,
            status = CASE WHEN status = $3 THEN $4 ELSE status END
        WHERE key = $5";
    let (active, suspended) = (SessionStatus::Active.as_str(), SessionStatus::Suspended.as_str());
    let values = values![mark.version + 1, &*missing, active, suspended, head.key];
    transaction.run(sql, values).await?;
    seal(transaction, &[head.key]).await
}

/// Returns the names of sessions that the index has and the table has not: what is damaged in one place need not
/// be in the other.
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

/// Gives sessions the names back that only the index had.
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
