//! Recovery of the readable data of a damaged file.
//!
//! SQLite reads a row only if all pages that lead to it are intact. This module examines every page separately, and
//! writes each plausible row of the tables into a new file. The new file replaces the damaged one, which is kept
//! under another name.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use loopwright_core::Timestamp;
use loopwright_sessions::{Finding, SessionStore as _, StoreError};

use super::{Acknowledged, Sqlite, SqliteStore, file};
use crate::{
    database::{Counter, Transaction},
    error::{Failure, SqlError},
    store::end,
};

mod cells;
mod pages;
mod refill;

use self::{pages::Pages, refill::Rebuild};

impl SqliteStore {
    /// Recovers the readable data of a damaged file into a new one, which replaces it. Returns what was done, and
    /// what is lost. The damaged file is kept under another name in the same directory. Does nothing with a file
    /// that is intact, or that only needs its indexes rebuilt.
    ///
    /// No other process may have the file open.
    ///
    /// # Errors
    ///
    /// Returns an error if one of its sessions is in use, it never was a store, or the disk is full.
    pub async fn salvage(path: impl AsRef<Path>) -> Result<Vec<Finding>, StoreError> {
        let path = path.as_ref();
        let place: Arc<str> = format!("`{}`", path.display()).into();
        let failed = |error| SqlError::place(&place, error);
        // A missing file is not created.
        fs::metadata(path).map_err(failed)?;
        let problem = match Self::open(path).await {
            Ok(store) => {
                let found = match store.database.has_all_columns().await {
                    Ok(()) => store.database.soundness(true).await,
                    Err(error) => Err(error),
                };
                store.close().await;
                match found {
                    Ok(found) => match found.iter().find(|it| it.repaired.is_none()) {
                        Some(finding) => finding.problem.clone(),
                        None => return Ok(found),
                    },
                    Err(error @ SqlError::Damaged { .. }) => error.to_string(),
                    Err(SqlError::Refused { source, .. }) => described(&source),
                    Err(error) => return Err(error.into()),
                }
            }
            Err(error @ (SqlError::Damaged { .. } | SqlError::NotAStore { .. })) => {
                error.to_string()
            }
            Err(SqlError::Refused { source, .. }) => described(&source),
            Err(error) => return Err(error.into()),
        };
        let new = file::beside(path, ".salvaged");
        remove(&new).map_err(failed)?;
        let saved = match saved(path, &new, &place).await {
            Ok(saved) => put(path, &new).map_err(failed).map(|aside| (saved, aside)),
            Err(error) => {
                remove(&new).map_err(failed)?;
                return Err(error);
            }
        };
        let ((count, mut findings), aside) = saved?;
        // They are not recovered, and those that were handled would be reported as missing.
        let _removed = Acknowledged::beside(path).remove_all(Counter::Messages);
        let repaired = format!(
            "saved {count} of the database's sessions to a new file; the damaged file is kept as `{}`",
            aside.display()
        );
        findings.insert(0, Finding { session: None, problem, repaired: Some(repaired) });
        Ok(findings)
    }
}

/// Returns the finding for damaged definitions of tables.
fn described(source: &sqlx::Error) -> String {
    format!("the definitions of the database's tables are damaged: {source}")
}

/// The columns of all tables.
const COLUMNS: [&str; 11] = [
    "SELECT key, id, format, status, version, branch, length, parent, call, workdir, agent_name, agent_label, title,
        created_at, updated_at, last, leases, lease_owner, lease_until, missing, sum FROM sessions LIMIT 0",
    "SELECT session, body, sum FROM definitions LIMIT 0",
    "SELECT session, branch, from_session, from_branch, at FROM branches LIMIT 0",
    "SELECT session, branch, first, count, body, sum FROM batches LIMIT 0",
    "SELECT number, session, body FROM control_messages LIMIT 0",
    "SELECT session, log, number, body FROM log_entries LIMIT 0",
    "SELECT number, id, session, task, status, claims, attempts, crashes, ready_at, owner, until, reason, created_at,
        updated_at, needs, priority, principal, start_at, turn, held FROM jobs LIMIT 0",
    "SELECT principal, period, taken FROM allowances LIMIT 0",
    "SELECT principal, day, tokens, cost FROM daily_spend LIMIT 0",
    "SELECT session, tokens, cost FROM recorded_spend LIMIT 0",
    "SELECT name, next_at, body FROM schedules LIMIT 0",
];

impl Sqlite {
    /// Checks that the tables have all required columns.
    async fn has_all_columns(&self) -> Result<(), SqlError> {
        for columns in COLUMNS {
            self.alone(&self.readers, columns).await?;
        }
        Ok(())
    }
}

/// Writes the readable data of a file into a new one, and returns the number of its sessions.
async fn saved(
    path: &Path,
    new: &Path,
    place: &Arc<str>,
) -> Result<(i64, Vec<Finding>), StoreError> {
    let unread = |error| SqlError::Closed {
        place: Arc::clone(place),
        source: Arc::new(sqlx::Error::Io(error)),
    };
    let pages = Pages::open(path).map_err(unread)?;
    let store = SqliteStore::open(new).await?;
    let mut transaction = store.writing().await?;
    let filled = fill(&mut *transaction, &pages, place).await;
    let saved = match end(transaction, filled).await {
        Ok((count, mut findings)) => store.check(true).await.map(|checked| {
            findings.extend(checked);
            (count, findings)
        }),
        Err(failure) => Err(failure.of_all()),
    };
    store.close().await;
    saved
}

async fn fill(
    transaction: &mut dyn Transaction,
    pages: &Pages,
    place: &Arc<str>,
) -> Result<(i64, Vec<Finding>), Failure> {
    let now = Timestamp::from(SystemTime::now());
    let mut refill = Rebuild::new(transaction).await?;
    for number in 1..=pages.last {
        for record in cells::records(pages, number) {
            refill.take(record).await?;
        }
    }
    if let Some(owner) = refill.user(now).await? {
        return Err(SqlError::InUse { place: Arc::clone(place), owner }.into());
    }
    let (count, findings) = refill.finish(now).await?;
    if count == 0 {
        return Err(SqlError::NotAStore { place: Arc::clone(place) }.into());
    }
    Ok((count, findings))
}

/// Replaces the damaged file with the new one, and returns the new path of the damaged one. A file exists at `path`
/// at every moment.
fn put(path: &Path, new: &Path) -> io::Result<PathBuf> {
    let names = (1_u32..).map(|number| file::beside(path, &format!(".damaged-{number}")));
    let free = |it: &PathBuf| fs::symlink_metadata(it).is_err();
    let aside = names.into_iter().find(free).unwrap_or_default();
    fs::hard_link(path, &aside).or_else(|_| fs::copy(path, &aside).map(drop))?;
    // The new file must not use files that belong to the damaged one.
    let [_, log, index] = file::with_neighbours(path);
    let [_, log_aside, _] = file::with_neighbours(&aside);
    if_there(fs::rename(&log, &log_aside))?;
    if let Err(error) = if_there(fs::remove_file(index)).and_then(|()| fs::rename(new, path)) {
        // The damaged file stays in place, together with the data that only its log has.
        if_there(fs::rename(log_aside, log))?;
        return Err(error);
    }
    file::sync_folder_of(path)?;
    Ok(aside)
}

fn remove(path: &Path) -> io::Result<()> {
    file::with_neighbours(path).into_iter().try_for_each(|it| if_there(fs::remove_file(it)))
}

fn if_there(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
