//! Looking for what is wrong, and putting it right.

use std::{collections::BTreeMap, fs, path::Path, sync::PoisonError};

use super::{
    control_messages::CONTROL_MESSAGES,
    disk::{self, Lock, LockMode},
    failure::{At as _, is_read_only},
    frame::{self, LogTail},
    frame_file::FrameFile,
    lease::{self, LEASE},
    notes,
    root::{LOG, ReadMode, Root},
    salvage,
    session::Session,
    slot::{IndexEntry, SLOT},
    spread,
};
use crate::{
    id::SessionId,
    store::{Finding, SessionLog, StoreError},
};

/// What is done about what is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RepairMode {
    Look,
    Repair,
}

impl RepairMode {
    /// Returns a lock. Where nothing can be written, and so no lock be made, nothing changes either.
    fn locked(self, lock: Result<Lock, StoreError>) -> Result<Option<Lock>, StoreError> {
        match lock {
            Err(error) if self == Self::Look && is_read_only(&error) => Ok(None),
            lock => lock.map(Some),
        }
    }
}

/// What is wrong with a file of frames.
enum Damage {
    Torn,
    Spoilt,
    Damaged,
}

impl Root {
    /// Looks at everything.
    pub(super) fn check(&self, care: RepairMode) -> Result<Vec<Finding>, StoreError> {
        let mut findings = Vec::new();
        self.check_incoming(care, &mut findings)?;
        let mut ids = Vec::new();
        for name in self.names()? {
            match name {
                Ok(id) => ids.push(id),
                Err(path) => findings.push(Finding {
                    session: None,
                    problem: format!("`{}` is not a session; move it elsewhere", path.display()),
                    repaired: None,
                }),
            }
        }
        // Files first: what can be loaded depends on what is left of other sessions.
        let of_files = spread(&ids, |id| {
            let mut findings = Vec::new();
            if let Err(error) = self.check_files(id, care, &mut findings) {
                findings.push(found(id, error.to_string(), None));
            }
            Ok(findings)
        })?;
        findings.extend(of_files.into_iter().flatten());
        let unreadable = spread(&ids, |id| match self.load(id) {
            Err(StoreError::Corrupt { reason, .. }) => Ok(Some(found(id, reason, None))),
            _ => Ok(None),
        })?;
        for finding in unreadable.into_iter().flatten() {
            let known = |it: &Finding| it.session == finding.session && it.repaired.is_none();
            if !findings.iter().any(known) {
                findings.push(finding);
            }
        }
        self.check_index(care, &mut findings)?;
        Ok(findings)
    }

    /// Looks for sessions whose creation was cut short.
    fn check_incoming(
        &self,
        care: RepairMode,
        findings: &mut Vec<Finding>,
    ) -> Result<(), StoreError> {
        let _lock = care.locked(self.lock(LockMode::Exclusive))?;
        let incoming = self.incoming();
        let Some(entries) = disk::if_there(fs::read_dir(&incoming)).at(&incoming)? else {
            return Ok(());
        };
        for entry in entries {
            let path = entry.at(&incoming)?.path();
            if care == RepairMode::Repair {
                fs::remove_dir_all(&path).at(&path)?;
            }
            let problem =
                format!("`{}` is a session whose creation was never completed", path.display());
            let repaired = (care == RepairMode::Repair).then(|| "removed it".to_owned());
            findings.push(Finding { session: None, problem, repaired });
        }
        Ok(())
    }

