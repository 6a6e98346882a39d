//! Saving a folder.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use rustix::fs::{FileType, fstat};

use crate::blobs::{BlobId, ObjectKind, SnapshotId};
use crate::error::{SnapshotError, blocking};
use crate::manifest::{CHUNK, Entry, EntryKind, Manifest};
use crate::scan::{LeftOut, Scan, open_file, scan};
use crate::snapshots::{PARALLEL, Snapshots};
use crate::stamp::{Snapshot, Stamp};

/// How often a file is read again if it changed meanwhile.
const ATTEMPTS: usize = 3;

/// A saved folder.
#[derive(Clone, Debug)]
pub struct Saved {
    /// The snapshot.
    pub snapshot: Snapshot,
    /// What was sent to the storage.
    pub sent: Sent,
    /// Entries of the folder that the snapshot does not contain.
    pub left_out: Vec<LeftOut>,
}

/// What was sent to the storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// The number of blobs.
    pub blobs: u64,
    /// Their size.
    pub bytes: u64,
    /// The number of files that were read.
    pub files_read: u64,
}

/// A file that was read and sent.
struct SavedFile {
    stamp: Stamp,
    mode: u32,
    blobs: Vec<BlobId>,
    sent: Sent,
}

impl Snapshots {
    /// Saves a folder, and sends the blobs that neither the previous snapshot nor the storage has.
    ///
    /// With the [`Snapshot`] of the last save or restore of this folder, files are not read again if their size, times and
    /// inode have not changed. Its blobs must still be in the storage.
    ///
    /// The snapshot has files, folders, links within the folder, their permissions and times of change. It has no owners,
    /// extended attributes or special permissions, and a file with several hard links becomes several files. [Caches and links
    /// out of the folder](crate::LeftOutReason) are left out.
    ///
    /// If this fails or is dropped, every earlier snapshot is intact.
    ///
    /// # Errors
    ///
    /// Returns an error if the folder exceeds the limits, cannot be read or keeps changing, or if the storage is unavailable.
    pub async fn save(
        &self,
        folder: &Path,
        previous: Option<&Snapshot>,
    ) -> Result<Saved, SnapshotError> {
        let moment = SystemTime::now();
        let (path, left_out, limits) = (folder.to_owned(), self.left_out.clone(), self.limits);
        let scanned = blocking(move || scan(&path, &left_out, limits)).await?;
        let Scan { root, mode, entries, left_out } = scanned;
        let (root, known) = (Arc::new(File::from(root)), previous.map(Snapshot::files));
        let stored: HashSet<BlobId> =
            previous.iter().flat_map(|it| it.manifest().blobs()).map(|(blob, _)| blob).collect();
        let stored = Mutex::new(stored);
        let (known, stored, root) = (&known.unwrap_or_default(), &stored, &root);
        let entries: Vec<(Entry, Option<SavedFile>)> = stream::iter(entries)
            .map(|entry| async move {
                if !matches!(entry.kind, EntryKind::File { .. }) {
                    return Ok(Some((entry, None)));
                }
                let known = known.get(entry.path.as_path()).copied();
                let file = self.save_file(root, folder, &entry.path, known, stored).await?;
                Ok::<_, SnapshotError>(file.map(|file| (entry, Some(file))))
            })
            .buffer_unordered(PARALLEL)
            .try_filter_map(async |it| Ok(it))
            .try_collect()
            .await?;
        let mut sent = Sent::default();
        let mut stamps = HashMap::new();
        let entries = entries.into_iter().map(|(mut entry, file)| {
            if let Some(SavedFile { stamp, mode, blobs, sent: more }) = file {
                sent.blobs += more.blobs;
                sent.bytes += more.bytes;
                sent.files_read += more.files_read;
                entry.modified = stamp.modified;
                entry.kind = EntryKind::File { mode, size: stamp.size, blobs };
                stamps.insert(entry.path.clone(), stamp);
            }
            entry
        });
        let manifest = Manifest::new(mode, entries.collect());
        // Files can have grown since the scan.
        manifest.check(self.limits)?;
        let content = Bytes::from(manifest.encode()?);
        let id = SnapshotId::of(&content);
        if previous.is_none_or(|previous| previous.id() != id) {
            self.objects.put(ObjectKind::Manifest, &id, content).await?;
        }
        Ok(Saved { snapshot: Snapshot::new(id, manifest, stamps, moment), sent, left_out })
    }

