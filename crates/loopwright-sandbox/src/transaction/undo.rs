//! Undo of applied changes.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, renameat, renameat_with, unlinkat};

use super::error::TransactionError;
use super::place::{self, Place};
use super::plan::{Attributes, Mark, Part, Plan, Step, kept};
use super::scan::same_bytes;
use super::{apply, forget};

/// The outcome of undoing the change of one path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Undone {
    /// What was at the path before was put back.
    Restored(PathBuf),
    /// The path was removed: nothing was there before.
    Removed(PathBuf),
    /// The path already was as before.
    Unchanged(PathBuf),
    /// The path has been changed since then, and was kept.
    Conflict(PathBuf),
}

/// Undoes the applied changes, except for paths that changed since then, and deletes the record.
/// Does nothing if they were already undone.
///
/// # Errors
///
/// Returns an error if the record or a file cannot be read or written. Completed parts stay undone,
/// and the rest can be tried again.
pub fn undo(record: &Path) -> Result<Vec<Undone>, TransactionError> {
    let Some(plan) = Plan::read(record)? else { return Ok(Vec::new()) };
    let mut undone = match place::open_root(&plan.root) {
        Ok(root) => undo_steps(&plan, record, root.as_fd())?,
        Err(error) if apply::is_refused(&error) => {
            plan.steps.iter().rev().map(|step| Undone::Conflict(step.path().into())).collect()
        }
        Err(error) => return Err(TransactionError::at(&plan.root)(error)),
    };
    // What could not be put back is kept for another try.
    if !undone.iter().any(|it| matches!(it, Undone::Conflict(_))) {
        forget(record);
    }
    undone.reverse();
    Ok(undone)
}

/// Returns the folder that a change was applied to, from its record. `None` means that the record does not exist.
///
/// # Errors
///
/// Returns an error if the record cannot be read.
pub fn root_of(record: &Path) -> Result<Option<PathBuf>, TransactionError> {
    Ok(Plan::read(record)?.map(|plan| plan.root))
}

/// The content of a path before a command changed it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Before {
    /// Nothing.
    Absent,
    /// The original entry, stored here until the change is undone.
    Kept(PathBuf),
}

/// Returns the original content of each changed path, in the order of the changes. Empty if no
/// record exists. The content of removed or replaced folders is not listed.
///
/// # Errors
///
/// Returns an error if the record cannot be read.
pub fn originals(record: &Path) -> Result<Vec<(PathBuf, Before)>, TransactionError> {
    let Some(plan) = Plan::read(record)? else { return Ok(Vec::new()) };
    let mut originals = Vec::new();
    for step in plan.steps {
        match step {
            Step::Remove { path, old, .. } | Step::Replace { path, old, .. } => {
                originals.push((path, Before::Kept(kept(record, old))));
            }
            Step::Add { path, is, parts } => {
                let parts = parts.into_iter().map(|it| (it.path, it.is));
                let files = [(path, is)].into_iter().chain(parts).filter(|(_, is)| !is.is_folder());
                originals.extend(files.map(|(path, _)| (path, Before::Absent)));
            }
        }
    }
    Ok(originals)
}

/// The outcome for a path, which is its argument.
type Came = fn(PathBuf) -> Undone;

/// Undoes every step, the last one first, and then what their folders became.
fn undo_steps(
    plan: &Plan,
    record: &Path,
    root: BorrowedFd<'_>,
) -> Result<Vec<Undone>, TransactionError> {
    let mut undone = Vec::new();
    for step in plan.steps.iter().rev() {
        let path = step.path();
        let came = match step {
            Step::Remove { old, was, .. } => put_back(root, path, &kept(record, *old), *was),
            Step::Replace { old, is, .. } => exchange_back(root, path, &kept(record, *old), *is),
            Step::Add { is, parts, .. } => take_away(root, path, *is, parts),
        };
        match came {
            Ok(came) => undone.push(came(path.into())),
            Err(error) if apply::is_refused(&error) => undone.push(Undone::Conflict(path.into())),
            Err(error) => return Err(TransactionError::at(&plan.root.join(path))(error)),
        }
    }
    for Attributes { path, before, after } in plan.folders.iter().rev() {
        let mode = place::open(root, path)
            .and_then(|folder| rustix::fs::fstat(folder).map_err(Into::into));
        let mode = mode.map(|status| status.st_mode & 0o7777);
        let is_set = apply::set(root, path, *after, *before).is_ok();
        // Other changes of a folder come with those of what is in it.
        if before.mode != after.mode && path != Path::new("") {
            let came: Came = match mode {
                Ok(mode) if mode == before.mode => Undone::Unchanged,
                Ok(mode) if is_set && mode == after.mode => Undone::Restored,
                _ => Undone::Conflict,
            };
            undone.push(came(path.into()));
        }
    }
    Ok(undone)
}

