//! Commands as transactions: what a command changes in its folder is collected, looked at, and made real whole.
//!
//! A [`Transaction`] has a folder of its own, in which the kernel collects what the command writes
//! ([`SandboxPolicy::staged`](crate::SandboxPolicy::staged)). When the command has ended, [`changes`](Transaction::changes) says what
//! it did, judged by a [`Screen`], and [`apply`](Transaction::apply) makes it real. Nothing was changed before that,
//! and dropping the transaction leaves it so.
//!
//! Applying begins with a plan on record. From there on it is finished, by this process or by the next one that
//! [begins](Transaction::begin) a transaction or [recovers](recover); before, it has not happened. What was replaced or
//! removed is kept beside the plan, so that the change can be [undone](undo) file by file. These promises hold when
//! processes end at any instant. They do not hold over a power cut, as what a command writes directly does not either.
//!
//! | module | holds |
//! |---|---|
//! | `scan` | what was collected, compared with what is there |
//! | `plan` | the steps, and the record of them |
//! | `apply` | carrying a plan out, from wherever it was left |
//! | `undo` | the way back |
//! | `notes` | what is told of it |
//! | `place` | paths below a folder, through no link |

mod apply;
mod error;
mod notes;
mod place;
mod plan;
mod scan;
mod undo;

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

pub use self::error::TransactionError;
pub use self::notes::{NO_PLACE, made_at_once};
pub use self::scan::{Change, ChangeKind, Changes, Conflict, Refused};
pub use self::undo::{Before, Undone, originals, undo};

use self::plan::Plan;
use crate::policy::SandboxPolicy;
use crate::screen::Screen;

/// The parts of a transaction's folder. The first two are those of the file system that collects.
const UPPER: &str = "upper";
const WORK: &str = "work";
const OLD: &str = "old";
const LOCK: &str = "lock";
const PLAN: &str = "plan";
const RESULT: &str = "result";
const DIRECT: &str = "direct";

/// Where the transactions are that were applied, beside those under way.
const KEPT: &str = "kept";
/// Where the names of transactions lead to their folders.
const NAMES: &str = "names";
/// The file whose time says when what is kept was last looked through, and how often that is done.
const SWEPT: &str = "swept";
const SWEEP: Duration = Duration::from_hours(24);

/// How long what was replaced or removed is kept, for the way back.
pub const KEPT_FOR: Duration = Duration::from_hours(30 * 24);

/// A moment by the clock of a file system.
type Moment = (i64, i64);

/// Changes that are collected but not applied. Dropping it discards them: what was collected is removed in the background,
/// and if the process ends before that, by the next transaction that begins in the same place.
#[derive(Debug)]
pub struct Transaction {
    folder: PathBuf,
    root: PathBuf,
    began: Moment,
    /// Held until the end, so that others do not recover what is under way. `None` once it has been handed on.
    lock: Option<File>,
    /// Held from the look at the changes on: what was judged is what is applied, whatever others apply.
    turn: OnceLock<File>,
    applied: bool,
}

/// What was made real.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// What was changed, in the order of paths.
    pub changed: Vec<Change>,
    /// Paths that changed after the plan was recorded, left unchanged.
    pub conflicts: Vec<Conflict>,
    /// Where the change is durable, for [`undo`]. `None` means that nothing was changed.
    pub record: Option<PathBuf>,
}

