//! Atomic replacement of file contents.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, Permissions};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::time::SystemTime;

use rustix::fs::{AtFlags, Gid, Mode, OFlags, RenameFlags, Uid, XattrFlags};
use rustix::io::Errno;

use crate::files::FileError;
use crate::files::change::{FileChange, FileVersion};
use crate::files::resolve::{Parents, Place};
use crate::files::root::WorkspaceRoot;
use crate::files::shown::{self, Size};

/// The largest file that is changed.
pub(super) const MAX_BYTES: u64 = 64 << 20;

/// Whether a change waits until it is on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The system writes it to disk later. A crash of the machine may undo it.
    #[default]
    Buffered,
    /// It is on disk before the tool returns.
    Synced,
}

/// A file as it was found, which may be not at all.
#[derive(Debug)]
pub(super) struct Current<'a> {
    root: &'a WorkspaceRoot,
    /// The path as the model wrote it.
    path: &'a str,
    place: Place,
    metadata: Option<Metadata>,
    /// What it holds.
    pub(super) content: Option<Vec<u8>>,
}

/// Finds a file that is to be changed, and reads it.
pub(super) fn look<'a>(root: &'a WorkspaceRoot, path: &'a str) -> Result<Current<'a>, FileError> {
    look_in(root, path, Parents::Expect)
}

/// Finds a file that is to be changed, and reads it; directories may be created on the way.
pub(super) fn look_in<'a>(
    root: &'a WorkspaceRoot,
    path: &'a str,
    parents: Parents,
) -> Result<Current<'a>, FileError> {
    let place = root.target(path, parents)?;
    if place.found.is_none() {
        return Ok(Current { root, path, place, metadata: None, content: None });
    }
    let opened = place.open().map_err(|error| match error {
        Errno::LOOP | Errno::NOENT | Errno::NXIO => FileError::Changed(path.to_owned()),
        error => FileError::of(path, error),
    });
    let file = opened?;
    let metadata = file.metadata().map_err(|error| FileError::of(path, error))?;
    if !metadata.is_file() {
        return Err(FileError::Changed(path.to_owned()));
    }
    let on_disk = read_all(path, &file, metadata.len())?;
    // What a user has typed and not saved is changed, not lost.
    let unsaved = root.unsaved(&place.path(), &on_disk).map(String::into_bytes);
    let content = Some(unsaved.unwrap_or(on_disk));
    Ok(Current { root, path, place, metadata: Some(metadata), content })
}

fn read_all(path: &str, file: &File, bytes: u64) -> Result<Vec<u8>, FileError> {
    let mut content = Vec::new();
    let mut reader = file.take(MAX_BYTES + 1);
    reader.read_to_end(&mut content).map_err(|error| FileError::of(path, error))?;
    if content.len() as u64 > MAX_BYTES {
        return Err(FileError::TooLarge {
            path: path.to_owned(),
            bytes: Size(bytes.max(content.len() as u64)),
            limit: Size(MAX_BYTES),
            remedy: "change it with a command such as `sed`",
        });
    }
    Ok(content)
}

