//! Carrying a plan out, from wherever it was left. Every step looks at what it finds: the file that
//! was collected has an inode of its own, which shows whether the step was made.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, RenameFlags, Timespec, Timestamps, fstat, renameat_with, utimensat,
};
use rustix::io::Errno;

use super::error::TransactionError;
use super::place::{self, Place};
use super::plan::{Attributes, Look, Mark, Plan, Step, kept};
use super::scan::Conflict;
use super::{Moment, UPPER};
use crate::beneath::through;
use crate::removal;

/// Makes every step, and puts on record that all are made. Returns what could not be done because the path was changed since.
pub(super) fn carry_out(folder: &Path, plan: &Plan) -> Result<Vec<Conflict>, TransactionError> {
    work(folder, plan, None)
}

/// Does the same with the steps that an exited process has left. That may have been long ago, so a folder in which anything
/// was changed since is not removed.
pub(super) fn finish(folder: &Path, plan: &Plan) -> Result<Vec<Conflict>, TransactionError> {
    work(folder, plan, plan.looked)
}

fn work(
    folder: &Path,
    plan: &Plan,
    since: Option<Moment>,
) -> Result<Vec<Conflict>, TransactionError> {
    for Attributes { path, .. } in plan.folders.iter().rev() {
        // What was collected is taken out of these, whatever rights they have; one that cannot be changed needs none.
        removal::make_writable(&folder.join(UPPER).join(path)).ok();
    }
    let upper = folder.join(UPPER);
    let upper = place::open_root(&upper).map_err(TransactionError::at(&upper))?;
    let conflicts = match place::open_root(&plan.root) {
        Ok(root) => Applying { folder, upper, root, plan, since }.make()?,
        // Nothing of a folder that is gone can be changed.
        Err(error) if is_refused(&error) => {
            plan.steps.iter().map(|step| Conflict { path: step.path().into() }).collect()
        }
        Err(error) => return Err(TransactionError::at(&plan.root)(error)),
    };
    let to = super::kept(folder);
    put_away(folder, &to).map_err(TransactionError::at(&to))?;
    Ok(conflicts)
}

/// A plan that is being carried out.
struct Applying<'a> {
    /// The folder of the transaction.
    folder: &'a Path,
    /// What was collected.
    upper: OwnedFd,
    /// What is changed.
    root: OwnedFd,
    plan: &'a Plan,
    /// When the files were compared. `None` if that was a moment ago.
    since: Option<Moment>,
}

/// Moves what was applied to what is kept, which says that nothing is left to do.
fn put_away(folder: &Path, to: &Path) -> io::Result<()> {
    let Some(all) = to.parent() else { return Ok(()) };
    match fs::create_dir(all) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    fs::rename(folder, to)
}

/// Returns `true` if the content of a file or folder in a folder was changed since. Applying changes only rights and names, so the
/// time of the content decides.
fn is_changed_within(folder: &Path, since: Moment) -> bool {
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(status) = entry.metadata() else { continue };
            if (status.mtime(), status.mtime_nsec()) > since {
                return true;
            }
            if status.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    false
}

enum Made {
    Done,
    Conflict,
}