impl Transaction {
    /// Begins to collect what is changed in `root`, with the files that belong to it in a new folder below `staging`,
    /// which is made if it is not there. Both are to be on one file system. Finishes or forgets what processes that
    /// have ended left in `staging`.
    ///
    /// # Errors
    ///
    /// [`TransactionError::Elsewhere`] if the two are on different file systems, or one is in the other.
    pub fn begin(staging: &Path, root: &Path) -> Result<Self, TransactionError> {
        let root = fs::canonicalize(root).map_err(TransactionError::at(root))?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(staging)
            .map_err(TransactionError::at(staging))?;
        let staging = fs::canonicalize(staging).map_err(TransactionError::at(staging))?;
        let device =
            |path: &Path| fs::metadata(path).map(|it| it.dev()).map_err(TransactionError::at(path));
        if device(&staging)? != device(&root)?
            || staging.starts_with(&root)
            || root.starts_with(&staging)
        {
            return Err(TransactionError::Elsewhere { staging, root });
        }
        for (record, error) in recover_all(&staging).failed {
            // What cannot be finished elsewhere is no hindrance here.
            if Plan::read(&record).ok().flatten().is_some_and(|plan| plan.root == root) {
                return Err(error);
            }
        }
        let folder = staging.join(format!("{:016x}", crate::beneath::random()));
        let make = |path: &Path| {
            DirBuilder::new().mode(0o700).create(path).map_err(TransactionError::at(path))
        };
        make(&folder)?;
        let lock = lock(&folder)?.ok_or_else(|| TransactionError::Busy(folder.clone()))?;
        for part in [UPPER, WORK, OLD] {
            make(&folder.join(part))?;
        }
        copy_attributes(&root, &folder.join(UPPER))?;
        let began = now(&folder)?;
        Ok(Self { folder, root, began, lock: Some(lock), turn: OnceLock::new(), applied: false })
    }

    /// Gives it a name, by which [`Fate::of`] finds it. An earlier one of that name is not found any more.
    ///
    /// # Errors
    ///
    /// If the name cannot be recorded.
    pub fn name(&self, name: &str) -> Result<(), TransactionError> {
        let (staging, own) = self.parts()?;
        let names = staging.join(NAMES);
        let path = names.join(name);
        let draft = self.folder.join(NAMES);
        let written = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&names)
            .and_then(|()| fs::write(&draft, own.as_encoded_bytes()))
            .and_then(|()| fs::rename(&draft, &path));
        written.map_err(TransactionError::at(&path))
    }

    /// The folder below which the transaction is, and its name there.
    fn parts(&self) -> Result<(&Path, &OsStr), TransactionError> {
        match (self.folder.parent(), self.folder.file_name()) {
            (Some(staging), Some(name)) => Ok((staging, name)),
            _ => Err(TransactionError::at(&self.folder)(io::ErrorKind::InvalidInput.into())),
        }
    }

    /// Where the record will be once changes are applied, for [`undo`].
    #[must_use]
    pub fn record(&self) -> PathBuf {
        kept(&self.folder)
    }

    /// The folder of this transaction.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder whose changes are collected.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Compares what was collected with what is there, and judges it. For the time after the command's end. Waits for
    /// transactions of the same folder that were looked at and are neither applied nor dropped; there is to be one at a
    /// time in a thread.
    ///
    /// # Errors
    ///
    /// If what was collected, or what is there, cannot be read.
    pub fn changes(&self, screen: &Screen) -> Result<Changes, TransactionError> {
        if self.turn.get().is_none() {
            let (staging, _) = self.parts()?;
            let mut hasher = DefaultHasher::new();
            self.root.hash(&mut hasher);
            let path = staging.join(format!("turn-{:016x}", hasher.finish()));
            let turn = File::options().create(true).truncate(false).write(true).open(&path);
            let turn = turn.map_err(TransactionError::at(&path))?;
            let taken = flock(&turn, FlockOperation::LockExclusive);
            taken.map_err(|error| TransactionError::at(&path)(error.into()))?;
            // Another thread cannot have taken it meanwhile and hold it still.
            self.turn.set(turn).ok();
        }
        scan::scan(&self.folder, &self.root, self.began, &screen.clone().of(&self.root))
    }

    /// Makes changes real: all that were not refused and are in no conflict. Once the plan of it is durable, it is
    /// finished even if this process ends.
    ///
    /// # Errors
    ///
    /// If the plan cannot be recorded; then nothing was changed. If a step fails: then the steps before it are made,
    /// and [`recover`] continues with the others.
    pub fn apply(self, changes: Changes) -> Result<Applied, TransactionError> {
        self.apply_with(changes, &[])
    }

    /// The same, and keeps a result with the record, which [`Fate::of`] returns.
    ///
    /// # Errors
    ///
    /// As of [`apply`](Self::apply).
    pub fn apply_with(
        mut self,
        changes: Changes,
        result: &[u8],
    ) -> Result<Applied, TransactionError> {
        if changes.steps.is_empty() && changes.folders.is_empty() {
            return Ok(Applied { changed: changes.made, conflicts: Vec::new(), record: None });
        }
        let plan = Plan { root: self.root.clone(), steps: changes.steps, folders: changes.folders };
        if !result.is_empty() {
            let path = self.folder.join(RESULT);
            fs::write(&path, result).map_err(TransactionError::at(&path))?;
        }
        plan.record(&self.folder)?;
        self.applied = true;
        let conflicts = apply::carry_out(&self.folder, &plan)?;
        Ok(Applied { changed: changes.made, conflicts, record: Some(kept(&self.folder)) })
    }

    /// Puts on record that changes cannot be collected and are made at once from here on. A process that looks for the
    /// transaction later learns that it is not known how far the command came.
    ///
    /// # Errors
    ///
    /// If that cannot be recorded.
    pub fn mark_direct(&self) -> Result<(), TransactionError> {
        let path = self.folder.join(DIRECT);
        fs::write(&path, b"").map_err(TransactionError::at(&path))
    }

    /// Forgets what was collected, and waits for that. Dropping the transaction does the same in the background, unless
    /// changes are made at once: then the note of that stays, because the command may have been interrupted.
    pub fn discard(mut self) {
        forget(&self.folder);
        self.applied = true;
    }
}

