//! Commands as transactions: the changes of a command in its folder are staged, checked and applied
//! as a whole.
//!
//! A [`Transaction`] has its own folder, in which the kernel collects the writes of the command
//! ([`SandboxPolicy::with_transaction`](crate::SandboxPolicy::with_transaction)). After the command,
//! [`changes`](Transaction::changes) returns the changes, checked by a [`Screen`], and
//! [`apply`](Transaction::apply) applies them. Nothing changes before that, and dropping the
//! transaction discards the changes.
//!
//! Applying starts with a recorded plan. Once the plan is recorded, the transaction will be
//! completed, by this process or by the next one that [begins](Transaction::begin) a transaction or
//! [recovers](recover). Replaced and removed files are kept beside the plan, so that the change can
//! be [undone](undo) file by file. If another folder takes the place of the changed one, such as a copy that is restored, the
//! transaction counts as not applied, and a plan that is not completed is discarded. These guarantees hold if processes exit at any time. They do not
//! hold after a power failure, just as direct writes do not.
//!
//! | module | holds |
//! |---|---|
//! | `scan` | the staged changes, compared with the current files |
//! | `plan` | the steps, and the record of them |
//! | `apply` | executing a plan, from the point where it stopped |
//! | `staging` | the folders in which changes can be staged, and why others cannot |
//! | `turn` | the lock under which changes are judged and applied |
//! | `undo` | undoing changes |
//! | `notes` | messages about changes |
//! | `place` | paths in a folder, without following links |

mod apply;
mod error;
mod notes;
mod place;
mod plan;
mod scan;
mod staging;
mod turn;
mod undo;

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

pub use self::error::TransactionError;
pub use self::notes::{made_at_once, not_staged};
pub use self::scan::{ChangeKind, Changes, Conflict, PathChange, Refused};
pub use self::staging::{NoStaging, passing_staging_for, staging_for, temporary_staging};
pub use self::undo::{Before, Undone, originals, root_of, undo};

use self::plan::{Identity, Plan};
use self::turn::Turn;
use crate::policy::SandboxPolicy;
use crate::removal::{self, remove};
use crate::screen::Screen;

/// The parts of a transaction's folder. The first two are those of the file system that collects.
const UPPER: &str = "upper";
const WORK: &str = "work";
const OLD: &str = "old";
const LOCK: &str = "lock";
const NEW_LOCK: &str = "lock.new";
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

/// The time for which replaced and removed files are kept for undo.
pub const KEPT_FOR: Duration = Duration::from_hours(30 * 24);

/// A moment by the clock of a file system.
type Moment = (i64, i64);

/// Staged changes that are not applied yet. Dropping it discards them: they are removed in the
/// background, and if the process ends before that, by the next transaction that starts in the same
/// place.
#[derive(Debug)]
pub struct Transaction {
    folder: PathBuf,
    root: PathBuf,
    root_is: Identity,
    began: Moment,
    /// Held until the end, so that others do not recover what is under way. `None` once it has been handed on.
    lock: Option<File>,
    /// Held from the look at the changes on: what was judged is what is applied, whatever others apply.
    turn: OnceLock<Turn>,
    applied: bool,
}

/// The applied changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The changes, sorted by path.
    pub changed: Vec<PathChange>,
    /// Paths that other programs changed after the plan was recorded; they were not changed.
    pub conflicts: Vec<Conflict>,
    /// The record of the change, for [`undo`]. `None` means that nothing was changed.
    pub record: Option<PathBuf>,
}