    /// Sends the blobs of a file. `None` means that it is not a file any more.
    async fn save_file(
        &self,
        root: &Arc<File>,
        folder: &Path,
        path: &Path,
        known: Option<(&Stamp, &[BlobId])>,
        stored: &Mutex<HashSet<BlobId>>,
    ) -> Result<Option<SavedFile>, SnapshotError> {
        for _ in 0..ATTEMPTS {
            let (opened, shown, at) = (Arc::clone(root), folder.join(path), path.to_owned());
            let open = move || match open_file(&*opened, &at) {
                Ok(file) => look(&File::from(file), &shown),
                Err(error) if is_gone(&error) => Ok(None),
                Err(error) => Err(SnapshotError::at(&shown)(error)),
            };
            let Some((file, stamp, mode)) = blocking(open).await? else { return Ok(None) };
            if let Some((_, blobs)) = known.filter(|(was, _)| **was == stamp) {
                let (blobs, sent) = (blobs.to_vec(), Sent::default());
                return Ok(Some(SavedFile { stamp, mode, blobs, sent }));
            }
            let file = Arc::new(file);
            let (blobs, sent) = self.send(&file, &folder.join(path), stored).await?;
            let shown = folder.join(path);
            let after = blocking(move || look(&file, &shown)).await?;
            if after.is_some_and(|(_, after, _)| after == stamp) {
                return Ok(Some(SavedFile { stamp, mode, blobs, sent }));
            }
        }
        Err(SnapshotError::Changing { path: path.to_owned() })
    }

    /// Reads a file to its end, and sends the pieces that the storage does not have.
    async fn send(
        &self,
        file: &Arc<File>,
        shown: &Path,
        stored: &Mutex<HashSet<BlobId>>,
    ) -> Result<(Vec<BlobId>, Sent), SnapshotError> {
        let (mut blobs, mut sent) = (Vec::new(), Sent { files_read: 1, ..Sent::default() });
        loop {
            let offset = blobs.len() as u64 * CHUNK as u64;
            let (file, shown) = (Arc::clone(file), shown.to_owned());
            let piece = blocking(move || piece(&file, offset, &shown)).await?;
            let Some((blob, content)) = piece else { return Ok((blobs, sent)) };
            let size = content.len();
            // Another file of this save may be sending the same content. If that fails, the save fails.
            let is_new = stored.lock().unwrap_or_else(PoisonError::into_inner).insert(blob);
            if is_new && self.objects.put(ObjectKind::Blob, &blob, content).await? {
                sent.blobs += 1;
                sent.bytes += size as u64;
            }
            blobs.push(blob);
            if size < CHUNK {
                return Ok((blobs, sent));
            }
        }
    }
}

/// Returns a handle to a file, its state and its permissions. `None` means that it is not a file.
fn look(file: &File, shown: &Path) -> Result<Option<(File, Stamp, u32)>, SnapshotError> {
    let status = fstat(file).map_err(|error| SnapshotError::at(shown)(error.into()))?;
    if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
        return Ok(None);
    }
    let copy = file.try_clone().map_err(SnapshotError::at(shown))?;
    Ok(Some((copy, Stamp::of(&status), status.st_mode & 0o777)))
}

/// Reads the piece at an offset. `None` means that the file ends there.
fn piece(file: &File, offset: u64, shown: &Path) -> Result<Option<(BlobId, Bytes)>, SnapshotError> {
    let left = file.metadata().map_err(SnapshotError::at(shown))?.len().saturating_sub(offset);
    let mut content = vec![0; usize::try_from(left).unwrap_or(CHUNK).min(CHUNK)];
    let mut read = 0;
    while read < content.len() {
        match file.read_at(&mut content[read..], offset + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(SnapshotError::at(shown)(error)),
        }
    }
    content.truncate(read);
    Ok((read > 0).then(|| (BlobId::of(&content), Bytes::from(content))))
}

/// Returns `true` if a path is not there any more, or has become a link.
fn is_gone(error: &std::io::Error) -> bool {
    let gone = [rustix::io::Errno::NOENT, rustix::io::Errno::LOOP, rustix::io::Errno::NOTDIR];
    gone.iter().any(|it| error.raw_os_error() == Some(it.raw_os_error()))
}
