//! File contents and directory listings below a root, for programs.

use std::io::Read as _;

use rustix::fs::{AtFlags, FileType};
use tokio_util::sync::CancellationToken;

use crate::files::FileError;
use crate::files::list::entries;
use crate::files::root::WorkspaceRoot;

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The name.
    pub name: String,
    /// `true` for a directory, `false` for a file.
    pub is_directory: bool,
    /// The size of a file in bytes; 0 for a directory.
    pub bytes: u64,
}

impl WorkspaceRoot {
    /// Reads a whole file, if it has at most so many bytes. `None` means that it is longer. Nothing outside of the
    /// directory is opened. Blocks.
    ///
    /// # Errors
    ///
    /// Returns an error if the file does not exist or cannot be read.
    pub fn read_bytes(&self, path: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, FileError> {
        let (file, _, _) = self.read(path)?;
        let mut bytes = Vec::new();
        // What a file says of its length is not always so.
        let mut reader = file.take(max_bytes.saturating_add(1));
        reader.read_to_end(&mut bytes).map_err(|error| FileError::of(path, error))?;
        Ok(Some(bytes).filter(|it| it.len() as u64 <= max_bytes))
    }

    /// Lists the directories and regular files in a directory by their names, up to a number of them. The flag is
    /// `true` if these are all. Links, other kinds of files, and names that are not UTF-8 are left out. Blocks.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory does not exist.
    pub fn entries(
        &self,
        path: &str,
        most: usize,
    ) -> Result<(Vec<DirectoryEntry>, bool), FileError> {
        let folder = self.folder(path)?;
        let (found, is_whole) = entries(path, &folder.fd, most, &CancellationToken::new())?;
        let mut listed: Vec<DirectoryEntry> = found
            .into_iter()
            .filter(|it| matches!(it.kind, FileType::Directory | FileType::RegularFile))
            .filter_map(|it| {
                let is_directory = it.kind == FileType::Directory;
                let stat = rustix::fs::statat(&folder.fd, &it.name, AtFlags::SYMLINK_NOFOLLOW);
                let bytes = stat.ok().and_then(|it| u64::try_from(it.st_size).ok());
                let bytes = bytes.filter(|_| !is_directory).unwrap_or_default();
                Some(DirectoryEntry { name: it.name.into_string().ok()?, is_directory, bytes })
            })
            .collect();
        listed.sort_by(|a, b| a.name.cmp(&b.name));
        Ok((listed, is_whole))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_directory_is_listed_and_its_files_are_read_without_following_links_out_of_it() {
        let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(other.path().join("secret"), "x").unwrap();
        fs::write(directory.path().join("b"), [0, 159, 1]).unwrap();
        fs::create_dir(directory.path().join("a")).unwrap();
        std::os::unix::fs::symlink(other.path(), directory.path().join("out")).unwrap();
        let root = WorkspaceRoot::new(directory.path());
        let entry = |name: &str, is_directory, bytes| DirectoryEntry {
            name: name.into(),
            is_directory,
            bytes,
        };
        assert_eq!(
            root.entries(".", 9).unwrap(),
            (vec![entry("a", true, 0), entry("b", false, 3)], true)
        );
        assert!(!root.entries(".", 1).unwrap().1);
        assert_eq!(root.read_bytes("b", 3).unwrap(), Some(vec![0, 159, 1]));
        assert_eq!(root.read_bytes("b", 2).unwrap(), None);
        assert!(matches!(root.read_bytes("out/secret", 9), Err(FileError::Outside(_))));
        assert!(matches!(root.entries("out", 9), Err(FileError::Outside(_))));
        assert!(matches!(root.entries("../", 9), Err(FileError::Outside(_))));
    }
}
