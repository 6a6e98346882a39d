//! The right to write a session, in a file beside its log.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use loopwright_core::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    disk::{self, Identity},
    failure::At as _,
    frame,
    frame_file::corrupt,
    session::Session,
};
use crate::{
    id::SessionId,
    rules,
    store::{Lease, LeaseRequest, StoreError},
};

/// The name of the file.
pub(super) const LEASE: &str = "lease";

/// What the file says.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Leases {
    /// How many leases there were. None has the number of another one.
    pub(super) number: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) lease: Option<Lease>,
}

/// The file of a session as it was read. It stays open, so that no other file gets its identity: a
/// process that writes it puts another in its place.
#[derive(Debug)]
pub(super) struct LeaseFile {
    path: PathBuf,
    _file: File,
    identity: Identity,
    /// When it was written last: a caller may have copied another one over it.
    written: Option<SystemTime>,
    leases: Leases,
}

impl LeaseFile {
    /// Reads the file of a session. Returns `None` if there is none.
    fn read(id: &SessionId, dir: &Path) -> Result<Option<Self>, StoreError> {
        let path = dir.join(LEASE);
        let Some(mut file) = disk::open(&path).at(&path)? else { return Ok(None) };
        let metadata = file.metadata().at(&path)?;
        let (identity, written) = (Identity::of(&metadata), metadata.modified().ok());
        let bytes = frame::part(&mut file, 0, u64::MAX).at(&path)?;
        let whole = frame::read(&bytes, 0, 0);
        let leases = whole.and_then(|it| serde_json::from_slice(&bytes[it.head]).ok());
        let leases = leases.ok_or_else(|| {
            let path = path.display();
            corrupt(id, format!("`{path}` is damaged; repair the store"))
        })?;
        Ok(Some(Self { path, _file: file, identity, written, leases }))
    }

    /// Returns `true` if the file is still the one that was read.
    fn is_there(&self) -> Result<bool, StoreError> {
        let found = disk::if_there(fs::symlink_metadata(&self.path)).at(&self.path)?;
        Ok(found.is_some_and(|it| self.identity.is_of(&it) && it.modified().ok() == self.written))
    }
}

/// Reads the file of a session; there were no leases if there is none.
pub(super) fn read(id: &SessionId, dir: &Path) -> Result<Leases, StoreError> {
    Ok(LeaseFile::read(id, dir)?.map(|it| it.leases).unwrap_or_default())
}

/// Writes the file of a session.
pub(super) fn write(id: &SessionId, dir: &Path, leases: &Leases) -> Result<(), StoreError> {
    let path = dir.join(LEASE);
    let head = serde_json::to_vec(leases).map_err(|error| corrupt(id, error.to_string()))?;
    let mut bytes = Vec::new();
    frame::write(&mut bytes, 0, &head, b"").and_then(|()| disk::replace(&path, &bytes)).at(&path)
}

impl Session<'_> {
    /// Checks that a writer may write now.
    pub(super) fn check_lease(
        &mut self,
        lease: Option<&Lease>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let known = match self.files.lease.take() {
            Some(known) if known.is_there()? => Some(known),
            _ => LeaseFile::read(self.id, &self.files.dir)?,
        };
        let held = known.as_ref().and_then(|it| it.leases.lease.as_ref());
        rules::check_lease(self.id, held, lease, now)?;
        self.files.lease = known;
        Ok(())
    }

    /// Takes the right to write.
    pub(super) fn lease(&mut self, claim: LeaseRequest<'_>) -> Result<Lease, StoreError> {
        let leases = read(self.id, &self.files.dir)?;
        rules::check_claim(leases.lease.as_ref(), &claim)?;
        let LeaseRequest { owner, now, ttl: lasts, .. } = claim;
        let (id, number, until) = (self.id.clone(), leases.number + 1, now.plus(lasts));
        let last_control = self.last_control()?;
        let lease = Lease { id, owner: owner.into(), number, until, last_control };
        self.say(&Leases { number, lease: Some(lease.clone()) })?;
        Ok(lease)
    }

    /// Keeps the right to write for longer.
    pub(super) fn renew(
        &mut self,
        lease: &Lease,
        now: Timestamp,
        lasts: Duration,
    ) -> Result<Lease, StoreError> {
        let (number, held) = self.held(lease)?;
        let renewed = Lease { until: now.plus(lasts), ..held };
        self.say(&Leases { number, lease: Some(renewed.clone()) })?;
        Ok(renewed)
    }

    /// Gives the right to write back.
    pub(super) fn release(&mut self, lease: &Lease) -> Result<(), StoreError> {
        match self.held(lease) {
            Ok(_) => {
                self.end_lease()?;
                self.rest();
                Ok(())
            }
            Err(StoreError::LeaseLost(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns the owner of the lease that is in force.
    pub(super) fn holder(&mut self, now: Timestamp) -> Result<Option<Arc<str>>, StoreError> {
        let Leases { lease, .. } = read(self.id, &self.files.dir)?;
        Ok(rules::lease_in_force(lease.as_ref(), now).map(|it| Arc::clone(&it.owner)))
    }

    /// Ends whatever lease there is.
    pub(super) fn end_lease(&mut self) -> Result<(), StoreError> {
        let Leases { number, lease } = read(self.id, &self.files.dir)?;
        if lease.is_some() { self.say(&Leases { number, lease: None }) } else { Ok(()) }
    }

    /// Puts another file in the place of the one that may be open.
    fn say(&mut self, leases: &Leases) -> Result<(), StoreError> {
        self.files.lease = None;
        write(self.id, &self.files.dir, leases)
    }

    /// Returns a lease as it is stored, and how many there were.
    pub(super) fn held(&self, lease: &Lease) -> Result<(u64, Lease), StoreError> {
        let leases = read(self.id, &self.files.dir)?;
        let held = leases.lease.filter(|held| held.number == lease.number);
        let held = held.ok_or_else(|| StoreError::LeaseLost(self.id.clone()))?;
        Ok((leases.number, held))
    }
}

/// Makes sure that no lease after this has the number of one before, whatever the file said.
pub(super) fn put_right(id: &SessionId, dir: &Path) -> Result<(), StoreError> {
    let path = dir.join(LEASE);
    let aside = disk::backup_path(&path, "damaged");
    fs::rename(&path, aside).at(&path)?;
    // Nobody takes a lease every microsecond, so there were fewer.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let number = u64::try_from(since.as_micros()).unwrap_or(u64::MAX / 2);
    write(id, dir, &Leases { number, lease: None })
}
