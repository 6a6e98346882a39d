//! The changes of a command: staged while it runs, then checked, recorded and applied.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use loopwright_core::{CallState, ChangedFile, FilesChanged, ToolCx, ToolOutput};
use loopwright_sandbox::screen::Screen;
use loopwright_sandbox::transaction::{
    Applied, Before, ChangeKind, Changes, Fate, PathChange, Transaction, TransactionError, Undone,
    originals, root_of, staging_for,
};
use loopwright_sandbox::{Backend, BackendChoice, SandboxPolicy, WorkdirAccess};

use crate::bash::BashError;
use crate::files::{FileJournal, OriginalFile};

/// How the changes of commands are collected.
#[derive(Clone, Default)]
pub(super) struct Collect {
    pub(super) place: Place,
    pub(super) screen: Screen,
    pub(super) journal: Option<Arc<dyn FileJournal>>,
}

/// Where changes are collected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Place {
    /// In a folder of the user's on the same file system, where there is one.
    #[default]
    Found,
    In(PathBuf),
    /// They are made at once.
    Nowhere,
}

/// The call that a command belongs to, over all attempts.
pub(super) struct Entry {
    name: String,
    is_again: bool,
}

/// How a command begins.
pub(super) enum Begun {
    Collected(Transaction),
    /// Its changes are made at once. With a reason, they cannot be collected.
    Direct(Option<String>),
    /// It has run already, and this came of it.
    Finished(Box<ToolOutput>),
}

impl Entry {
    pub(super) fn of(cx: &ToolCx<'_>) -> Self {
        let open = cx.state.execution().and_then(|it| it.open_step());
        let call = cx.key.call.and_then(|call| open?.calls().get(usize::from(call)));
        let is_again = matches!(call, Some(CallState::Started { attempt: 2.., .. }));
        Self { name: cx.key.to_string().replace('/', "-"), is_again }
    }
}

impl Collect {
    /// Returns `true` if commands leave nothing behind but what is collected, so that one that was interrupted did not
    /// happen.
    pub(super) fn is_resumable(&self, policy: &SandboxPolicy) -> bool {
        let is_confined = matches!(
            policy.backend,
            BackendChoice::Auto | BackendChoice::Only(Backend::Namespaces)
        );
        self.collects(policy)
            && is_confined
            && policy.network.is_closed()
            && policy.write_paths.is_empty()
            && policy.direct.is_empty()
    }

    fn collects(&self, policy: &SandboxPolicy) -> bool {
        self.place != Place::Nowhere
            && policy.workdir_access != WorkdirAccess::ReadOnly
            && policy.backend != BackendChoice::Only(Backend::Host)
    }

    /// Begins to collect, unless the call has run already. `usual` is the policy of calls that ask for nothing more.
    pub(super) fn begin(
        &self,
        policy: &SandboxPolicy,
        usual: &SandboxPolicy,
        entry: Option<&Entry>,
    ) -> Result<Begun, BashError> {
        if !self.collects(policy) {
            return Ok(Begun::Direct(None));
        }
        let place = match &self.place {
            Place::In(place) => Ok(place.clone()),
            Place::Found => staging_for(&policy.workdir),
            Place::Nowhere => return Ok(Begun::Direct(None)),
        };
        let place = match place {
            Ok(place) => place,
            Err(reason) => return self.begin_direct(usual, entry, reason.to_string()),
        };
        if let Some(entry) = entry.filter(|it| it.is_again && self.is_resumable(usual)) {
            match Fate::of(&place, &entry.name).map_err(BashError::Changes)? {
                Fate::NotApplied if self.is_resumable(policy) => {}
                // One that has asked for more may have done something that is not collected.
                Fate::NotApplied | Fate::Unknown => return Err(BashError::OutcomeUnknown),
                Fate::Applied(result) => {
                    let output = serde_json::from_slice(&result);
                    return output.map(Begun::Finished).map_err(|_| BashError::OutcomeUnknown);
                }
            }
        }
        match Transaction::begin(&place, &policy.workdir) {
            Ok(transaction) => {
                if let Some(entry) = entry {
                    transaction.name(&entry.name).map_err(BashError::Changes)?;
                }
                Ok(Begun::Collected(transaction))
            }
            Err(
                error @ (TransactionError::Elsewhere { .. }
                | TransactionError::NotChangeable { .. }),
            ) => self.begin_direct(usual, entry, error.to_string()),
            Err(error) => Err(BashError::Changes(error)),
        }
    }

    /// A call that was interrupted is not run again where its changes were made at once.
    fn begin_direct(
        &self,
        usual: &SandboxPolicy,
        entry: Option<&Entry>,
        reason: String,
    ) -> Result<Begun, BashError> {
        match entry {
            Some(entry) if entry.is_again && self.is_resumable(usual) => {
                Err(BashError::OutcomeUnknown)
            }
            _ => Ok(Begun::Direct(Some(reason))),
        }
    }

