//! Freeing the space of what is unreachable.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::PoisonError,
};

use loopwright_core::Seq;

use super::{
    disk::{self, LockMode},
    failure::At as _,
    frame,
    frame_file::corrupt,
    record::Record,
    root::{LOG, ReadMode, Root},
    session_log::SessionLogFile,
    spread,
};
use crate::{
    id::SessionId,
    status::SessionStatus,
    store::{ReclaimStats, SessionLog, StoreError},
};

impl Root {
    /// Frees what only deleted sessions had and, if it is said, what rewinds left behind.
    pub(super) fn reclaim(&self, abandoned: bool) -> Result<ReclaimStats, StoreError> {
        let _lock = self.lock(LockMode::Exclusive)?;
        let needed = self.needed()?;
        let names: Vec<_> = self.names()?.into_iter().flatten().collect();
        let reclaimed = spread(&names, |id| {
            let mut reclaimed = ReclaimStats::default();
            let Some(header) = self.header(id, ReadMode::WaitForWriter)? else {
                return Ok(reclaimed);
            };
            let is_deleted = header.status == SessionStatus::Deleted;
            if is_deleted || abandoned && header.branch > 0 {
                self.reclaim_of(id, &needed, &mut reclaimed)?;
            }
            Ok(reclaimed)
        })?;
        let sum = |all: ReclaimStats, it: ReclaimStats| ReclaimStats {
            sessions: all.sessions + it.sessions,
            batches: all.batches + it.batches,
        };
        Ok(reclaimed.into_iter().fold(ReclaimStats::default(), sum))
    }

    fn reclaim_of(
        &self,
        id: &SessionId,
        needed: &BTreeMap<(SessionId, u32), Seq>,
        reclaimed: &mut ReclaimStats,
    ) -> Result<(), StoreError> {
        let Some((dir, _lock)) = self.lock_session(id, LockMode::Exclusive)? else { return Ok(()) };
        let path = dir.join(LOG);
        let Some(ledger) = self.ledger(id, ReadMode::BestEffort)? else { return Ok(()) };
        let is_current = |number| ledger.last.branch == number && !ledger.last.is_deleted();
        let mut free = BTreeSet::new();
        let mut is_bare = ledger.last.is_deleted();
        for (number, branch) in (0..).zip(&ledger.branches) {
            let until = needed.get(&(id.clone(), number)).copied();
            is_bare &= until.is_none();
            // The current branch may have become longer since.
            let is_free = |first| !is_current(number) && first >= until.unwrap_or_default();
            free.extend(branch.batches.iter().filter(|it| is_free(it.first)).map(|it| it.frame));
        }
        let is_bare = is_bare && !ledger.definition.is_empty();
        if free.is_empty() && !is_bare {
            return Ok(());
        }
        let bytes = without(id, &path, &ledger, &free, is_bare)?;
        disk::replace(&path, &bytes).at(&path)?;
        self.known.lock().unwrap_or_else(PoisonError::into_inner).retain(|it| it.id != *id);
        if is_bare {
            for log in SessionLog::ALL {
                let path = dir.join(log.as_str());
                disk::if_there(fs::remove_file(&path)).at(&path)?;
            }
            reclaimed.sessions += 1;
        }
        reclaimed.batches += free.len() as u64;
        Ok(())
    }
}

/// Rewrites a log without the changes of some frames and, on request, without the definition.
fn without(
    id: &SessionId,
    path: &Path,
    ledger: &SessionLogFile,
    free: &BTreeSet<usize>,
    is_bare: bool,
) -> Result<Vec<u8>, StoreError> {
    let (mut bytes, last) = (Vec::new(), ledger.frames.len() - 1);
    for (number, frame) in ledger.frames.iter().enumerate() {
        let (head, body) = (&ledger.bytes[frame.head.clone()], &ledger.bytes[frame.body.clone()]);
        let is_free = free.contains(&number);
        let is_kept = !is_free && (number > 0 || !is_bare);
        if is_kept {
            frame::write(&mut bytes, 0, head, body).at(path)?;
        } else if number == 0 || number == last {
            // What the first and the last one say of the session is needed.
            let not_understood = || corrupt(id, "a record cannot be parsed");
            let mut record = Record::read(head).ok_or_else(not_understood)?;
            let mut definition = 0;
            if let Some(birth) = record.session.as_mut().filter(|_| !is_bare) {
                definition = birth.definition;
            } else if let Some(birth) = &mut record.session {
                birth.definition = 0;
            }
            record.count = 0;
            let head = record.head()?;
            frame::write(&mut bytes, 0, &head, &body[..definition]).at(path)?;
        }
    }
    Ok(bytes)
}