impl Current<'_> {
    /// Returns the number of names that the file has; one, if it is new.
    pub(super) fn links(&self) -> u64 {
        self.metadata.as_ref().map_or(1, Metadata::nlink)
    }

    /// Replaces what the file holds, or makes the file, once the change is durable.
    pub(super) fn replace(&self, content: &[u8]) -> Result<FileChange, FileError> {
        if self.root.is_protected(&self.place.screen, &self.place.path(), Some(content)) {
            return Err(FileError::Protected(self.path.to_owned()));
        }
        let staged = self.stage(content, None, None)?;
        let change = FileChange {
            path: shown::path(&self.place.path()),
            from: None,
            before: self.version(),
            after: Some(FileVersion::of(content, staged.mode)),
            folders: added([self]),
        };
        self.record(&change, self.content.as_deref())?;
        if !self.write_in_editor(content)? {
            staged.commit()?;
        }
        Ok(change)
    }

    /// Writes the file through the editor. Returns `false` if it has to be written here.
    fn write_in_editor(&self, content: &[u8]) -> Result<bool, FileError> {
        if self.root.editor().is_none() {
            return Ok(false);
        }
        self.check_unchanged()?;
        let written = self.root.write_in_editor(&self.place.path(), content);
        let is_written = written.map_err(|error| self.refusal(error))?;
        if is_written {
            self.place.made.keep();
        }
        Ok(is_written)
    }

    /// Deletes the file, once the change is on record.
    pub(super) fn delete(&self) -> Result<FileChange, FileError> {
        let change = FileChange {
            path: shown::path(&self.place.path()),
            from: None,
            before: Some(self.existing()?),
            after: None,
            folders: added([self]),
        };
        self.record(&change, self.content.as_deref())?;
        self.remove()?;
        Ok(change)
    }

    /// Moves the file to where nothing is, once the change is on record.
    pub(super) fn move_to(&self, to: &Current<'_>) -> Result<FileChange, FileError> {
        let version = self.existing()?;
        if to.metadata.is_some() {
            return Err(FileError::Exists(to.path.to_owned()));
        }
        if to.root.is_protected(&to.place.screen, &to.place.path(), self.content.as_deref()) {
            return Err(FileError::Protected(to.path.to_owned()));
        }
        let change = FileChange {
            path: shown::path(&to.place.path()),
            from: Some(shown::path(&self.place.path())),
            before: Some(version.clone()),
            after: Some(version),
            folders: added([self, to]),
        };
        self.record(&change, None)?;
        self.relocate(to)?;
        Ok(change)
    }

    /// Records that another program has changed the file, which was this before.
    pub(super) fn record_since(
        &self,
        before: Option<FileVersion>,
        content: Option<&[u8]>,
    ) -> Result<FileChange, FileError> {
        let after = self.version().map(|version| FileVersion { modified: None, ..version });
        let path = shown::path(&self.place.path());
        let change = FileChange { path, from: None, before, after, folders: added([self]) };
        self.record(&change, content)?;
        Ok(change)
    }

    /// Returns what the file is. Returns `None` if it does not exist.
    pub(super) fn version(&self) -> Option<FileVersion> {
        let (metadata, content) = self.metadata.as_ref().zip(self.content.as_ref())?;
        Some(FileVersion::found(content, metadata))
    }

    fn existing(&self) -> Result<FileVersion, FileError> {
        self.version().ok_or_else(|| FileError::Missing(self.path.to_owned()))
    }

    fn record(&self, change: &FileChange, before: Option<&[u8]>) -> Result<(), FileError> {
        let Some(journal) = self.root.journal() else { return Ok(()) };
        let recorded = journal.record(change, before);
        recorded.map_err(|source| FileError::Unrecorded { path: self.path.to_owned(), source })
    }

    /// Replaces what the file holds without putting it on record, and says that it was changed at this time.
    pub(super) fn restore(
        &self,
        content: &[u8],
        mode: u32,
        modified: Option<SystemTime>,
    ) -> Result<(), FileError> {
        self.stage(content, Some(mode), modified)?.commit()
    }

    /// Removes the file without putting it on record.
    pub(super) fn remove(&self) -> Result<(), FileError> {
        self.check_unchanged()?;
        let removed =
            rustix::fs::unlinkat(&self.place.folder.fd, &self.place.name, AtFlags::empty());
        removed.map_err(|error| self.refusal(error))?;
        self.sync()
    }

    /// Moves the file to where nothing is without putting it on record.
    pub(super) fn relocate(&self, to: &Current<'_>) -> Result<(), FileError> {
        self.check_unchanged()?;
        name_anew(&self.place, &self.place.name, &to.place).map_err(|error| match error {
            Errno::EXIST => FileError::Changed(to.path.to_owned()),
            error => self.refusal(error),
        })?;
        to.place.made.keep();
        to.sync()?;
        self.sync()
    }

    /// Waits for the disk to have the names of the directory, where changes wait for it.
    fn sync(&self) -> Result<(), FileError> {
        if self.root.waits_for_disk() {
            rustix::fs::fsync(&self.place.folder.fd).map_err(|error| self.refusal(error))?;
        }
        Ok(())
    }

    fn stage(
        &self,
        content: &[u8],
        mode: Option<u32>,
        modified: Option<SystemTime>,
    ) -> Result<Staged<'_>, FileError> {
        let failed = |error: io::Error| self.refusal(error);
        let is_private = self.metadata.is_some() || mode.is_some();
        let (mut file, name) = self.temporary(is_private).map_err(failed)?;
        let mut staged = Staged { current: self, name, mode: 0, is_committed: false };
        file.write_all(content).map_err(failed)?;
        if let Some(metadata) = &self.metadata {
            self.keep_owner(&file, metadata)?;
            keep_attributes(self, &file);
        }
        let was = self.metadata.as_ref().map(|it| it.permissions().mode());
        if let Some(mode) = mode.or(was) {
            file.set_permissions(Permissions::from_mode(mode & 0o1777)).map_err(failed)?;
        }
        if let Some(modified) = modified {
            file.set_modified(modified).map_err(failed)?;
        }
        if self.root.waits_for_disk() {
            file.sync_all().map_err(failed)?;
        }
        staged.mode = file.metadata().map_err(failed)?.permissions().mode();
        Ok(staged)
    }

    fn temporary(&self, is_private: bool) -> io::Result<(File, OsString)> {
        // Nobody but its owner sees a replacement before it has the permissions of the old file.
        let mode = Mode::from_raw_mode(if is_private { 0o600 } else { 0o666 });
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut last = Errno::EXIST;
        for attempt in 0_u32..8 {
            let name = format!(".loopwright-{:016x}.tmp", RandomState::new().hash_one(attempt));
            match rustix::fs::openat(&self.place.folder.fd, &name, flags, mode) {
                Ok(fd) => return Ok((fd.into(), name.into())),
                Err(Errno::EXIST) => last = Errno::EXIST,
                Err(error) => return Err(error.into()),
            }
        }
        Err(last.into())
    }

    fn keep_owner(&self, file: &File, metadata: &Metadata) -> Result<(), FileError> {
        let new = file.metadata().map_err(|error| self.refusal(error))?;
        let owner = (new.uid() != metadata.uid()).then(|| Uid::from_raw(metadata.uid()));
        let group = (new.gid() != metadata.gid()).then(|| Gid::from_raw(metadata.gid()));
        if owner.is_none() && group.is_none() {
            return Ok(());
        }
        rustix::fs::fchown(file, owner, group).map_err(|_| FileError::Owner(self.path.to_owned()))
    }

    /// Sees that the name still leads to the file that was read, and that it is as it was.
    fn check_unchanged(&self) -> Result<(), FileError> {
        let Some(was) = &self.metadata else { return Ok(()) };
        let is = self.place.open().map_err(io::Error::from).and_then(|file| file.metadata());
        match is {
            Ok(is) if identity(&is) == identity(was) => Ok(()),
            _ => Err(FileError::Changed(self.path.to_owned())),
        }
    }

    fn refusal(&self, error: impl Into<io::Error>) -> FileError {
        FileError::of(self.path, error)
    }
}

