//! The list of entries of a snapshot, and its checks.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::blobs::BlobId;
use crate::error::SnapshotError;
use crate::limits::SnapshotLimits;
use crate::name;

/// The size of each blob of a file, except for the last one.
pub(crate) const CHUNK: usize = 8 << 20;

/// The version of the format.
const VERSION: u32 = 1;
/// The maximum length of a name, and that of a path.
const MAX_NAME: usize = 255;
pub(crate) const MAX_PATH: usize = 4096;

/// The entries of a folder, sorted by path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    version: u32,
    /// The permissions of the folder itself.
    mode: u32,
    entries: Vec<Entry>,
}

/// A file, a folder or a link of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The path in the folder.
    #[serde(with = "name")]
    pub path: PathBuf,
    /// The time of the last change of its content.
    pub modified: Modified,
    /// The content.
    pub kind: EntryKind,
}

/// The content of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum EntryKind {
    /// A folder.
    Folder {
        /// Its permissions.
        mode: u32,
    },
    /// A file.
    File {
        /// Its permissions.
        mode: u32,
        /// Its size in bytes.
        size: u64,
        /// Its content, in pieces of 8 MiB.
        blobs: Vec<BlobId>,
    },
    /// A symbolic link to a path in the same folder.
    Link {
        /// Its target.
        #[serde(with = "name")]
        target: PathBuf,
    },
}

/// A time of a file system: seconds since 1970, and nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Modified(pub i64, pub u32);

impl Manifest {
    /// Creates a manifest from entries in any order.
    pub(crate) fn new(mode: u32, mut entries: Vec<Entry>) -> Self {
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        Self { version: VERSION, mode, entries }
    }

    /// The entries, sorted by path.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The permissions of the folder itself.
    pub fn mode(&self) -> u32 {
        self.mode
    }

    /// The blobs of all files, each with the path of a file that contains it.
    pub(crate) fn blobs(&self) -> impl Iterator<Item = (BlobId, &Path)> {
        self.entries.iter().flat_map(|entry| {
            let blobs = match &entry.kind {
                EntryKind::File { blobs, .. } => blobs.as_slice(),
                EntryKind::Folder { .. } | EntryKind::Link { .. } => &[],
            };
            blobs.iter().map(|blob| (*blob, entry.path.as_path()))
        })
    }

    pub(crate) fn encode(&self) -> Result<Vec<u8>, SnapshotError> {
        serde_json::to_vec(self).map_err(|error| SnapshotError::invalid(error.to_string()))
    }

    /// Reads a manifest, and refuses any that could write outside its folder.
    pub(crate) fn decode(bytes: &[u8], limits: SnapshotLimits) -> Result<Self, SnapshotError> {
        let manifest: Self = serde_json::from_slice(bytes)
            .map_err(|error| SnapshotError::invalid(error.to_string()))?;
        if manifest.version != VERSION {
            let version = manifest.version;
            return Err(SnapshotError::invalid(format!("unknown version {version}")));
        }
        manifest.check(limits)?;
        Ok(manifest)
    }

    pub(crate) fn check(&self, limits: SnapshotLimits) -> Result<(), SnapshotError> {
        if self.entries.len() > limits.max_entries {
            return Err(SnapshotError::TooManyEntries { limit: limits.max_entries });
        }
        check_mode(self.mode, Path::new(""))?;
        let mut folders: HashMap<&Path, bool> = HashMap::from([(Path::new(""), true)]);
        let mut bytes = 0_u64;
        for entry in &self.entries {
            let (path, shown) = (entry.path.as_path(), entry.path.display());
            check_path(path)?;
            let parent = path.parent().unwrap_or(Path::new(""));
            if folders.get(parent) != Some(&true) {
                return Err(SnapshotError::invalid(format!("`{shown}` is not in a listed folder")));
            }
            let is_folder = matches!(entry.kind, EntryKind::Folder { .. });
            if folders.insert(path, is_folder).is_some() {
                return Err(SnapshotError::invalid(format!("`{shown}` is listed twice")));
            }
            if entry.modified.1 >= 1_000_000_000 {
                return Err(SnapshotError::invalid(format!("`{shown}` has an invalid time")));
            }
            bytes = bytes.saturating_add(check_kind(entry)?);
            if bytes > limits.max_bytes {
                return Err(SnapshotError::TooLarge { limit: limits.max_bytes });
            }
        }
        Ok(())
    }
}

/// Checks the content of an entry, and returns its size.
fn check_kind(entry: &Entry) -> Result<u64, SnapshotError> {
    let path = entry.path.as_path();
    match &entry.kind {
        EntryKind::Folder { mode } => check_mode(*mode, path).map(|()| 0),
        EntryKind::File { mode, size, blobs } => {
            check_mode(*mode, path)?;
            if size.div_ceil(CHUNK as u64) != blobs.len() as u64 {
                let reason =
                    format!("`{}` has a size that does not match its blobs", path.display());
                return Err(SnapshotError::invalid(reason));
            }
            Ok(*size)
        }
        EntryKind::Link { target } if stays_inside(path, target) => Ok(0),
        EntryKind::Link { .. } => {
            let reason = format!("link `{}` leads outside the folder", path.display());
            Err(SnapshotError::invalid(reason))
        }
    }
}

/// Only permissions: neither a type of file nor the rights of another user.
fn check_mode(mode: u32, path: &Path) -> Result<(), SnapshotError> {
    if mode & !0o777 == 0 {
        return Ok(());
    }
    Err(SnapshotError::invalid(format!("`{}` has invalid permissions {mode:o}", path.display())))
}

fn check_path(path: &Path) -> Result<(), SnapshotError> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() <= MAX_PATH && bytes.split(|byte| *byte == b'/').all(is_name) {
        return Ok(());
    }
    Err(SnapshotError::invalid(format!("`{}` is not a path in the folder", path.display())))
}

fn is_name(name: &[u8]) -> bool {
    !name.is_empty()
        && name.len() <= MAX_NAME
        && name != b"."
        && name != b".."
        && !name.contains(&0)
}

/// Returns `true` if a link leads to a path in the folder, whatever links it leads through.
///
/// `..` is possible only at the start of a target. After a name it would be relative to the target of another link.
pub(crate) fn stays_inside(link: &Path, target: &Path) -> bool {
    let target = target.as_os_str().as_bytes();
    if target.is_empty() || target.len() > MAX_PATH || target.contains(&0) || target[0] == b'/' {
        return false;
    }
    let depth = link.components().count().saturating_sub(1);
    let names = || target.split(|byte| *byte == b'/').filter(|it| !it.is_empty() && *it != b".");
    let ups = names().take_while(|name| *name == b"..").count();
    ups <= depth && !names().skip(ups).any(|name| name == b"..")
}
