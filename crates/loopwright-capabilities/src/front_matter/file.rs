//! Files that are read completely.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The maximum size of a file.
pub const MAX_BYTES: u64 = 1 << 20;

/// An error of a file that is not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// The file cannot be opened or read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The path is a directory, a pipe or a device.
    #[error("not a regular file")]
    NotAFile,
    /// The file is too long.
    #[error("the file is {0} bytes long; at most {MAX_BYTES} are allowed")]
    TooLong(u64),
    /// The file is a link that leads outside its directory.
    #[error("the link leads outside its directory")]
    Outside,
    /// The file belongs to another user.
    #[error("the file belongs to another user; change its owner to use it")]
    Foreign,
    /// The file is not text.
    #[error("not UTF-8")]
    NotUtf8,
}

/// Reads a file that was named explicitly. Blocks.
///
/// # Errors
///
/// Returns an error if the path is not a regular file, is longer than [`MAX_BYTES`], or is not
/// text.
pub fn read_file(path: &Path) -> Result<String, TextError> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(TextError::NotAFile);
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    let read = bytes.len() as u64;
    if read > MAX_BYTES {
        return Err(TextError::TooLong(metadata.len().max(read)));
    }
    String::from_utf8(bytes).map_err(|_| TextError::NotUtf8)
}

/// Returns `true` if a file, or a link to it, belongs to neither the user of this process nor root.
/// Such files are ignored unless they were named explicitly: in a folder that all users can write,
/// any user could otherwise decide for all.
///
/// # Errors
///
/// Returns an error if the file cannot be examined.
pub fn is_foreign(path: &Path) -> io::Result<bool> {
    let user = rustix::process::geteuid().as_raw();
    let owners = [fs::symlink_metadata(path)?.uid(), fs::metadata(path)?.uid()];
    Ok(owners.into_iter().any(|owner| is_foreign_to(user, owner)))
}

fn is_foreign_to(user: u32, owner: u32) -> bool {
    owner != user && owner != 0
}

/// Reads a file that was found in a directory and does not lead outside it. Blocks.
///
/// # Errors
///
/// As for [`read_file`]; also if the file is a link that leads outside the directory, or [belongs
/// to another user](is_foreign).
pub fn read_within(directory: &Path, path: &Path) -> Result<String, TextError> {
    let real = fs::canonicalize(path)?;
    if !real.starts_with(fs::canonicalize(directory)?) {
        return Err(TextError::Outside);
    }
    if is_foreign(path)? {
        return Err(TextError::Foreign);
    }
    read_file(&real)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_user_and_of_the_administrator_count_and_no_others() {
        let told = [(1000, 1000), (1000, 0), (0, 0), (1000, 1001), (0, 1000)];
        assert_eq!(
            told.map(|(user, owner)| is_foreign_to(user, owner)),
            [false, false, false, true, true]
        );
    }

    #[test]
    fn a_link_of_another_user_counts_no_more_than_a_file() {
        let home = tempfile::tempdir().unwrap();
        let (file, link) = (home.path().join("a"), home.path().join("b"));
        fs::write(&file, "text").unwrap();
        std::os::unix::fs::symlink("a", &link).unwrap();
        assert_eq!((is_foreign(&file).unwrap(), is_foreign(&link).unwrap()), (false, false));
        // Only the administrator can give files away.
        if std::os::unix::fs::lchown(&link, Some(4711), None).is_ok() {
            assert_eq!((is_foreign(&file).unwrap(), is_foreign(&link).unwrap()), (false, true));
            assert!(matches!(read_within(home.path(), &link), Err(TextError::Foreign)));
            std::os::unix::fs::chown(&file, Some(4711), None).unwrap();
            assert!(matches!(read_within(home.path(), &file), Err(TextError::Foreign)));
            assert_eq!(read_file(&file).unwrap(), "text");
        }
    }
}
