//! Restoring a folder.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use rustix::fs::{
    AtFlags, CWD, FlockOperation, Mode, OFlags, RenameFlags, Timespec, Timestamps, flock, fstat,
    futimens, renameat_with, utimensat,
};

use crate::blobs::{BlobId, ObjectKind, SnapshotId};
use crate::error::{SnapshotError, blocking};
use crate::manifest::{CHUNK, Entry, EntryKind, Manifest, Modified};
use crate::snapshots::{PARALLEL, Snapshots};
use crate::stamp::{Snapshot, Stamp};

/// The folder of the replaced content, where two folders cannot be exchanged.
const OLD: &str = "old";

/// How often a restore that was dropped may write to its folder while that is removed.
const MAX_WRITES: usize = 2 * PARALLEL;

/// The number of the next restore of this process. A restore that was dropped may still write a file to its folder.
static NEXT: AtomicU64 = AtomicU64::new(0);

impl Snapshots {
    /// Reads the manifest of a snapshot.
    ///
    /// # Errors
    ///
    /// Returns an error if the snapshot does not exist, is damaged, exceeds the limits, or has entries that could leave the
    /// folder.
    pub async fn load(&self, id: &SnapshotId) -> Result<Manifest, SnapshotError> {
        let limit = self.limits.max_manifest();
        let found = self.objects.get(ObjectKind::Manifest, id, limit).await?;
        let content = found.ok_or(SnapshotError::UnknownSnapshot(*id))?;
        if SnapshotId::of(&content) != *id {
            return Err(SnapshotError::Damaged(id.to_string()));
        }
        Manifest::decode(&content, self.limits)
    }

    /// Writes a snapshot to a folder, and replaces everything in it.
    ///
    /// The content is written to `.NAME.loopwright-restore` beside the folder, which then replaces it as a whole. If this fails
    /// or is dropped before that, the folder does not change, and the next restore removes what is left. A file system that cannot
    /// exchange two folders has a moment without the folder: if the process ends then, the next restore first puts it back.
    ///
    /// # Errors
    ///
    /// Returns an error if the snapshot cannot be [loaded](Self::load) or lacks a blob, if the folder is a file or a link, or if
    /// another process restores the same folder.
    pub async fn restore(&self, id: &SnapshotId, folder: &Path) -> Result<Snapshot, SnapshotError> {
        let manifest = Arc::new(self.load(id).await?);
        let (target, listed) = (folder.to_owned(), Arc::clone(&manifest));
        let staging = blocking(move || Staging::open(&target, &listed)).await?;
        let staging = Arc::new(staging);
        let written = self.write_files(&manifest, &staging).await;
        let listed = Arc::clone(&manifest);
        let stamps = blocking(move || match written {
            Ok(stamps) => staging.finish(&listed).map(|()| stamps),
            Err(error) => {
                staging.discard();
                Err(error)
            }
        });
        let stamps = stamps.await?;
        let manifest = Arc::unwrap_or_clone(manifest);
        Ok(Snapshot::new(*id, manifest, stamps, SystemTime::now()))
    }

    async fn write_files(
        &self,
        manifest: &Manifest,
        staging: &Arc<Staging>,
    ) -> Result<HashMap<PathBuf, Stamp>, SnapshotError> {
        // Indices, because a closure that borrows entries would make the future of a restore not `Send`.
        let files = 0..manifest.entries().len();
        let written = stream::iter(files)
            .map(|index| async move {
                let entry = &manifest.entries()[index];
                let EntryKind::File { mode, size, blobs } = &entry.kind else { return Ok(None) };
                let file = self.write_file(entry, *size, blobs, staging).await?;
                let (whole, modified) = (staging.new.join(&entry.path), entry.modified);
                let mode = *mode;
                let stamp = blocking(move || finish_file(&file, mode, modified, &whole)).await?;
                Ok(Some((entry.path.clone(), stamp)))
            })
            .buffer_unordered(PARALLEL);
        written.try_filter_map(async |it| Ok(it)).try_collect().await
    }

    async fn write_file(
        &self,
        entry: &Entry,
        size: u64,
        blobs: &[BlobId],
        staging: &Arc<Staging>,
    ) -> Result<File, SnapshotError> {
        let whole = staging.new.join(&entry.path);
        let path = whole.clone();
        let create = move || {
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(0o600);
            options.open(&path).map_err(SnapshotError::at(&path))
        };
        let mut file = blocking(create).await?;
        let mut left = size;
        for blob in blobs {
            let expected = left.min(CHUNK as u64);
            left -= expected;
            let found = self.objects.get(ObjectKind::Blob, blob, CHUNK as u64).await?;
            let path = || entry.path.clone();
            let content =
                found.ok_or_else(|| SnapshotError::MissingBlob { blob: *blob, path: path() })?;
            let (blob, whole) = (*blob, whole.clone());
            file = blocking(move || {
                if content.len() as u64 != expected || BlobId::of(&content) != blob {
                    return Err(SnapshotError::Damaged(blob.to_string()));
                }
                file.write_all(&content).map_err(SnapshotError::at(&whole))?;
                Ok(file)
            })
            .await?;
        }
        Ok(file)
    }
}