impl Transaction {
    /// Starts staging changes to `root` in a new folder in `staging`, which is created if it does
    /// not exist. Both must be on the same file system. Completes or discards transactions that
    /// exited processes left in `staging`.
    ///
    /// # Errors
    ///
    /// [`TransactionError::Elsewhere`] if the two are on different file systems or mounts, or one
    /// contains the other. [`TransactionError::NotChangeable`] if the user may not write to `root`.
    pub fn begin(staging: &Path, root: &Path) -> Result<Self, TransactionError> {
        let root = fs::canonicalize(root).map_err(TransactionError::at(root))?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(staging)
            .map_err(TransactionError::at(staging))?;
        let staging = fs::canonicalize(staging).map_err(TransactionError::at(staging))?;
        if !staging::can_stage(&staging, &root) {
            return Err(TransactionError::Elsewhere { staging, root });
        }
        if !staging::is_changeable(&root).map_err(TransactionError::at(&root))? {
            return Err(TransactionError::NotChangeable { root });
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
        let lock = new_lock(&folder)?;
        for part in [UPPER, WORK, OLD] {
            make(&folder.join(part))?;
        }
        copy_attributes(&root, &folder.join(UPPER))?;
        let began = now(&folder)?;
        let root_is = Identity::of(&fs::metadata(&root).map_err(TransactionError::at(&root))?);
        let (lock, turn) = (Some(lock), OnceLock::new());
        Ok(Self { folder, root, root_is, began, lock, turn, applied: false })
    }

    /// Sets a name, by which [`Fate::of`] finds the transaction. It replaces an earlier transaction
    /// of that name.
    ///
    /// # Errors
    ///
    /// Returns an error if the name cannot be recorded.
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

    /// Returns the location of the record after changes are applied, for [`undo`].
    #[must_use]
    pub fn record(&self) -> PathBuf {
        kept(&self.folder)
    }

    /// Returns the folder of this transaction.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the folder whose changes are staged.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Compares the staged changes with the current files, and checks them. Call it after the
    /// command has exited. Waits for other transactions of the same folder that were checked and
    /// are neither applied nor dropped; a thread must have only one at a time.
    ///
    /// # Errors
    ///
    /// Returns an error if the staged changes or the current files cannot be read.
    pub fn changes(&self, screen: &Screen) -> Result<Changes, TransactionError> {
        if self.turn.get().is_none() {
            let (staging, _) = self.parts()?;
            // Another thread cannot have taken it meanwhile and hold it still.
            self.turn.set(Turn::take(staging, &self.root)?).ok();
        }
        scan::scan(&self.folder, &self.root, self.began, &screen.clone().with_root(&self.root))
    }

    /// Applies all changes that were not refused and do not conflict. Once the plan is durable, the
    /// changes will be applied even if this process exits.
    ///
    /// # Errors
    ///
    /// Returns an error if the plan cannot be recorded; nothing was changed then. Also returns an
    /// error if a step fails; [`recover`] then continues with the remaining steps.
    pub fn apply(self, changes: Changes) -> Result<Applied, TransactionError> {
        self.apply_with(changes, &[])
    }

    /// Applies changes as [`apply`](Self::apply) does, and stores a result with the record, which
    /// [`Fate::of`] returns.
    ///
    /// # Errors
    ///
    /// As for [`apply`](Self::apply).
    pub fn apply_with(
        mut self,
        changes: Changes,
        result: &[u8],
    ) -> Result<Applied, TransactionError> {
        if changes.steps.is_empty() && changes.folders.is_empty() {
            return Ok(Applied { changed: changes.made, conflicts: Vec::new(), record: None });
        }
        let (root, root_is) = (self.root.clone(), Some(self.root_is));
        let Changes { made, looked, steps, folders, .. } = changes;
        let plan = Plan { root, root_is, looked: Some(looked), steps, folders };
        if !result.is_empty() {
            let path = self.folder.join(RESULT);
            fs::write(&path, result).map_err(TransactionError::at(&path))?;
        }
        plan.record(&self.folder)?;
        self.applied = true;
        let conflicts = apply::carry_out(&self.folder, &plan)?;
        Ok(Applied { changed: made, conflicts, record: Some(kept(&self.folder)) })
    }

    /// Records that changes cannot be staged and are applied immediately from now on. A process
    /// that looks up the transaction later learns that the outcome of the command is unknown.
    ///
    /// # Errors
    ///
    /// Returns an error if that cannot be recorded.
    pub fn mark_direct(&self) -> Result<(), TransactionError> {
        let path = self.folder.join(DIRECT);
        fs::write(&path, b"").map_err(TransactionError::at(&path))
    }

    /// Discards the staged changes and waits for their removal. Dropping the transaction does the
    /// same in the background, unless changes are applied immediately: then the record of that
    /// stays, because the command may have been interrupted.
    pub fn discard(mut self) {
        forget(&self.folder);
        self.applied = true;
    }
}

impl SandboxPolicy {
    /// Stages changes to the working folder in a transaction, which applies them after the command.
    /// If the kernel or the backend does not support that, the command is refused with
    /// [`SandboxError::NotStaged`](crate::SandboxError::NotStaged).
    pub fn with_transaction(mut self, transaction: &Transaction) -> Self {
        self.staging = Some(transaction.folder().to_path_buf());
        self
    }
}

/// The outcome of a transaction whose process may have exited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// No change was applied, or another folder has taken the place of the one that was changed.
    NotApplied,
    /// All changes were applied; this result was stored with them.
    Applied(Vec<u8>),
    /// Changes were applied immediately, and it is unknown how many.
    Unknown,
}