impl Applying<'_> {
    /// Makes every step, and then what their folders are to be in the end.
    fn make(&self) -> Result<Vec<Conflict>, TransactionError> {
        let mut conflicts = Vec::new();
        for step in &self.plan.steps {
            let made = match step {
                Step::Remove { path, old, was } => self.remove(path, *old, *was),
                Step::Replace { path, old, was, is } => self.replace(path, *old, *was, *is),
                Step::Add { path, is, .. } => self.add(path, *is),
            };
            let path = step.path();
            match made {
                Ok(Made::Done) => {}
                Ok(Made::Conflict) => conflicts.push(Conflict { path: path.into() }),
                Err(error) if is_refused(&error) => conflicts.push(Conflict { path: path.into() }),
                Err(error) => return Err(TransactionError::at(&self.plan.root.join(path))(error)),
            }
        }
        for Attributes { path, before, after } in self.plan.folders.iter().rev() {
            // A folder that is gone since needs none.
            set(self.root.as_fd(), path, *before, *after).ok();
        }
        Ok(conflicts)
    }

    fn remove(&self, path: &Path, old: usize, was: Mark) -> io::Result<Made> {
        let to = kept(self.folder, old);
        if exists(&to)? {
            return Ok(Made::Done);
        }
        let place = Place::of(self.root.as_fd(), path)?;
        let Some(status) = place.status()? else { return Ok(Made::Done) };
        let is_touched =
            |since| was.is_folder() && is_changed_within(&self.plan.root.join(path), since);
        if Mark::of_status(&status) != was || self.since.is_some_and(is_touched) {
            return Ok(Made::Conflict);
        }
        let rename = || renameat_with(&place.folder, place.name, CWD, &to, RenameFlags::NOREPLACE);
        relocate(
            was,
            || in_folder(self.root.as_fd(), path, &place, rename),
            |mode| change_mode(self.root.as_fd(), path, mode),
            |mode| fs::set_permissions(&to, fs::Permissions::from_mode(mode)),
        )?;
        Ok(Made::Done)
    }

    fn replace(&self, path: &Path, old: usize, was: Mark, is: Mark) -> io::Result<Made> {
        let to = kept(self.folder, old);
        if exists(&to)? {
            return Ok(Made::Done);
        }
        let place = Place::of(self.root.as_fd(), path)?;
        let there = place.status()?;
        if there.as_ref().is_none_or(|status| status.st_ino != is.inode) {
            let Some(there) = there else {
                // A user has removed it since; what takes its place is not lost for that.
                return self.add(path, is);
            };
            // It was changed since the plan was made.
            if Mark::of_status(&there) != was {
                return Ok(Made::Conflict);
            }
            in_folder(self.root.as_fd(), path, &place, || {
                renameat_with(&self.upper, path, &place.folder, place.name, RenameFlags::EXCHANGE)
            })?;
        }
        renameat_with(&self.upper, path, CWD, &to, RenameFlags::NOREPLACE)?;
        Ok(Made::Done)
    }

    fn add(&self, path: &Path, is: Mark) -> io::Result<Made> {
        let from = || self.folder.join(UPPER).join(path);
        let place = Place::of(self.root.as_fd(), path)?;
        let is_there =
            || io::Result::Ok(place.status()?.is_some_and(|status| status.st_ino == is.inode));
        let rename =
            || renameat_with(&self.upper, path, &place.folder, place.name, RenameFlags::NOREPLACE);
        let moved = relocate(
            is,
            || in_folder(self.root.as_fd(), path, &place, rename),
            |mode| fs::set_permissions(from(), fs::Permissions::from_mode(mode)),
            |mode| change_mode(self.root.as_fd(), path, mode),
        );
        match moved {
            Ok(()) => Ok(Made::Done),
            // It was made before this process looked.
            Err(error) if is_made_or_taken(&error) && is_there()? => Ok(Made::Done),
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(Made::Conflict),
            Err(error) => Err(error),
        }
    }
}

fn is_made_or_taken(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EEXIST | libc::ENOENT))
}

/// Moves something to another folder. A folder that its owner may not write to cannot be moved, so it has that right
/// for the time of it: `before` sets its rights where it is, `after` where it is then.
pub(super) fn relocate(
    moved: Mark,
    rename: impl Fn() -> io::Result<()>,
    before: impl Fn(u32) -> io::Result<()>,
    after: impl Fn(u32) -> io::Result<()>,
) -> io::Result<()> {
    let mode = moved.mode & 0o7777;
    match rename() {
        Err(error) if error.raw_os_error() == Some(libc::EACCES) && moved.is_folder() => {
            before(mode | 0o700)?;
            rename()?;
            after(mode)
        }
        done => done,
    }
}

/// Works in a folder, which is made writable for its owner if it has to be. What it is to be in the end is part of
/// the plan.
pub(super) fn in_folder(
    root: BorrowedFd<'_>,
    path: &Path,
    place: &Place<'_>,
    work: impl Fn() -> Result<(), Errno>,
) -> io::Result<()> {
    match work() {
        Err(Errno::ACCESS) => {
            let parent = path.parent().unwrap_or(Path::new(""));
            let before = fstat(&place.folder)?.st_mode & 0o7777;
            change_mode(root, parent, before | 0o700)?;
            let done = work();
            change_mode(root, parent, before)?;
            Ok(done?)
        }
        done => Ok(done?),
    }
}

pub(super) fn change_mode(root: BorrowedFd<'_>, path: &Path, mode: u32) -> io::Result<()> {
    let folder = place::open(root, path)?;
    fs::set_permissions(through(&folder), fs::Permissions::from_mode(mode))
}

/// Gives a folder its rights and times, unless its rights were changed since to others than these.
pub(super) fn set(root: BorrowedFd<'_>, path: &Path, was: Look, look: Look) -> io::Result<()> {
    let folder = place::open(root, path)?;
    let through = through(&folder);
    let mode = fs::metadata(&through)?.permissions().mode() & 0o7777;
    if mode != was.mode && mode != look.mode {
        return Ok(());
    }
    fs::set_permissions(&through, fs::Permissions::from_mode(look.mode))?;
    let time = |(tv_sec, tv_nsec): (i64, i64)| Timespec { tv_sec, tv_nsec };
    let times =
        Timestamps { last_access: time(look.accessed), last_modification: time(look.modified) };
    Ok(utimensat(CWD, &through, &times, AtFlags::empty())?)
}

fn exists(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns `true` if a step will never be possible: a folder on the way is gone or something else now, belongs to another
/// user, or is where something is mounted.
pub(super) fn is_refused(error: &io::Error) -> bool {
    const REFUSALS: [i32; 9] = [
        libc::ENOENT,
        libc::ENOTDIR,
        libc::ELOOP,
        libc::EACCES,
        libc::EPERM,
        libc::EBUSY,
        libc::EXDEV,
        libc::EROFS,
        libc::ENAMETOOLONG,
    ];
    error.raw_os_error().is_some_and(|error| REFUSALS.contains(&error))
}
