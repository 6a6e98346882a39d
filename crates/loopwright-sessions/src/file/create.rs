//! New sessions.

use std::{
    fs,
    io::{self, ErrorKind, Write as _},
    path::Path,
};

use super::{
    disk::{self, LockMode},
    failure::At as _,
    frame,
    record::{CreationRecord, Kind, Record},
    root::{LOCK, LOG, ReadMode, Root},
    slot::IndexEntry,
};
use crate::{
    header::SessionHeader, id::SessionId, rules, status::SessionStatus, store::StoreError,
};

/// A session that is to be created.
#[derive(Debug)]
pub(super) struct New {
    pub(super) header: SessionHeader,
    pub(super) definition: Vec<u8>,
    pub(super) count: usize,
    pub(super) changes: Vec<u8>,
}

impl Root {
    /// Creates a session. It is made elsewhere and moved to its place, so it is there as a whole or not
    /// at all.
    pub(super) fn create(&self, new: New) -> Result<SessionHeader, StoreError> {
        let New { mut header, definition, count, changes } = new;
        let id = header.id.clone();
        // What the new session has in common with another one is not reclaimed meanwhile.
        let _lock = self.lock(LockMode::Shared)?;
        if self.is_taken(&id)? {
            return Err(StoreError::Exists(id));
        }
        let base = self.base(&header)?;
        (header.version, header.branch) = (1, 0);
        header.length = base + count as u64;
        let entry = || Ok(IndexEntry::of(&header));
        let announced = self.announced(|index| index.add(IndexEntry::of(&header)), entry)?;
        let record = record(&header, definition.len(), count, announced.slot);
        let head = record.head()?;
        let body = [definition, if count > 0 { changes } else { Vec::new() }].concat();
        let mut bytes = Vec::new();
        frame::write(&mut bytes, 0, &head, &body).at(&self.incoming())?;
        let new = self.incoming().join(format!("{id}.{}", uuid::Uuid::new_v4().simple()));
        let place = self.sessions().join(id.as_str());
        let made = make(&new, &bytes).at(&new).and_then(|()| match fs::rename(&new, &place) {
            Err(error) if is_taken(&error) => Err(StoreError::Exists(id.clone())),
            moved => moved.at(&place),
        });
        if made.is_err() {
            // A check of the store removes what is left of it.
            let _removed = fs::remove_dir_all(&new);
        }
        made?;
        let sessions = self.sessions();
        disk::sync_dir(&sessions).at(&sessions)?;
        // An entry that is not settled costs a look at the session, nothing else.
        let _settled = announced.settle(header.updated_at, header.status);
        Ok(header)
    }

    fn is_taken(&self, id: &SessionId) -> Result<bool, StoreError> {
        let places = [self.sessions(), self.quarantine()].map(|it| it.join(id.as_str()));
        let mut is_taken = false;
        for place in places {
            is_taken |= disk::if_there(fs::symlink_metadata(&place)).at(&place)?.is_some();
        }
        Ok(is_taken)
    }

    /// Returns how many changes a session has in common with the one that it is a fork of.
    fn base(&self, header: &SessionHeader) -> Result<u64, StoreError> {
        let Some(from) = &header.from else { return Ok(0) };
        let source = self.header(&from.session, ReadMode::WaitForWriter)?;
        let source = source.filter(|it| it.status != SessionStatus::Deleted);
        let source = source.ok_or_else(|| StoreError::NotFound(from.session.clone()))?;
        rules::check_fork(from, source.branch, source.length)?;
        Ok(from.at)
    }
}

fn record(header: &SessionHeader, definition: usize, count: usize, slot: u64) -> Record {
    Record {
        kind: Kind::Create,
        version: header.version,
        status: header.status,
        length: header.length,
        count: count as u64,
        branch: header.branch,
        updated_at: header.updated_at,
        from: header.from.clone(),
        title: header.title.clone(),
        print: None,
        workdir: None,
        parent: None,
        handled: 0,
        slot,
        session: Some(Box::new(CreationRecord::of(header, definition))),
    }
}

/// Makes the directory of a session.
fn make(dir: &Path, log: &[u8]) -> io::Result<()> {
    disk::create_dirs(dir)?;
    for (name, bytes) in [(LOCK, &[][..]), (LOG, log)] {
        let mut file = disk::options().write(true).create_new(true).open(dir.join(name))?;
        file.write_all(bytes)?;
        if name == LOG {
            disk::sync_all(&file, &dir.join(name))?;
        }
    }
    disk::sync_dir(dir)
}

fn is_taken(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::DirectoryNotEmpty)
}