/// A locked folder beside the target, in which the new content is written.
#[derive(Debug)]
struct Staging {
    target: PathBuf,
    folder: PathBuf,
    new: PathBuf,
    /// Released when the process ends.
    _lock: File,
}

impl Staging {
    /// Locks the folder, removes what an earlier restore left in it, and creates all folders and links of the snapshot.
    fn open(target: &Path, manifest: &Manifest) -> Result<Self, SnapshotError> {
        let target = std::path::absolute(target).map_err(SnapshotError::at(target))?;
        let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
            return Err(SnapshotError::at(&target)(io::ErrorKind::InvalidInput.into()));
        };
        match fs::symlink_metadata(&target) {
            Ok(found) if !found.is_dir() => {
                return Err(SnapshotError::at(&target)(io::ErrorKind::NotADirectory.into()));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(parent).map_err(SnapshotError::at(parent))?;
            }
            Err(error) => return Err(SnapshotError::at(&target)(error)),
        }
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(".loopwright-restore");
        let folder = parent.join(hidden);
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(SnapshotError::at(&folder)(error));
            }
            _ => {}
        }
        let lock = lock(&folder, &target)?;
        put_back(&folder.join(OLD), &target).map_err(SnapshotError::at(&target))?;
        for left in fs::read_dir(&folder).map_err(SnapshotError::at(&folder))?.flatten() {
            remove_tree(&left.path()).map_err(SnapshotError::at(&folder))?;
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let new = folder.join(format!("new-{}-{number}", std::process::id()));
        let staging = Self { target, folder, new, _lock: lock };
        if let Err((path, source)) = staging.create(manifest) {
            staging.discard();
            return Err(SnapshotError::Io { path, source });
        }
        Ok(staging)
    }

    /// Creates folders, which only this user can enter yet, and links.
    fn create(&self, manifest: &Manifest) -> Result<(), (PathBuf, io::Error)> {
        let make = |path: &Path| DirBuilder::new().mode(0o700).create(path);
        make(&self.new).map_err(|error| (self.new.clone(), error))?;
        for entry in manifest.entries() {
            let path = self.new.join(&entry.path);
            let created = match &entry.kind {
                EntryKind::Folder { .. } => make(&path),
                EntryKind::Link { target } => std::os::unix::fs::symlink(target, &path)
                    .and_then(|()| set_link_times(&path, entry.modified)),
                EntryKind::File { .. } => Ok(()),
            };
            created.map_err(|error| (path, error))?;
        }
        Ok(())
    }

    /// Sets permissions and times of all folders, and replaces the target.
    fn finish(&self, manifest: &Manifest) -> Result<(), SnapshotError> {
        let replaced = self.replace(manifest);
        self.discard();
        replaced
    }

    fn replace(&self, manifest: &Manifest) -> Result<(), SnapshotError> {
        // What is in a folder comes before the folder, whose rights may be withdrawn.
        for entry in manifest.entries().iter().rev() {
            if let EntryKind::Folder { mode } = &entry.kind {
                let path = self.new.join(&entry.path);
                let set =
                    File::open(&path).and_then(|it| set_attributes(&it, *mode, entry.modified));
                set.map_err(SnapshotError::at(&path))?;
            }
        }
        self.exchange().map_err(SnapshotError::at(&self.target))?;
        // A folder without write permission cannot be moved, so this comes last.
        fs::set_permissions(&self.target, Permissions::from_mode(manifest.mode()))
            .map_err(SnapshotError::at(&self.target))
    }

    fn exchange(&self) -> io::Result<()> {
        let rename = |flags| renameat_with(CWD, &self.new, CWD, &self.target, flags);
        if !self.target.exists() {
            return Ok(rename(RenameFlags::NOREPLACE)?);
        }
        match rename(RenameFlags::EXCHANGE) {
            Ok(()) => Ok(()),
            // The file system cannot exchange two folders.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                move_over(&self.new, &self.target, &self.folder.join(OLD))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Removes the folder. The next restore removes what cannot be removed now.
    fn discard(&self) {
        remove_tree(&self.folder).ok();
    }
}

/// Replaces a folder by another one, and keeps it as `old`. If this fails, the folder stays.
fn move_over(new: &Path, target: &Path, old: &Path) -> io::Result<()> {
    fs::rename(target, old)?;
    fs::rename(new, target).inspect_err(|_| {
        fs::rename(old, target).ok();
    })
}

/// Puts back the replaced folder if the new one did not take its place, because the process ended in between.
fn put_back(old: &Path, target: &Path) -> io::Result<()> {
    let is_folder = fs::symlink_metadata(old).is_ok_and(|it| it.is_dir());
    if !is_folder || fs::symlink_metadata(target).is_ok() {
        return Ok(());
    }
    fs::rename(old, target)
}

/// Locks the folder of a restore until the process ends.
fn lock(folder: &Path, target: &Path) -> Result<File, SnapshotError> {
    let failed = |error: rustix::io::Errno| SnapshotError::at(folder)(error.into());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = File::from(rustix::fs::open(folder, flags, Mode::empty()).map_err(failed)?);
    match flock(&opened, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => return Err(SnapshotError::Busy(target.to_owned())),
        Err(error) => return Err(failed(error)),
    }
    let found = opened.metadata().map_err(SnapshotError::at(folder))?;
    // In a folder that others write to, another user may have been first.
    if found.uid() != rustix::process::geteuid().as_raw() || found.mode() & 0o022 != 0 {
        return Err(SnapshotError::at(folder)(io::ErrorKind::PermissionDenied.into()));
    }
    // Its owner may have removed it in between.
    if fs::symlink_metadata(folder).is_ok_and(|it| it.ino() == found.ino()) {
        return Ok(opened);
    }
    Err(SnapshotError::Busy(target.to_owned()))
}

fn finish_file(
    file: &File,
    mode: u32,
    modified: Modified,
    path: &Path,
) -> Result<Stamp, SnapshotError> {
    set_attributes(file, mode, modified).map_err(SnapshotError::at(path))?;
    let status = fstat(file).map_err(io::Error::from).map_err(SnapshotError::at(path))?;
    Ok(Stamp::of(&status))
}

fn set_attributes(opened: &File, mode: u32, modified: Modified) -> io::Result<()> {
    futimens(opened.as_fd(), &times(modified))?;
    opened.set_permissions(Permissions::from_mode(mode))
}

fn set_link_times(path: &Path, modified: Modified) -> io::Result<()> {
    Ok(utimensat(CWD, path, &times(modified), AtFlags::SYMLINK_NOFOLLOW)?)
}

fn times(Modified(seconds, nanos): Modified) -> Timestamps {
    let time = Timespec { tv_sec: seconds, tv_nsec: nanos.into() };
    Timestamps { last_access: time, last_modification: time }
}

/// Removes a folder with everything in it, whatever its permissions. Does nothing if it does not exist.
fn remove_tree(folder: &Path) -> io::Result<()> {
    let mut attempts = 0;
    loop {
        make_writable(folder);
        match fs::remove_dir_all(folder) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            // A restore that was dropped has written one more file.
            Err(error)
                if error.kind() == io::ErrorKind::DirectoryNotEmpty && attempts < MAX_WRITES =>
            {
                attempts += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Lets this user change every folder below. What cannot be changed fails later.
fn make_writable(folder: &Path) {
    let Ok(found) = fs::symlink_metadata(folder) else { return };
    if !found.is_dir() {
        return;
    }
    if found.mode() & 0o700 != 0o700 {
        fs::set_permissions(folder, Permissions::from_mode(0o700)).ok();
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        make_writable(&entry.path());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_whose_restore_ended_between_two_renames_is_put_back_by_the_next_one() {
        let world = tempfile::tempdir().unwrap();
        let (target, hidden) =
            (world.path().join("target"), world.path().join(".target.loopwright-restore"));
        fs::create_dir_all(hidden.join(OLD)).unwrap();
        fs::set_permissions(&hidden, Permissions::from_mode(0o700)).unwrap();
        fs::write(hidden.join(OLD).join("file"), "before").unwrap();
        let manifest = Manifest::new(0o755, Vec::new());
        let staging = Staging::open(&target, &manifest).unwrap();
        staging.discard();
        drop(staging);
        assert_eq!(fs::read_to_string(target.join("file")).unwrap(), "before");
        assert!(!hidden.exists());
        // What a finished restore could not remove is not put back.
        fs::create_dir_all(hidden.join(OLD)).unwrap();
        fs::set_permissions(&hidden, Permissions::from_mode(0o700)).unwrap();
        fs::write(hidden.join(OLD).join("older"), "").unwrap();
        Staging::open(&target, &manifest).unwrap().finish(&manifest).unwrap();
        assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
        assert!(!hidden.exists());
    }

    #[test]
    fn a_folder_that_cannot_be_replaced_stays() {
        let world = tempfile::tempdir().unwrap();
        let [new, target, old] = ["new", "target", "old"].map(|name| world.path().join(name));
        fs::create_dir(&target).unwrap();
        fs::write(target.join("file"), "before").unwrap();
        move_over(&new, &target, &old).unwrap_err();
        assert_eq!(fs::read_to_string(target.join("file")).unwrap(), "before");
        fs::create_dir(&new).unwrap();
        move_over(&new, &target, &old).unwrap();
        assert!(!target.join("file").exists() && old.join("file").exists());
    }
}
