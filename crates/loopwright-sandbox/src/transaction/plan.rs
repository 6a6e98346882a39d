//! The plan of applying changes, and its record.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::error::TransactionError;
use super::{Moment, OLD, PLAN};

/// What is done to a folder. Every step can be repeated: the files show whether it was made.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Plan {
    #[serde(with = "path")]
    pub(super) root: PathBuf,
    /// The folder that is changed. Plans of earlier versions do not say it.
    #[serde(default)]
    pub(super) root_is: Option<Identity>,
    /// When the current files were compared. Plans of earlier versions do not say it.
    #[serde(default)]
    pub(super) looked: Option<Moment>,
    pub(super) steps: Vec<Step>,
    /// Rights and times of folders that were there before, set when all steps are made.
    pub(super) folders: Vec<Attributes>,
}

/// What tells a folder from one that took its place. Numbers of removed folders are used again, so their age counts, too.
/// The number of the device does not: overlays, network file systems and btrfs get another one when they are mounted again, such
/// as at a restart of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    inode: u64,
    /// `None` if the file system does not record it.
    created: Option<SystemTime>,
}

impl Identity {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self { inode: metadata.ino(), created: metadata.created().ok() }
    }
}

/// One step, about one path.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Step {
    /// What is there is moved to what is kept, under this number.
    Remove {
        #[serde(with = "path")]
        path: PathBuf,
        old: usize,
        was: Mark,
    },
    /// What was collected takes the place of what is there, which is kept under this number.
    Replace {
        #[serde(with = "path")]
        path: PathBuf,
        old: usize,
        was: Mark,
        is: Mark,
    },
    /// What was collected is put where nothing is, with all that is in it.
    Add {
        #[serde(with = "path")]
        path: PathBuf,
        is: Mark,
        parts: Vec<Part>,
    },
}

impl Step {
    /// The path below the working folder.
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Remove { path, .. } | Self::Replace { path, .. } | Self::Add { path, .. } => path,
        }
    }
}

/// Something in a folder that is added.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Part {
    /// Its path below the working folder.
    #[serde(with = "path")]
    pub(super) path: PathBuf,
    pub(super) is: Mark,
}

/// What tells one version of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    pub(super) inode: u64,
    pub(super) size: u64,
    pub(super) modified: (i64, i64),
    pub(super) mode: u32,
}

/// Rights and times of a folder, before and after.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Attributes {
    #[serde(with = "path")]
    pub(super) path: PathBuf,
    pub(super) before: Look,
    pub(super) after: Look,
}

/// Rights and times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Look {
    pub(super) mode: u32,
    pub(super) accessed: (i64, i64),
    pub(super) modified: (i64, i64),
}

impl Mark {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self {
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            mode: metadata.mode(),
        }
    }

    /// Returns `true` if what is at a path is this version. A file that was replaced and then restored with its times is.
    pub(super) fn is_at(self, status: &rustix::fs::Stat) -> bool {
        let there = Self::of_status(status);
        there == Self { inode: there.inode, ..self }
    }

    pub(super) fn of_status(status: &rustix::fs::Stat) -> Self {
        Self {
            inode: status.st_ino,
            size: u64::try_from(status.st_size).unwrap_or(0),
            modified: (status.st_mtime, i64::try_from(status.st_mtime_nsec).unwrap_or(0)),
            mode: status.st_mode,
        }
    }

    pub(super) const fn is_folder(self) -> bool {
        self.mode & libc::S_IFMT == libc::S_IFDIR
    }
}

impl Look {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self {
            mode: metadata.mode() & 0o7777,
            accessed: (metadata.atime(), metadata.atime_nsec()),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

impl Plan {
    /// Puts the plan on record. From then on it is carried out.
    pub(super) fn record(&self, folder: &Path) -> Result<(), TransactionError> {
        let path = folder.join(PLAN);
        let draft = folder.join("plan.new");
        let text = serde_json::to_vec(self).map_err(|error| TransactionError::Record {
            path: path.clone(),
            reason: error.to_string(),
        })?;
        let written = File::create(&draft)
            .and_then(|mut file| file.write_all(&text))
            .and_then(|()| fs::rename(&draft, &path));
        written.map_err(TransactionError::at(&path))
    }

    /// Returns `true` if another folder has taken the place of the one that is changed, such as when the folder was restored
    /// from a copy. Then nothing of the plan is in it.
    pub(super) fn is_root_replaced(&self) -> bool {
        let Some(root) = self.root_is else { return false };
        fs::metadata(&self.root).is_ok_and(|found| Identity::of(&found) != root)
    }

    /// Reads the plan. `None` means that it is not on record.
    pub(super) fn read(folder: &Path) -> Result<Option<Self>, TransactionError> {
        let path = folder.join(PLAN);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(TransactionError::at(&path)(error)),
        };
        let plan = serde_json::from_slice(&text);
        plan.map(Some).map_err(|error| TransactionError::Record { path, reason: error.to_string() })
    }
}

/// Where something is kept that was replaced or removed.
pub(super) fn kept(folder: &Path, old: usize) -> PathBuf {
    folder.join(OLD).join(old.to_string())
}

/// Paths need not be text, so their names are kept as they are.
mod path {
    use super::{OsString, Path, PathBuf};
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub(super) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        match path.to_str() {
            Some(text) => Written::Text(text.to_owned()).serialize(serializer),
            None => Written::Bytes(path.as_os_str().to_owned()).serialize(serializer),
        }
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(
        deserializer: D,
    ) -> Result<PathBuf, D::Error> {
        Ok(match Written::deserialize(deserializer)? {
            Written::Text(text) => text.into(),
            Written::Bytes(name) => name.into(),
        })
    }

    #[derive(serde::Serialize, serde::Deserialize)]
    #[serde(untagged)]
    enum Written {
        Text(String),
        Bytes(OsString),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_stays_the_same_when_its_device_gets_another_number() {
        let folder = tempfile::tempdir().unwrap();
        let found = Identity::of(&fs::metadata(folder.path()).unwrap());
        // As a version recorded it that looked at the device.
        let mut recorded = serde_json::to_value(found).unwrap();
        recorded["device"] = u64::MAX.into();
        assert_eq!(serde_json::from_value::<Identity>(recorded).unwrap(), found);
    }
}
