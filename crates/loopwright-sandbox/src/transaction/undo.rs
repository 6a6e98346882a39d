//! The way back from what was applied.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, RenameFlags, renameat, renameat_with, unlinkat};

use super::error::TransactionError;
use super::place::{self, Place};
use super::plan::{Attributes, Mark, Part, Plan, Step, kept};
use super::{apply, forget};

/// What came of undoing the change of one path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Undone {
    /// The path is what it was before.
    Restored(PathBuf),
    /// The path has been changed since, and is left as it is.
    Conflict(PathBuf),
}

/// Undoes what was applied, as far as it was not changed since, and forgets the record. Undoing what was undone
/// already does nothing.
///
/// # Errors
///
/// If the record or a file cannot be read or written. What was undone until then stays so, and the rest can be tried
/// again.
pub fn undo(record: &Path) -> Result<Vec<Undone>, TransactionError> {
    let Some(plan) = Plan::read(record)? else { return Ok(Vec::new()) };
    let mut undone = Vec::new();
    for step in plan.steps.iter().rev() {
        let root = &plan.root;
        let (path, came) = match step {
            Step::Remove { path, old, was } => {
                (path, put_back(root, path, &kept(record, *old), *was))
            }
            Step::Replace { path, old, is, .. } => {
                (path, exchange_back(root, path, &kept(record, *old), *is))
            }
            Step::Add { path, is, parts } => (path, take_away(root, path, *is, parts)),
        };
        match came {
            Ok(true) => undone.push(Undone::Restored(path.clone())),
            Ok(false) => undone.push(Undone::Conflict(path.clone())),
            Err(error) if is_elsewhere(&error) => undone.push(Undone::Conflict(path.clone())),
            Err(error) => return Err(TransactionError::at(&root.join(path))(error)),
        }
    }
    for Attributes { path, before, after } in plan.folders.iter().rev() {
        apply::set(&plan.root, path, *after, *before).ok();
    }
    // What could not be put back is kept for another try.
    if !undone.iter().any(|it| matches!(it, Undone::Conflict(_))) {
        forget(record);
    }
    undone.reverse();
    Ok(undone)
}

/// Puts back what was removed, unless something is there now.
fn put_back(root: &Path, path: &Path, kept: &Path, was: Mark) -> io::Result<bool> {
    if fs::symlink_metadata(kept).is_err() {
        return Ok(true);
    }
    let place = Place::of(root, path)?;
    if place.status()?.is_some() {
        return Ok(false);
    }
    let rename = || renameat_with(CWD, kept, &place.folder, place.name, RenameFlags::NOREPLACE);
    match apply::in_folder(root, path, &place, rename) {
        // A folder that nobody may write to cannot be moved.
        Err(error) if apply::is_denied(&error) && was.is_folder() => {
            place::make_writable(kept)?;
            apply::in_folder(root, path, &place, rename)?;
            apply::change_mode(root, path, was.mode & 0o7777)?;
        }
        done => done?,
    }
    Ok(true)
}

/// Puts back what was replaced, if what replaced it is there as it was.
fn exchange_back(root: &Path, path: &Path, kept: &Path, is: Mark) -> io::Result<bool> {
    if fs::symlink_metadata(kept).is_err() {
        return Ok(true);
    }
    let place = Place::of(root, path)?;
    if place.status()?.is_none_or(|status| !is.is_at(&status)) {
        return Ok(false);
    }
    apply::in_folder(root, path, &place, || renameat(CWD, kept, &place.folder, place.name))?;
    Ok(true)
}

/// Takes away what was added, as far as it is as it was. What is in a folder goes first.
fn take_away(root: &Path, path: &Path, is: Mark, parts: &[Part]) -> io::Result<bool> {
    let mut is_whole = true;
    for Part { path, is } in parts.iter().rev() {
        is_whole &= take_one(root, path, *is)?;
    }
    Ok(take_one(root, path, is)? && is_whole)
}

fn take_one(root: &Path, path: &Path, is: Mark) -> io::Result<bool> {
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

/// Tells whether the folder that a path lies in is gone, or is something else now.
fn is_elsewhere(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR | libc::ELOOP))
}
