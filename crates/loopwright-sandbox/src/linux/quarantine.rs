//! Protected paths that did not exist before a command and do afterwards are moved out of the way. What they
//! hold would be run or obeyed later, outside of the sandbox.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, mkdirat, renameat, statat};

use super::root::open_below;
use super::view::Absent;

/// Where such files go, below the folder in which they were found.
const FOLDER: &str = ".loopwright-quarantine";

/// Moves what has appeared, and tells of each. For the time when every process of the command has ended; still,
/// no step follows a link, because the command may have left some.
pub(crate) fn sweep(absent: &[Absent]) -> Vec<String> {
    let mut notes = Vec::new();
    for Absent { root, path } in absent {
        match move_away(root, path) {
            Ok(None) => {}
            Ok(Some(to)) => notes.push(format!("{} is protected: the new one was moved to {to}", path.display())),
            Err(error) => notes.push(format!(
                "{} is protected, and the new one could not be moved away ({error}): remove it before you \
                 use a program that obeys it",
                path.display()
            )),
        }
    }
    notes
}

fn move_away(root: &Path, path: &Path) -> io::Result<Option<String>> {
    let folder = File::open(root)?;
    let (Some(name), Some(parent)) = (path.file_name(), path.parent()) else { return Ok(None) };
    // What stands on the way and is no folder, such as a `.git` that leads elsewhere, is obeyed in its place.
    let above = parent;
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let parent = match open_below(folder.as_fd(), parent) {
        Ok(parent) => parent,
        Err(error) if is_no_folder(&error) => return move_away(root, above),
        Err(error) if gone(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    match statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => {}
        Err(error) if is_no_folder(&error.into()) => return move_away(root, above),
        Err(error) if gone(&error.into()) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    mkdirat(&folder, FOLDER, Mode::RWXU).ok();
    let mark = format!("{:016x}", random());
    if let Ok(quarantine) = open_below(folder.as_fd(), Path::new(FOLDER)) {
        let to = format!("{mark}-{}", name.to_string_lossy());
        if rename(&parent, name, &quarantine, &to).is_ok() {
            return Ok(Some(format!("{FOLDER}/{to}")));
        }
    }
    let to = format!("{}.quarantined-{mark}", name.to_string_lossy());
    rename(&parent, name, &parent, &to)?;
    Ok(Some(to))
}

fn rename(from: &OwnedFd, name: &OsStr, to: &OwnedFd, new: &str) -> io::Result<()> {
    Ok(renameat(from, name, to, new)?)
}

fn gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOENT)
}

/// Tells whether something on the way is a link or a file.
fn is_no_folder(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOTDIR | libc::ELOOP))
}

/// A number that nobody guesses.
pub(crate) fn random() -> u64 {
    let mut bytes = [0_u8; 8];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(_) => u64::from_ne_bytes(bytes),
        Err(_) => u64::from(std::process::id()),
    }
}

#[cfg(test)]
mod tests;
