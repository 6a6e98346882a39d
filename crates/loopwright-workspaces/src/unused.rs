//! Deletion of snapshots that are no longer needed.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use futures::TryStreamExt as _;
use object_store::path::Path as ObjectPath;
use object_store::{ObjectMeta, ObjectStoreExt as _};

use crate::blobs::{BlobId, ObjectKind, REFRESH_AFTER, SnapshotId};
use crate::error::SnapshotError;
use crate::snapshots::Snapshots;

/// What was deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// The number of snapshots.
    pub snapshots: u64,
    /// The number of blobs.
    pub blobs: u64,
    /// Their size in bytes.
    pub bytes: u64,
}

impl Snapshots {
    /// Deletes all snapshots except these, and blobs that no kept snapshot needs, if they are older than a duration.
    ///
    /// Keep every current snapshot below this [prefix](Self::with_prefix). Objects younger than one day are never deleted, so
    /// that a save that runs meanwhile is safe if it takes less than half a day: it sends older blobs again.
    ///
    /// # Errors
    ///
    /// Returns an error, and deletes nothing, if a snapshot to keep cannot be loaded.
    pub async fn remove_unused(
        &self,
        keep: &[SnapshotId],
        older_than: Duration,
    ) -> Result<Removed, SnapshotError> {
        self.remove_older(keep, older_than.max(REFRESH_AFTER * 2), SystemTime::now()).await
    }

    async fn remove_older(
        &self,
        keep: &[SnapshotId],
        age: Duration,
        now: SystemTime,
    ) -> Result<Removed, SnapshotError> {
        let mut needed: HashSet<BlobId> = HashSet::new();
        for id in keep {
            needed.extend(self.load(id).await?.blobs().map(|(blob, _)| blob));
        }
        let is_old = |found: &ObjectMeta| {
            now.duration_since(found.last_modified.into()).is_ok_and(|passed| passed > age)
        };
        let mut removed = Removed::default();
        // A snapshot goes before its blobs, so that none is left that lacks some.
        for found in self.list(ObjectKind::Manifest).await?.iter().filter(|it| is_old(it)) {
            let id = name_of::<SnapshotId>(&found.location);
            if id.is_some_and(|id| !keep.contains(&id)) {
                self.delete(&found.location).await?;
                removed.snapshots += 1;
            }
        }
        for found in self.list(ObjectKind::Blob).await?.iter().filter(|it| is_old(it)) {
            let id = name_of::<BlobId>(&found.location);
            if id.is_some_and(|id| !needed.contains(&id)) {
                self.delete(&found.location).await?;
                removed.blobs += 1;
                removed.bytes += found.size;
            }
        }
        Ok(removed)
    }

    async fn list(&self, kind: ObjectKind) -> Result<Vec<ObjectMeta>, SnapshotError> {
        let folder = self.objects.folder(kind);
        self.objects.store.list(Some(&folder)).try_collect().await.map_err(SnapshotError::Storage)
    }

    async fn delete(&self, path: &ObjectPath) -> Result<(), SnapshotError> {
        match self.objects.store.delete(path).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(SnapshotError::Storage(error)),
        }
    }
}

fn name_of<T: std::str::FromStr>(path: &ObjectPath) -> Option<T> {
    path.filename()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use object_store::memory::InMemory;

    use super::*;

    #[tokio::test]
    async fn unused_snapshots_and_their_blobs_are_removed_and_kept_ones_restored() {
        let snapshots = Snapshots::new(Arc::new(InMemory::new()));
        let world = tempfile::tempdir().unwrap();
        let (folder, target) = (world.path().join("a"), world.path().join("b"));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("both"), "both").unwrap();
        fs::write(folder.join("first"), "first").unwrap();
        let first = snapshots.save(&folder, None).await.unwrap().snapshot;
        fs::remove_file(folder.join("first")).unwrap();
        let second = snapshots.save(&folder, Some(&first)).await.unwrap().snapshot;
        let now = SystemTime::now();
        let (age, keep) = (Duration::from_hours(48), [second.id()]);
        let young = snapshots.remove_older(&keep, age, now).await.unwrap();
        let later = now + Duration::from_hours(49);
        let removed = snapshots.remove_older(&keep, age, later).await.unwrap();
        let expected = Removed { snapshots: 1, blobs: 1, bytes: 5 };
        assert_eq!((young, removed), (Removed::default(), expected));
        snapshots.restore(&second.id(), &target).await.unwrap();
        assert_eq!(fs::read_to_string(target.join("both")).unwrap(), "both");
        let gone = snapshots.load(&first.id()).await.unwrap_err();
        assert_eq!(
            gone.to_string(),
            format!("unknown snapshot `{}`; check the URL of the storage", first.id())
        );
    }

    #[tokio::test]
    async fn an_unknown_snapshot_to_keep_deletes_nothing() {
        let snapshots = Snapshots::new(Arc::new(InMemory::new()));
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "content").unwrap();
        let saved = snapshots.save(folder.path(), None).await.unwrap().snapshot;
        let later = SystemTime::now() + Duration::from_hours(49);
        let keep = [SnapshotId::of(b"another")];
        snapshots.remove_older(&keep, Duration::ZERO, later).await.unwrap_err();
        let target = folder.path().join("restored");
        snapshots.restore(&saved.id(), &target).await.unwrap();
        assert_eq!(fs::read_to_string(target.join("file")).unwrap(), "content");
    }
}