impl SandboxPolicy {
    /// Collects changes to the working folder in a transaction, which applies them when the command has ended.
    /// Where the kernel or the driver cannot do so the command is refused with
    /// [`SandboxError::NotStaged`](crate::SandboxError::NotStaged).
    pub fn staged(mut self, transaction: &Transaction) -> Self {
        self.staging = Some(transaction.folder().to_path_buf());
        self
    }
}

/// What became of a transaction whose process may have ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nothing of it was made real.
    NotApplied,
    /// It was made real whole, and this was kept with it.
    Applied(Vec<u8>),
    /// Its changes were made at once, and how far they came is not known.
    Unknown,
}

impl Fate {
    /// Finds out what became of the transaction of this name, and finishes it if its plan is durable.
    ///
    /// # Errors
    ///
    /// If a record cannot be read, a step fails, or another process works on it.
    pub fn of(staging: &Path, name: &str) -> Result<Self, TransactionError> {
        let path = staging.join(NAMES).join(name);
        let own = match fs::read_to_string(&path) {
            Ok(own) => own,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::NotApplied),
            Err(error) => return Err(TransactionError::at(&path)(error)),
        };
        let folder = staging.join(own.trim());
        if folder.exists() {
            let _lock = lock(&folder)?.ok_or_else(|| TransactionError::Busy(folder.clone()))?;
            match Plan::read(&folder)? {
                Some(plan) => apply::carry_out(&folder, &plan).map(drop)?,
                None if folder.join(DIRECT).exists() => return Ok(Self::Unknown),
                None => return Ok(Self::NotApplied),
            }
        }
        let kept = kept(&folder);
        Ok(if kept.exists() {
            Self::Applied(fs::read(kept.join(RESULT)).unwrap_or_default())
        } else {
            Self::NotApplied
        })
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        let Some(lock) = self.lock.take() else { return };
        if self.applied || self.folder.join(DIRECT).exists() {
            flock(&lock, FlockOperation::Unlock).ok();
            return;
        }
        // A disk can take milliseconds for each of some ten files and folders, which no caller has to wait for.
        let folder = std::mem::take(&mut self.folder);
        let forget_it = move || {
            forget(&folder);
            flock(&lock, FlockOperation::Unlock).ok();
        };
        // What no thread can be started for is removed when another transaction begins.
        std::thread::Builder::new().spawn(forget_it).ok();
    }
}