    fn check_files(
        &self,
        id: &SessionId,
        care: RepairMode,
        findings: &mut Vec<Finding>,
    ) -> Result<(), StoreError> {
        // A caller that writes is waited for, so that what is half written is not taken for torn.
        let locked = match self.lock_session(id, LockMode::Exclusive) {
            Ok(Some(locked)) => locked,
            Ok(None) => return Ok(()),
            Err(StoreError::Corrupt { reason, .. }) => {
                findings.push(found(id, reason, None));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let (dir, lock) = locked;
        let mut lock = Some(lock);
        if care == RepairMode::Repair {
            self.known.lock().unwrap_or_else(PoisonError::into_inner).retain(|it| it.id != *id);
        }
        let log = dir.join(LOG);
        if let Err(StoreError::Corrupt { reason, .. }) = self.ledger(id, ReadMode::BestEffort) {
            // What is intact and not understood is left to a program that understands it.
            let is_repaired = care == RepairMode::Repair && is_unreadable(&log)?;
            let repaired = match is_repaired.then(|| salvage::cut(id, &log)).transpose()? {
                None => None,
                Some(None) => Some(self.move_to_quarantine(id, &dir)?),
                Some(Some(aside)) => {
                    // A caller that writes a log locks it.
                    drop(lock.take());
                    Some(self.continue_from(id, &aside)?)
                }
            };
            findings.push(found(id, reason, repaired));
            return Ok(());
        }
        if let Some(Finding { problem, .. }) = self.missing(id, ReadMode::BestEffort)? {
            let repaired = if care == RepairMode::Repair {
                drop(lock.take());
                Some(self.drop_last_record(id, &log)?)
            } else {
                None
            };
            findings.push(found(id, problem, repaired));
        }
        let torn = |path: &Path| -> Result<Option<String>, StoreError> {
            let (mut trail, _last) = FrameFile::open(id, path)?;
            let aside = trail.set_aside().at(path)?;
            Ok(Some(format!("moved these bytes to `{}`", aside.display())))
        };
        let others = SessionLog::ALL.iter().map(|it| dir.join(it.as_str()));
        let files = others.chain([dir.join(CONTROL_MESSAGES), log.clone()]);
        for path in files {
            let Some((wrong, problem)) = wrong(&path)? else { continue };
            if path == log
                && findings
                    .iter()
                    .any(|it| it.session.as_ref() == Some(id) && it.problem.contains(&problem))
            {
                continue;
            }
            let repaired = match (care, wrong) {
                (RepairMode::Look, _) => None,
                (RepairMode::Repair, Damage::Torn | Damage::Spoilt) => torn(&path)?,
                (RepairMode::Repair, Damage::Damaged) if path.ends_with(CONTROL_MESSAGES) => {
                    let aside = disk::backup_path(&path, "damaged");
                    fs::rename(&path, &aside).at(&path)?;
                    Some(format!(
                        "moved the file to `{}`; send the control messages again",
                        aside.display()
                    ))
                }
                (RepairMode::Repair, Damage::Damaged) => Some(notes::salvage(&path)?),
            };
            findings.push(found(id, problem, repaired));
        }
        if let Err(StoreError::Corrupt { reason, .. }) = lease::read(id, &dir) {
            let repaired = if care == RepairMode::Repair {
                lease::put_right(id, &dir)?;
                Some(format!("ended the lease and kept the damaged `{LEASE}` next to the new file"))
            } else {
                None
            };
            findings.push(found(id, reason, repaired));
        }
        Ok(())
    }

    /// Writes down that a log continues without what is missing at its end.
    fn drop_last_record(&self, id: &SessionId, log: &Path) -> Result<String, StoreError> {
        let aside = disk::backup_path(log, "torn");
        let mut session = Session::open(self, id)?;
        session.settle()?;
        let status = session.files.last.status;
        Ok(match disk::if_there(fs::symlink_metadata(&aside)).at(&aside)? {
            Some(_) => {
                format!(
                    "moved these bytes to `{}`; without them, the session is {status}",
                    aside.display()
                )
            }
            None => format!("without the missing data, the session is {status}"),
        })
    }

    /// Writes down that a session continues after the changes that are left in its log.
    fn continue_from(&self, id: &SessionId, aside: &str) -> Result<String, StoreError> {
        let mut session = Session::open(self, id)?;
        session.settle()?;
        let (length, status) = (session.files.last.length, session.files.last.status);
        Ok(format!(
            "the session is read only up to change {length} and is {status}; later tool calls may \
                have taken effect; the damaged log is kept as `{aside}`"
        ))
    }

    /// Moves an unreadable session to the quarantine directory.
    fn move_to_quarantine(&self, id: &SessionId, dir: &Path) -> Result<String, StoreError> {
        let (quarantine, sessions) = (self.quarantine(), self.sessions());
        disk::create_dirs(&quarantine).at(&quarantine)?;
        let mut place = quarantine.join(id.as_str());
        if fs::symlink_metadata(&place).is_ok() {
            place = disk::backup_path(&place, "again");
        }
        fs::rename(dir, &place).at(dir)?;
        for dir in [&quarantine, &sessions, &self.path] {
            disk::sync_dir(dir).at(dir)?;
        }
        Ok(format!("moved the session to `{}` unchanged", place.display()))
    }

    /// Compares the index with what it speaks of.
    fn check_index(&self, care: RepairMode, findings: &mut Vec<Finding>) -> Result<(), StoreError> {
        // It is made anew now if it is time for that.
        self.entries()?;
        let path = &self.index.path;
        let _lock = care.locked(self.index.alone().at(path))?;
        let entries = self.index.entries().at(path)?.unwrap_or_default();
        let told = entries.chunks_exact(SLOT).filter_map(IndexEntry::read);
        let mut all = BTreeMap::<SessionId, Vec<IndexEntry>>::new();
        for slot in told {
            all.entry(slot.id.clone()).or_default().push(slot);
        }
        let slots = self.slots()?;
        let is_told = |it: &&IndexEntry| {
            all.get(&it.id).is_some_and(|told| told.iter().any(|told| told.covers(it)))
        };
        // What cannot be read is told of itself.
        let wrong = slots.iter().filter(|it| !it.is_damaged() && !is_told(it)).count();
        if wrong > 0 {
            let repaired = if care == RepairMode::Repair {
                self.index.remake(&slots).at(path)?;
                Some("rebuilt the index from the logs".to_owned())
            } else {
                None
            };
            let (path, all) = (path.display(), slots.len());
            let problem = format!("`{path}` has wrong entries for {wrong} of {all} sessions");
            findings.push(Finding { session: None, problem, repaired });
        }
        Ok(())
    }
}

fn found(id: &SessionId, problem: String, repaired: Option<String>) -> Finding {
    Finding { session: Some(id.clone()), problem, repaired }
}

/// Returns `true` if a log has to be moved away because its bytes are not those that were written.
fn is_unreadable(path: &Path) -> Result<bool, StoreError> {
    let Some(mut file) = disk::open(path).at(path)? else { return Ok(true) };
    let bytes = frame::part(&mut file, 0, u64::MAX).at(path)?;
    let scan = frame::scan(&bytes, 0);
    Ok(scan.frames.is_empty() || matches!(scan.ending, LogTail::CorruptMiddle { .. }))
}

/// Tells what is wrong with a file of frames.
fn wrong(path: &Path) -> Result<Option<(Damage, String)>, StoreError> {
    let Some(mut file) = disk::open(path).at(path)? else { return Ok(None) };
    let bytes = frame::part(&mut file, 0, u64::MAX).at(path)?;
    let (length, scan) = (bytes.len() as u64, frame::scan(&bytes, 0));
    let (path, end) = (path.display(), scan.end);
    Ok(match scan.ending {
        LogTail::Clean => None,
        LogTail::Torn => Some((
            Damage::Torn,
            format!("the last {} bytes of `{path}` are incomplete", length - end),
        )),
        LogTail::CorruptTail => Some((
            Damage::Spoilt,
            format!("the last {} bytes of `{path}` are a damaged record", length - end),
        )),
        LogTail::CorruptMiddle { again } => {
            let problem =
                format!("`{path}` is damaged at byte {end}, before intact records at byte {again}");
            Some((Damage::Damaged, problem))
        }
    })
}
