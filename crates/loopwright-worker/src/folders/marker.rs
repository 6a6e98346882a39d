//! The note, beside a directory, that it has the content of a snapshot.

use std::{
    ffi::OsString,
    fs,
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use loopwright_workspaces::SnapshotId;

use super::FolderError;

/// Names the snapshot that a directory has, the directory, and the start of the machine at which that was written: files that
/// were not yet on disk may be lost when a machine fails, and another directory may have taken the place of this one.
#[derive(Clone, Debug)]
pub(super) struct Marker {
    folder: PathBuf,
    path: PathBuf,
}

/// The ID that Linux gives each start of a machine.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

impl Marker {
    pub(super) fn beside(folder: &Path) -> Self {
        let mut name = OsString::from(".");
        name.push(folder.file_name().unwrap_or_default());
        name.push(".loopwright-snapshot");
        Self { path: folder.with_file_name(name), folder: folder.to_owned() }
    }

    /// Removes the marker, since the directory is about to change, and returns its text.
    pub(super) fn take(&self) -> Result<Option<String>, FolderError> {
        let found = match fs::read_to_string(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            // It is not one that this program wrote.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => None,
            found => Some(found.map_err(|source| self.error(source))?),
        };
        fs::remove_file(&self.path).map_err(|source| self.error(source))?;
        Ok(found)
    }

    /// Returns `true` if the text of a marker says that the directory has this content.
    pub(super) fn says(&self, found: Option<&str>, id: &SnapshotId) -> bool {
        found.is_some_and(|found| self.text(id).is_some_and(|text| found == text))
    }

    /// Notes that the directory has this content.
    pub(super) fn leave(&self, id: &SnapshotId) -> Result<(), FolderError> {
        let Some(text) = self.text(id) else { return Ok(()) };
        let mut draft = self.path.clone().into_os_string();
        draft.push(".new");
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&draft);
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .and_then(|()| fs::rename(&draft, &self.path))
            .map_err(|source| self.error(source))
    }

    /// Returns `None` if the directory or the start of the machine is unknown.
    fn text(&self, id: &SnapshotId) -> Option<String> {
        let boot = fs::read_to_string(BOOT).ok()?;
        let found = fs::symlink_metadata(&self.folder).ok()?;
        Some(format!("{id} {} {}:{}\n", boot.trim(), found.dev(), found.ino()))
    }

    fn error(&self, source: io::Error) -> FolderError {
        FolderError::Io { path: self.path.clone(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_speaks_of_one_directory_with_one_content_until_it_is_taken() {
        let world = tempfile::tempdir().unwrap();
        let folder = world.path().join("a");
        let [id, other] = ["a", "b"].map(|digit| digit.repeat(64).parse::<SnapshotId>().unwrap());
        fs::create_dir(&folder).unwrap();
        let marker = Marker::beside(&folder);
        marker.leave(&other).unwrap();
        marker.leave(&id).unwrap();
        let found = marker.take().unwrap();
        let says = |id| marker.says(found.as_deref(), id);
        assert_eq!((says(&id), says(&other)), (true, false));
        assert_eq!(marker.take().unwrap(), None);
        // Another directory has taken its place.
        fs::rename(&folder, world.path().join("b")).unwrap();
        fs::create_dir(&folder).unwrap();
        assert!(!marker.says(found.as_deref(), &id));
    }
}
