//! Files that need not be read again, because they are as they were.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::fs::Stat;

use crate::blobs::{BlobId, SnapshotId};
use crate::manifest::{EntryKind, Manifest, Modified};

/// Files that changed within this time before they were read may change again without a new time.
const UNCERTAIN: Duration = Duration::from_secs(1);

/// The state of a file at one moment, without its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    pub(crate) size: u64,
    pub(crate) modified: Modified,
    changed: Modified,
}

impl Stamp {
    pub(crate) fn of(status: &Stat) -> Self {
        let time = |seconds: i64, nanos| Modified(seconds, u32::try_from(nanos).unwrap_or(0));
        Self {
            device: status.st_dev,
            inode: status.st_ino,
            size: u64::try_from(status.st_size).unwrap_or(0),
            modified: time(status.st_mtime, status.st_mtime_nsec),
            changed: time(status.st_ctime, status.st_ctime_nsec),
        }
    }

    /// Returns `true` if a change after this moment is sure to show in the stamp.
    fn is_certain(&self, moment: SystemTime) -> bool {
        let before = moment
            .checked_sub(UNCERTAIN)
            .and_then(|it| it.duration_since(SystemTime::UNIX_EPOCH).ok());
        let limit = before
            .map(|it| Modified(i64::try_from(it.as_secs()).unwrap_or(i64::MAX), it.subsec_nanos()));
        limit.is_some_and(|limit| self.changed < limit && self.modified < limit)
    }
}

/// A snapshot, and what this process knows of the folder that has its content.
///
/// Pass it to the next [`save`](crate::Snapshots::save), so that unchanged files are not read again.
#[derive(Clone, Debug)]
pub struct Snapshot {
    id: SnapshotId,
    manifest: Arc<Manifest>,
    stamps: Arc<HashMap<PathBuf, Stamp>>,
}

impl Snapshot {
    /// `moment` is the time at which the files began to be read or written.
    pub(crate) fn new(
        id: SnapshotId,
        manifest: Manifest,
        stamps: HashMap<PathBuf, Stamp>,
        moment: SystemTime,
    ) -> Self {
        let stamps = stamps.into_iter().filter(|(_, stamp)| stamp.is_certain(moment)).collect();
        Self { id, manifest: Arc::new(manifest), stamps: Arc::new(stamps) }
    }

    /// The ID under which the snapshot can be restored.
    pub fn id(&self) -> SnapshotId {
        self.id
    }

    /// The entries.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns the blobs of each file, if the file has not changed since.
    pub(crate) fn files(&self) -> HashMap<&Path, (&Stamp, &[BlobId])> {
        let files = self.manifest.entries().iter().filter_map(|entry| match &entry.kind {
            EntryKind::File { blobs, .. } => {
                let stamp = self.stamps.get(&entry.path)?;
                Some((entry.path.as_path(), (stamp, blobs.as_slice())))
            }
            EntryKind::Folder { .. } | EntryKind::Link { .. } => None,
        });
        files.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_changed_in_the_second_before_a_save_is_read_again() {
        let stamp = |changed| Stamp {
            device: 1,
            inode: 2,
            size: 3,
            modified: Modified(50, 0),
            changed: Modified(changed, 0),
        };
        let moment = SystemTime::UNIX_EPOCH + Duration::from_secs(100);
        let certain = [98, 99, 100, 101].map(|changed| stamp(changed).is_certain(moment));
        assert_eq!(certain, [true, false, false, false]);
    }
}
