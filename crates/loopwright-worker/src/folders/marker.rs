//! The note, beside a directory, that it has the content of a snapshot.

use std::{
    ffi::OsString,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use loopwright_workspaces::SnapshotId;

use super::FolderError;

/// Names the snapshot that a directory has, and the start of the machine at which that was written: files that were not yet on disk may be lost
/// when a machine fails.
#[derive(Clone, Debug)]
pub(super) struct Marker(PathBuf);

/// The ID that Linux gives each start of a machine.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

impl Marker {
    pub(super) fn beside(folder: &Path) -> Self {
        let mut name = OsString::from(".");
        name.push(folder.file_name().unwrap_or_default());
        name.push(".loopwright-snapshot");
        Self(folder.with_file_name(name))
    }

    /// Returns `true` if the directory has this content. Removes the marker, since the directory is about to change.
    pub(super) fn take(&self, id: &SnapshotId) -> Result<bool, FolderError> {
        let found = match fs::read_to_string(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            found => found.map_err(|source| self.error(source))?,
        };
        fs::remove_file(&self.0).map_err(|source| self.error(source))?;
        Ok(boot().is_some_and(|boot| found == text(id, &boot)))
    }

    /// Notes that the directory has this content.
    pub(super) fn leave(&self, id: &SnapshotId) -> Result<(), FolderError> {
        let Some(boot) = boot() else { return Ok(()) };
        let mut options = fs::OpenOptions::new();
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.write(true).create_new(true).open(&self.0);
        file.and_then(|mut file| file.write_all(text(id, &boot).as_bytes()))
            .map_err(|source| self.error(source))
    }

    fn error(&self, source: io::Error) -> FolderError {
        FolderError::Io { path: self.0.clone(), source }
    }
}

fn text(id: &SnapshotId, boot: &str) -> String {
    format!("{id} {boot}\n")
}

fn boot() -> Option<String> {
    fs::read_to_string(BOOT).ok().map(|it| it.trim().to_owned()).filter(|it| !it.is_empty())
}
