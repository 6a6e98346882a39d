//! Reading what is intact of a session whose log is damaged, and continuing from the changes before the damage.

use std::{fs, path::Path};

use super::{
    acknowledged, disk,
    failure::At as _,
    frame::{self, LogTail, Scan},
    record::Record,
    root::{LOG, ReadMode, Root},
    session_log::SessionLogFile,
};
use crate::{
    id::SessionId,
    store::{Finding, Salvaged, StoreError},
    stored::decode_intact,
};

impl Root {
    /// Returns what was acknowledged of a session and is not in its log any more.
    pub(super) fn missing(
        &self,
        id: &SessionId,
        reading: ReadMode,
    ) -> Result<Option<Finding>, StoreError> {
        let ledger = self.ledger(id, reading)?.filter(|it| !it.last.is_deleted());
        let problem = ledger.and_then(|it| it.missing);
        let finding = |problem| Finding { session: Some(id.clone()), problem, repaired: None };
        Ok(problem.map(finding))
    }

    /// Returns the intact changes that lead to the state of a session.
    pub(super) fn salvage(&self, id: &SessionId) -> Result<Option<Salvaged>, StoreError> {
        let ledger = match self.ledger(id, ReadMode::WaitForWriter) {
            Err(StoreError::Corrupt { id, reason }) => {
                let dir = self.sessions().join(id.as_str());
                let corrupt = || StoreError::Corrupt { id: id.clone(), reason };
                Some(intact(&id, &dir)?.ok_or_else(corrupt)?)
            }
            found => found?,
        };
        let Some(ledger) = ledger.filter(|it| !it.last.is_deleted()) else { return Ok(None) };
        let header = ledger.header();
        let chain = self.chain(ledger)?;
        let (changes, gaps) = decode_intact(id, header.length, &chain.batches());
        Ok(Some(Salvaged { header, changes, gaps }))
    }
}

/// Reads all intact records of a damaged log, or those before the damage if the others do not follow them.
/// Returns `None` if the first record is not intact.
fn intact(id: &SessionId, dir: &Path) -> Result<Option<SessionLogFile>, StoreError> {
    let path = dir.join(LOG);
    let acknowledged = acknowledged::read(dir).at(dir)?;
    let Some(mut file) = disk::open(&path).at(&path)? else { return Ok(None) };
    let bytes = frame::part(&mut file, 0, u64::MAX).at(&path)?;
    let before = frame::scan(&bytes, 0);
    if before.frames.is_empty() {
        return Ok(None);
    }
    let all = Scan { frames: frame::all(&bytes, 0), end: bytes.len() as u64, ..before.clone() };
    let read = |scan| SessionLogFile::of(id, &path, bytes.clone(), scan, acknowledged).ok();
    Ok(read(all).or_else(|| read(before)))
}

/// Cuts a damaged log before the damage. The damaged log stays beside it, under the name that is returned.
/// Returns `None` if what is before the damage makes no session, or one that was deleted after it.
///
/// The session has to be locked, and the next write to it has to begin a new branch.
pub(super) fn cut(id: &SessionId, log: &Path) -> Result<Option<String>, StoreError> {
    let Some(mut file) = disk::open(log).at(log)? else { return Ok(None) };
    let bytes = frame::part(&mut file, 0, u64::MAX).at(log)?;
    let scan = frame::scan(&bytes, 0);
    let last = frame::all(&bytes, 0).pop().and_then(|it| Record::read(&bytes[it.head]));
    let is_deleted = last.is_none_or(|it| it.is_deleted());
    let before = &bytes[..usize::try_from(scan.end).unwrap_or_default()];
    let is_session = SessionLogFile::read(id, log, before.to_vec(), None).is_ok();
    if !matches!(scan.ending, LogTail::CorruptMiddle { .. }) || is_deleted || !is_session {
        return Ok(None);
    }
    let aside = disk::backup_path(log, "damaged");
    fs::hard_link(log, &aside).at(&aside)?;
    disk::replace(log, before).at(log)?;
    Ok(Some(aside.display().to_string()))
}