/// Returns the added folders that files are in.
fn added<const N: usize>(files: [&Current<'_>; N]) -> Vec<String> {
    let folder =
        |it: &Current<'_>| it.root.prefix(it.place.folder.base).to_str().map(str::to_owned);
    let mut folders: Vec<_> = files.into_iter().filter_map(folder).collect();
    folders.retain(|it| !it.is_empty());
    folders.dedup();
    folders
}

type Identity = (u64, u64, u64, (i64, i64), (i64, i64));

fn identity(it: &Metadata) -> Identity {
    (it.dev(), it.ino(), it.len(), (it.mtime(), it.mtime_nsec()), (it.ctime(), it.ctime_nsec()))
}

/// Copies access control lists and other attributes, as far as the file system and the user's rights
/// allow it.
fn keep_attributes(current: &Current<'_>, file: &File) {
    let Ok(old) = current.place.open() else { return };
    let mut names = vec![0; 16 << 10];
    let Ok(length) = rustix::fs::flistxattr(&old, names.as_mut_slice()) else { return };
    let mut value = vec![0; 64 << 10];
    for name in names[..length].split(|byte| *byte == 0).filter(|it| !it.is_empty()) {
        let name = OsStr::from_bytes(name);
        if let Ok(length) = rustix::fs::fgetxattr(&old, name, value.as_mut_slice()) {
            rustix::fs::fsetxattr(file, name, &value[..length], XattrFlags::empty()).ok();
        }
    }
}

/// A new content beside the old one. Dropping it leaves the old one in place.
struct Staged<'a> {
    current: &'a Current<'a>,
    name: OsString,
    mode: u32,
    is_committed: bool,
}

impl Staged<'_> {
    fn commit(mut self) -> Result<(), FileError> {
        let folder = &self.current.place.folder.fd;
        let name = &self.current.place.name;
        if self.current.metadata.is_some() {
            self.current.check_unchanged()?;
            rustix::fs::renameat(folder, &self.name, folder, name)
                .map_err(|error| self.current.refusal(error))?;
        } else {
            self.create()?;
        }
        self.is_committed = true;
        self.current.place.made.keep();
        self.current.sync()
    }

    /// Gives the content its name, unless another process was faster.
    fn create(&self) -> Result<(), FileError> {
        let place = &self.current.place;
        name_anew(place, &self.name, place).map_err(|error| match error {
            Errno::EXIST => FileError::Changed(self.current.path.to_owned()),
            error => self.current.refusal(error),
        })
    }
}

/// Renames a file of one folder to a name that is free.
fn name_anew(from: &Place, name: &OsStr, to: &Place) -> rustix::io::Result<()> {
    let (old, new) = (&from.folder.fd, &to.folder.fd);
    match rustix::fs::renameat_with(old, name, new, &to.name, RenameFlags::NOREPLACE) {
        // Not every file system can; all but a few have hard links instead.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            rustix::fs::linkat(old, name, new, &to.name, AtFlags::empty())?;
            rustix::fs::unlinkat(old, name, AtFlags::empty()).ok();
            Ok(())
        }
        renamed => renamed,
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        if !self.is_committed {
            let folder = &self.current.place.folder.fd;
            rustix::fs::unlinkat(folder, &self.name, AtFlags::empty()).ok();
        }
    }
}

#[cfg(test)]
mod tests;