/// Finishes every transaction below `staging` whose plan is durable and whose process has ended, and forgets those
/// that had none. Returns the folders that were changed.
///
/// # Errors
///
/// If a plan cannot be read, or a step fails.
pub fn recover(staging: &Path) -> Result<Vec<PathBuf>, TransactionError> {
    let Recovered { finished, failed } = recover_all(staging);
    failed.into_iter().next().map_or(Ok(finished), |(_, error)| Err(error))
}

/// What came of all transactions whose processes have ended.
#[derive(Default)]
struct Recovered {
    /// The folders whose changes were finished.
    finished: Vec<PathBuf>,
    /// The records that cannot be finished, and why.
    failed: Vec<(PathBuf, TransactionError)>,
}

/// The same, and continues after what cannot be finished, which is returned with its record.
fn recover_all(staging: &Path) -> Recovered {
    let mut recovered = Recovered::default();
    for folder in entries(staging) {
        let is_one = folder.join(LOCK).exists();
        let is_unknown = folder.join(DIRECT).exists();
        if !is_one || (is_unknown && !is_old(&folder, KEPT_FOR)) {
            continue;
        }
        let Ok(Some(_lock)) = lock(&folder) else { continue };
        let done = Plan::read(&folder).and_then(|plan| match plan {
            Some(plan) => apply::carry_out(&folder, &plan).map(|_| Some(plan.root)),
            None => Ok(None),
        });
        match done {
            Ok(Some(root)) => recovered.finished.push(root),
            Ok(None) => forget(&folder),
            Err(error) => recovered.failed.push((folder, error)),
        }
    }
    sweep(staging);
    recovered
}

/// Forgets what was kept for long enough. Looks through it once in a while only.
fn sweep(staging: &Path) {
    let mark = staging.join(SWEPT);
    if mark.exists() && !is_old(&mark, SWEEP) {
        return;
    }
    // What cannot be removed now is looked at the next time.
    fs::write(&mark, b"").ok();
    for folder in entries(&staging.join(KEPT)).filter(|it| is_old(it, KEPT_FOR)) {
        forget(&folder);
    }
    for name in entries(&staging.join(NAMES)).filter(|it| is_old(it, KEPT_FOR)) {
        fs::remove_file(name).ok();
    }
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Where a transaction is once it is applied.
fn kept(folder: &Path) -> PathBuf {
    let name = folder.file_name().unwrap_or_default();
    folder.parent().unwrap_or(folder).join(KEPT).join(name)
}

fn is_old(path: &Path, age: Duration) -> bool {
    let modified = fs::symlink_metadata(path).and_then(|it| it.modified());
    modified.is_ok_and(|it| it.elapsed().is_ok_and(|passed| passed > age))
}

/// Finds a place of the user's where changes to a folder can be collected and kept: the user's state folder
/// (`$XDG_STATE_HOME`, else `~/.local/state`), else `/var/tmp`. `None` means that none of them is on the folder's file
/// system, or that the folder is around it.
pub fn staging_for(root: &Path) -> Option<PathBuf> {
    let variable =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = variable("XDG_STATE_HOME")
        .or_else(|| variable("HOME").map(|home| home.join(".local").join("state")));
    let state = state.map(|state| state.join("loopwright").join("changes"));
    first_usable(root, state.into_iter().chain([temporary("/var/tmp")]))
}

/// The same for changes that nobody undoes: in a folder for temporary files, if one is on the folder's file system.
pub fn passing_staging_for(root: &Path) -> Option<PathBuf> {
    let temporary = [temporary(std::env::temp_dir()), temporary("/tmp"), temporary("/var/tmp")];
    first_usable(root, temporary).or_else(|| staging_for(root))
}

fn temporary(folder: impl AsRef<Path>) -> PathBuf {
    folder.as_ref().join(format!("loopwright-{}", rustix::process::geteuid().as_raw()))
}

fn first_usable(root: &Path, places: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    let root = fs::canonicalize(root).ok()?;
    let device = fs::metadata(&root).ok()?.dev();
    let user = rustix::process::geteuid().as_raw();
    places.into_iter().find(|place| {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(place);
        let status = made.and_then(|()| fs::symlink_metadata(place));
        // In a folder that every caller writes to, another user may have been first.
        let is_own = status.is_ok_and(|it| {
            it.is_dir() && it.uid() == user && it.mode() & 0o022 == 0 && it.dev() == device
        });
        let real = fs::canonicalize(place).unwrap_or_else(|_| place.clone());
        is_own && !real.starts_with(&root) && !root.starts_with(&real)
    })
}

/// Forgets the record of a change that was made, which cannot be undone any more then. What cannot be removed is tried
/// again when another transaction begins in the same place.
pub fn forget(folder: &Path) {
    // The file system leaves folders without rights in its work folder.
    for left in [&[WORK][..], &["incompat"], &["incompat", "volatile"]] {
        let inner = left.iter().fold(folder.join(WORK), |path, name| path.join(name));
        if inner.exists() {
            place::make_writable(&inner).ok();
        }
    }
    forget_by(folder, &remove);
}

/// Removes a plan first, because what is left without one is no record, and the lock last, because what has one is
/// looked at again.
fn forget_by(folder: &Path, remove: &dyn Fn(&Path) -> io::Result<()>) {
    let (plan, lock) = (folder.join(PLAN), folder.join(LOCK));
    if plan.exists() && remove(&plan).is_err() {
        return;
    }
    let others = entries(folder).filter(|path| *path != lock);
    let left = others.filter(|path| remove(path).is_err()).count();
    if left == 0 && (!lock.exists() || remove(&lock).is_ok()) {
        fs::remove_dir(folder).ok();
    }
}

/// Removes what is at a path, with all that is in it.
fn remove(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.is_dir() {
        return fs::remove_file(path);
    }
    fs::remove_dir_all(path).or_else(|_| {
        place::make_tree_writable(path);
        fs::remove_dir_all(path)
    })
}

/// Takes the lock of a transaction. `None` means that another process has it.
fn lock(folder: &Path) -> Result<Option<File>, TransactionError> {
    let path = folder.join(LOCK);
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(TransactionError::at(&path))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(TransactionError::at(&path)(error.into())),
    }
}