    /// Looks at what was collected. Returns what is worth telling of it.
    pub(super) fn judge(
        &self,
        transaction: &Transaction,
        policy: &SandboxPolicy,
    ) -> Result<(Changes, Vec<String>), BashError> {
        let screen = policy.screen(self.screen.clone());
        let changes = transaction.changes(&screen).map_err(BashError::Changes)?;
        let notes = if policy.discards_changes() {
            changes.discarded_note().into_iter().collect()
        } else {
            changes.notes()
        };
        Ok((changes, notes))
    }

    /// Records what will be changed, and makes it real.
    pub(super) fn apply(
        &self,
        transaction: Transaction,
        changes: Changes,
        output: &ToolOutput,
    ) -> Result<Applied, BashError> {
        if let Some(journal) = &self.journal
            && !changes.made().is_empty()
        {
            let paths: Vec<&Path> = changes.made().iter().map(|it| it.path.as_path()).collect();
            let recorded = journal.record_command(&transaction.record(), &paths);
            recorded.map_err(BashError::NotRecorded)?;
        }
        let result = serde_json::to_vec(output).unwrap_or_default();
        transaction.apply_with(changes, &result).map_err(BashError::Changes)
    }
}

/// Returns what a command changed, as a tool reports it.
pub(super) fn changed_files<'a>(changes: impl IntoIterator<Item = &'a PathChange>) -> FilesChanged {
    let files = changes.into_iter().map(|change| {
        let path = change.path.display().to_string();
        match change.kind {
            ChangeKind::Added => ChangedFile::created(path),
            ChangeKind::Removed => ChangedFile::deleted(path),
            _ => ChangedFile::modified(path),
        }
    });
    files.collect()
}

impl fmt::Debug for Collect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collect").field("place", &self.place).finish_non_exhaustive()
    }
}

/// The outcome of undoing the change of one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Restored {
    /// What was at the path before was put back.
    AsBefore(String),
    /// The path was removed: nothing was there before.
    Removed(String),
    /// The path already was as before.
    Unchanged(String),
    /// The path has been changed since then, and was kept.
    ChangedSince(String),
}

/// Undoes the changes of a command, from the record that [`FileJournal::record_command`] received.
/// Returns an empty list if the record does not exist. Paths are relative to the working directory if the command ran in `root`,
/// and absolute if it ran elsewhere, as a sub-agent does in its own git worktree.
///
/// # Errors
///
/// Returns an error if the record or a file cannot be read or written.
pub fn undo_command(kept: &Path, root: &Path) -> Result<Vec<Restored>, TransactionError> {
    let elsewhere = root_of(kept)?.filter(|it| it != root).unwrap_or_default();
    let undone = loopwright_sandbox::transaction::undo(kept)?;
    let shown = |path: PathBuf| elsewhere.join(path).display().to_string();
    Ok(undone
        .into_iter()
        .filter_map(|it| match it {
            Undone::Restored(path) => Some(Restored::AsBefore(shown(path))),
            Undone::Removed(path) => Some(Restored::Removed(shown(path))),
            Undone::Unchanged(path) => Some(Restored::Unchanged(shown(path))),
            Undone::Conflict(path) => Some(Restored::ChangedSince(shown(path))),
            _ => None,
        })
        .collect())
}

/// Returns the content of each path before a command changed it, from the record that
/// [`FileJournal::record_command`] received. Returns an empty list if the record does not exist.
/// Files of more than `largest` bytes are [`Unknown`](OriginalFile::Unknown). `paths` are those that the journal received: if they
/// are absolute because the command ran elsewhere, the returned ones are, too.
///
/// # Errors
///
/// Returns an error if the record cannot be read.
pub fn command_originals(
    kept: &Path,
    largest: u64,
    paths: &[String],
) -> Result<Vec<(String, OriginalFile)>, TransactionError> {
    let is_elsewhere = paths.iter().any(|it| Path::new(it).is_absolute());
    let folder = if is_elsewhere { root_of(kept)?.unwrap_or_default() } else { PathBuf::new() };
    let original = |before| match before {
        Before::Absent => OriginalFile::Absent,
        Before::Kept(path) => content(&path, largest),
        _ => OriginalFile::Unknown,
    };
    let originals = originals(kept)?.into_iter();
    let shown = |path: PathBuf| folder.join(path).display().to_string();
    Ok(originals.map(|(path, before)| (shown(path), original(before))).collect())
}

/// Reads a file that is kept. A link is none.
fn content(path: &Path, largest: u64) -> OriginalFile {
    let found = fs::symlink_metadata(path).ok();
    let found = found.filter(|it| it.is_file() && it.len() <= largest);
    found.and_then(|_| fs::read(path).ok()).map_or(OriginalFile::Unknown, OriginalFile::Content)
}