impl Fate {
    /// Returns the outcome of the transaction with this name, and completes it if its plan is
    /// durable.
    ///
    /// # Errors
    ///
    /// Returns an error if a record cannot be read, a step fails, or another process uses the
    /// transaction.
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
                Some(plan) if plan.is_root_replaced() => {
                    forget(&folder);
                    return Ok(Self::NotApplied);
                }
                Some(plan) => apply::finish(&folder, &plan).map(drop)?,
                None if folder.join(DIRECT).exists() => return Ok(Self::Unknown),
                None => return Ok(Self::NotApplied),
            }
        }
        let kept = kept(&folder);
        let is_elsewhere = Plan::read(&kept)?.is_some_and(|plan| plan.is_root_replaced());
        Ok(if kept.exists() && !is_elsewhere {
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

/// Completes every transaction in `staging` whose plan is durable and whose process has exited, and
/// discards those without a plan. Returns the changed folders.
///
/// # Errors
///
/// Returns an error if a plan cannot be read or a step fails.
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
        turn::remove_left(&folder);
        if !is_one || (is_unknown && !is_old(&folder, KEPT_FOR)) {
            continue;
        }
        let Ok(Some(_lock)) = lock(&folder) else { continue };
        let done = Plan::read(&folder).and_then(|plan| match plan {
            Some(plan) if plan.is_root_replaced() => Ok(None),
            Some(plan) => apply::finish(&folder, &plan).map(|_| Some(plan.root)),
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

/// Deletes the record of an applied change, which can then no longer be undone. A failed removal is
/// retried when another transaction begins in the same place.
pub fn forget(folder: &Path) {
    // The file system leaves folders without rights in its work folder.
    for left in [&[WORK][..], &["incompat"], &["incompat", "volatile"]] {
        let inner = left.iter().fold(folder.join(WORK), |path, name| path.join(name));
        if inner.exists() {
            removal::make_writable(&inner).ok();
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

/// Makes the lock of a new transaction. It gets its name when it is held, so that others, who recover what has a lock that
/// no process holds, never see it free.
fn new_lock(folder: &Path) -> Result<File, TransactionError> {
    let (draft, path) = (folder.join(NEW_LOCK), folder.join(LOCK));
    let file = File::options().create_new(true).write(true).open(&draft);
    let file = file.map_err(TransactionError::at(&draft))?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)
        .map_err(io::Error::from)
        .and_then(|()| fs::rename(&draft, &path))
        .map_err(TransactionError::at(&path))?;
    Ok(file)
}

/// Gives the folder that collects the rights of the one whose changes it collects, because the command sees it so.
fn copy_attributes(root: &Path, upper: &Path) -> Result<(), TransactionError> {
    let there = fs::metadata(root).map_err(TransactionError::at(root))?;
    fs::set_permissions(upper, there.permissions()).map_err(TransactionError::at(upper))?;
    place::set_times(upper, &there).map_err(TransactionError::at(upper))
}

/// Returns the time by the clock of the file system as it is now.
fn touched(folder: &Path) -> Result<Moment, TransactionError> {
    let path = folder.join(LOCK);
    let set = |status: fs::Metadata| fs::set_permissions(&path, status.permissions());
    fs::metadata(&path).and_then(set).map_err(TransactionError::at(&path))?;
    now(folder)
}

/// Returns the time by the clock of the file system, as it was when a transaction's lock was made or [touched].
fn now(folder: &Path) -> Result<Moment, TransactionError> {
    let path = folder.join(LOCK);
    let status = fs::metadata(&path).map_err(TransactionError::at(&path))?;
    Ok((status.ctime(), status.ctime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_that_begin_at_the_same_time_do_not_recover_each_other() {
        let world = tempfile::tempdir().unwrap();
        let (staging, root) = (world.path().join("staging"), world.path().join("root"));
        fs::create_dir(&root).unwrap();
        let begin_and_drop = || {
            for _ in 0..100 {
                let transaction = Transaction::begin(&staging, &root).unwrap();
                assert!(transaction.folder().join(UPPER).is_dir());
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(begin_and_drop);
            }
        });
    }

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