/// Gives the folder that collects the rights of the one whose changes it collects, because the command sees it so.
fn copy_attributes(root: &Path, upper: &Path) -> Result<(), TransactionError> {
    let there = fs::metadata(root).map_err(TransactionError::at(root))?;
    fs::set_permissions(upper, there.permissions()).map_err(TransactionError::at(upper))?;
    place::set_times(upper, &there).map_err(TransactionError::at(upper))
}

/// Returns the time by the clock of the file system, as it is when a transaction's lock is made.
fn now(folder: &Path) -> Result<Moment, TransactionError> {
    let path = folder.join(LOCK);
    let status = fs::metadata(&path).map_err(TransactionError::at(&path))?;
    Ok((status.ctime(), status.ctime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_that_could_not_be_removed_is_removed_when_another_one_starts() {
        let world = tempfile::tempdir().unwrap();
        let (staging, root) = (world.path().join("staging"), world.path().join("root"));
        fs::create_dir(&root).unwrap();
        let begin = || Transaction::begin(&staging, &root).unwrap();
        let left = begin();
        let folder = left.folder().to_path_buf();
        fs::write(folder.join(UPPER).join("file"), "text").unwrap();
        let is_upper = |path: &Path| path.ends_with(UPPER);
        forget_by(&folder, &|path| match path {
            path if is_upper(path) => Err(io::ErrorKind::PermissionDenied.into()),
            path => remove(path),
        });
        let names: Vec<PathBuf> =
            entries(&folder).map(|it| it.strip_prefix(&folder).unwrap().into()).collect();
        assert!(names.len() == 2 && folder.join(UPPER).join("file").exists(), "{names:?}");
        // Its process has ended.
        left.mark_direct().unwrap();
        drop(left);
        fs::remove_file(folder.join(DIRECT)).unwrap();
        assert!(folder.exists());
        drop(begin());
        assert!(!folder.exists());
    }
}