/// Puts back what was removed, unless something is there now.
fn put_back(root: BorrowedFd<'_>, path: &Path, kept: &Path, was: Mark) -> io::Result<Came> {
    if fs::symlink_metadata(kept).is_err() {
        return Ok(Undone::Unchanged);
    }
    let place = Place::of(root, path)?;
    if let Some(status) = place.status()? {
        return unchanged_or_conflict(&place, &status, kept);
    }
    let rename = || renameat_with(CWD, kept, &place.folder, place.name, RenameFlags::NOREPLACE);
    apply::relocate(
        was,
        || apply::in_folder(root, path, &place, rename),
        |mode| fs::set_permissions(kept, fs::Permissions::from_mode(mode)),
        |mode| apply::change_mode(root, path, mode),
    )?;
    Ok(Undone::Restored)
}

/// Puts back what was replaced, if what replaced it is there as it was.
fn exchange_back(root: BorrowedFd<'_>, path: &Path, kept: &Path, is: Mark) -> io::Result<Came> {
    if fs::symlink_metadata(kept).is_err() {
        return Ok(Undone::Unchanged);
    }
    let place = Place::of(root, path)?;
    match place.status()? {
        None => return Ok(Undone::Conflict),
        Some(status) if !is.is_at(&status) => return unchanged_or_conflict(&place, &status, kept),
        Some(_) => {}
    }
    apply::in_folder(root, path, &place, || renameat(CWD, kept, &place.folder, place.name))?;
    Ok(Undone::Restored)
}

/// Compares what is at a place with what was there before. Folders are never equal.
fn unchanged_or_conflict(
    place: &Place<'_>,
    status: &rustix::fs::Stat,
    kept: &Path,
) -> io::Result<Came> {
    let before = Mark::of(&fs::symlink_metadata(kept)?);
    let there = Mark::of_status(status);
    if (before.mode, before.size) != (there.mode, there.size) {
        return Ok(Undone::Conflict);
    }
    let is_equal = match there.mode & libc::S_IFMT {
        libc::S_IFLNK => {
            let target = rustix::fs::readlinkat(&place.folder, place.name, Vec::new())?;
            fs::read_link(kept)?.as_os_str().as_bytes() == target.as_bytes()
        }
        libc::S_IFREG => {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let there = rustix::fs::openat(&place.folder, place.name, flags, Mode::empty())?;
            let files = (File::from(there), File::open(kept));
            // What cannot be read is not known to be as before.
            files.1.and_then(|kept| same_bytes(kept, files.0)).unwrap_or(false)
        }
        _ => false,
    };
    Ok(if is_equal { Undone::Unchanged } else { Undone::Conflict })
}

/// Takes away what was added, as far as it is as it was. What is in a folder goes first.
fn take_away(root: BorrowedFd<'_>, path: &Path, is: Mark, parts: &[Part]) -> io::Result<Came> {
    match Place::of(root, path) {
        Ok(place) if place.status()?.is_none() => return Ok(Undone::Unchanged),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(Undone::Unchanged),
        _ => {}
    }
    let mut is_whole = true;
    let all = || [(path, is)].into_iter().chain(parts.iter().map(|it| (it.path.as_path(), it.is)));
    let closed = || all().filter(|(_, is)| is.is_folder() && is.mode & 0o700 != 0o700);
    for (path, is) in closed() {
        // What is in it could not be reached. One that is gone needs no rights.
        set_mode(root, path, is, 0o700).ok();
    }
    for Part { path, is } in parts.iter().rev() {
        is_whole &= take_one(root, path, *is)?;
    }
    is_whole &= take_one(root, path, is)?;
    if !is_whole {
        // From the inside out, while all of them can be reached.
        let closed: Vec<_> = closed().collect();
        for (path, is) in closed.into_iter().rev() {
            set_mode(root, path, is, 0).ok();
        }
    }
    Ok(if is_whole { Undone::Removed } else { Undone::Conflict })
}

/// Gives a folder that was added the rights that it had, and these, if it is there still.
fn set_mode(root: BorrowedFd<'_>, path: &Path, is: Mark, more: u32) -> io::Result<()> {
    match Place::of(root, path)?.status()? {
        Some(status) if status.st_ino == is.inode => {
            apply::change_mode(root, path, is.mode & 0o7777 | more)
        }
        _ => Ok(()),
    }
}

fn take_one(root: BorrowedFd<'_>, path: &Path, is: Mark) -> io::Result<bool> {
    let place = match Place::of(root, path) {
        Ok(place) => place,
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(true),
        Err(error) => return Err(error),
    };
    let Some(status) = place.status()? else { return Ok(true) };
    let there = Mark::of_status(&status);
    if is.is_folder() {
        if there.inode != is.inode {
            return Ok(false);
        }
        let remove = || unlinkat(&place.folder, place.name, AtFlags::REMOVEDIR);
        return match apply::in_folder(root, path, &place, remove) {
            Ok(()) => Ok(true),
            Err(error) if holds_something(&error) => Ok(false),
            Err(error) => Err(error),
        };
    }
    if !is.is_at(&status) {
        return Ok(false);
    }
    apply::in_folder(root, path, &place, || unlinkat(&place.folder, place.name, AtFlags::empty()))?;
    Ok(true)
}

fn holds_something(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOTEMPTY | libc::EEXIST))
}
