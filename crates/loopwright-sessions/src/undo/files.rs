//! Records and undoes the changes of file tools.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use futures::executor;
use loopwright_capabilities::files::{
    FileChange, FileJournal, OriginalFile, UndoOutcome, WorkspaceRoot,
};
use loopwright_core::{
    BoxError, Change, ChangeRecord, FilesChanged, Seq, ToolOutput, messages::ToolCall,
};
use serde::Serialize;
use tokio::runtime::Handle;

use super::{FileNote, FolderNumber};
use crate::{
    error::SessionError,
    id::SessionId,
    store::{LogEntry, SessionLog, SessionStore, StoreError},
    stored::{decode, encode},
};

/// How many notes are read at once.
const PAGE: usize = 100;

/// Records file changes of tools beside a session, so that a rewind can undo them.
///
/// Give it to the [`WorkspaceRoot`] of the agent's file tools, and let
/// [`SessionRuntime::rewind_files`](crate::SessionRuntime::rewind_files) undo it. Changes by
/// commands are recorded, too, if they are staged; they can be undone on the machine where the
/// commands ran. The records of a session do not belong to its forks.
pub struct SessionFiles {
    store: Arc<dyn SessionStore>,
    id: SessionId,
    runtime: Option<Handle>,
    folder: Option<PathBuf>,
}

impl SessionFiles {
    /// Creates a recorder for this session. For stores that need a tokio runtime, call it within
    /// that runtime.
    pub fn new(store: Arc<dyn SessionStore>, id: SessionId) -> Self {
        Self { store, id, runtime: Handle::try_current().ok(), folder: None }
    }

    /// Notes with each change which folder is at this path, so that a rewind while another folder is there does not take changes
    /// for undone.
    #[must_use]
    pub fn with_folder(self, path: impl Into<PathBuf>) -> Self {
        Self { folder: Some(path.into()), ..self }
    }

    fn folder(&self) -> Option<FolderNumber> {
        folder_number(self.folder.as_deref()?)
    }

    async fn note<C: Serialize>(
        &self,
        note: impl FnOnce(Seq) -> FileNote<C>,
        before: Option<&[u8]>,
    ) -> Result<(), StoreError> {
        let header = self.store.header(&self.id).await?;
        let at = header.ok_or_else(|| StoreError::NotFound(self.id.clone()))?.length;
        let mut note = encode(&self.id, &note(at))?;
        note.push(b'\n');
        note.extend_from_slice(before.unwrap_or_default());
        self.store.append_log(&self.id, SessionLog::Files, &[note.into()], None).await.map(drop)
    }

    fn wait(&self, noted: impl Future<Output = Result<(), StoreError>>) -> Result<(), BoxError> {
        let noted = match &self.runtime {
            Some(runtime) => runtime.block_on(noted),
            None => executor::block_on(noted),
        };
        Ok(noted?)
    }
}

impl FileJournal for SessionFiles {
    fn record(&self, change: &FileChange, before: Option<&[u8]>) -> Result<(), BoxError> {
        let folder = self.folder();
        self.wait(self.note(|at| FileNote::Changed { at, change, folder }, before))
    }

    fn record_command(&self, kept: &Path, paths: &[&Path]) -> Result<(), BoxError> {
        let paths = paths.iter().map(|path| path.display().to_string()).collect();
        let (kept, folder) = (kept.to_path_buf(), self.folder());
        self.wait(self.note(|at| FileNote::<()>::Command { at, kept, paths, folder }, None))
    }
}

impl fmt::Debug for SessionFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionFiles").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A file that a call has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileCall {
    /// The tool.
    pub tool: String,
    /// The file, as the tool reports it.
    pub path: String,
}

/// A call that may have changed any file. What it changed is not recorded and cannot be undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownChanges {
    /// The tool.
    pub tool: String,
    /// The command, if the tool runs one.
    pub command: Option<String>,
}

/// A call that is complete.
struct PastCall<'a> {
    call: &'a ToolCall,
    /// The changes with which the call began and ended.
    started: Seq,
    ended: Seq,
    output: &'a ToolOutput,
}

/// Returns the calls with an output, in the order in which they ended.
fn past_calls(changes: &[ChangeRecord]) -> Vec<PastCall<'_>> {
    let mut calls: Vec<(&ToolCall, Seq)> = Vec::new();
    let mut found = Vec::new();
    for (number, change) in (0..).zip(changes) {
        match &change.change {
            Change::ModelResponded(thought) => {
                calls = thought.message.tool_calls().map(|call| (call, number)).collect();
            }
            Change::ToolCallStarted { call, .. } => {
                if let Some((_, started)) = calls.get_mut(usize::from(*call)) {
                    *started = number;
                }
            }
            Change::ToolCallCompleted { call, outcome, .. } => {
                let known = calls.get(usize::from(*call));
                found.extend(known.zip(outcome.output()).map(|((call, started), output)| {
                    PastCall { call, started: *started, ended: number, output }
                }));
            }
            _ => {}
        }
    }
    found
}

/// Finds the files that calls after a place report as changed, without a note of it beside this session: those of
/// the session that it is a fork of, or of where it was imported from.
pub(crate) async fn unrecorded(
    store: &dyn SessionStore,
    id: &SessionId,
    changes: &[ChangeRecord],
    place: Seq,
) -> Result<Vec<FileCall>, StoreError> {
    let past = past(store, id, changes.len() as Seq).await?.into_iter();
    let noted: Vec<Seq> = past.filter(|it| !it.was_left).map(|it| it.at).collect();
    let calls = past_calls(changes).into_iter().filter(|it| it.ended >= place);
    let is_noted =
        |it: &PastCall<'_>| noted.iter().any(|at| (it.started + 1..=it.ended).contains(at));
    let calls = calls.filter(|it| !is_noted(it));
    let files = |it: PastCall<'_>| {
        let tool = it.call.name.to_string();
        let named = move |path: &String| FileCall { tool: tool.clone(), path: path.clone() };
        it.output.files.known().iter().map(|file| named(&file.path)).collect::<Vec<_>>()
    };
    Ok(calls.flat_map(files).collect())
}

/// Lists the calls after a place of which it is unknown what they changed.
pub(crate) fn unknown(changes: &[ChangeRecord], place: Seq) -> Vec<UnknownChanges> {
    let calls = past_calls(changes).into_iter().filter(|it| it.ended >= place);
    let calls = calls.filter(|it| it.output.files == FilesChanged::Unknown);
    let named = |it: PastCall<'_>| {
        let arguments = serde_json::from_str::<serde_json::Value>(&it.call.arguments).ok();
        let command = arguments.and_then(|it| it.get("command")?.as_str().map(str::to_owned));
        UnknownChanges { tool: it.call.name.to_string(), command }
    };
    calls.map(named).collect()
}

/// Lists the paths whose changes after a place [`undo`] can undo, oldest change first.
pub(crate) async fn recorded(
    store: &dyn SessionStore,
    id: &SessionId,
    at: Seq,
) -> Result<Vec<String>, StoreError> {
    let mut changed = Vec::new();
    for number in changed_after(store, id, at).await? {
        let notes = store.read_log(id, SessionLog::Files, number - 1, 1).await?;
        match notes.first().map(|note| read::<FileChange>(id, note)).transpose()? {
            Some((FileNote::Changed { change, .. }, _)) => changed.push(change.path),
            Some((FileNote::Command { paths, .. }, _)) => changed.extend(paths),
            Some((FileNote::Undone { .. } | FileNote::Rewound { .. }, _)) | None => {}
        }
    }
    Ok(changed)
}

/// Returns what was at each path before it was first changed after a place. Files of more than `largest` bytes are
/// unknown.
pub(crate) async fn originals(
    store: &dyn SessionStore,
    id: &SessionId,
    at: Seq,
    largest: u64,
) -> Result<BTreeMap<String, OriginalFile>, StoreError> {
    let mut originals = BTreeMap::new();
    for number in changed_after(store, id, at).await? {
        let notes = store.read_log(id, SessionLog::Files, number - 1, 1).await?;
        match notes.first().map(|note| read::<FileChange>(id, note)).transpose()? {
            Some((FileNote::Changed { change, .. }, content)) => {
                let original = match (change.from, change.before) {
                    (Some(from), _) => OriginalFile::MovedFrom(from),
                    (None, None) => OriginalFile::Absent,
                    (None, Some(_)) if content.len() as u64 > largest => OriginalFile::Unknown,
                    (None, Some(_)) => OriginalFile::Content(content.to_vec()),
                };
                originals.entry(change.path).or_insert(original);
            }
            Some((FileNote::Command { kept, paths, .. }, _)) => {
                for (path, original) in command_originals(&kept, largest, paths) {
                    originals.entry(path).or_insert(original);
                }
            }
            Some((FileNote::Undone { .. } | FileNote::Rewound { .. }, _)) | None => {}
        }
    }
    Ok(originals)
}

/// Returns what was at the paths that a command changed, if that is kept on this machine.
#[cfg(target_os = "linux")]
fn command_originals(kept: &Path, largest: u64, paths: Vec<String>) -> Vec<(String, OriginalFile)> {
    match loopwright_capabilities::bash::command_originals(kept, largest, &paths) {
        Ok(originals) if !originals.is_empty() => originals,
        _ => paths.into_iter().map(|path| (path, OriginalFile::Unknown)).collect(),
    }
}

/// Undoes what was done to files after a place, newest first, and notes what was undone.
pub(crate) async fn undo(
    store: &dyn SessionStore,
    id: &SessionId,
    root: &WorkspaceRoot,
    at: Seq,
) -> Result<Vec<(String, UndoOutcome)>, SessionError> {
    let mut undone = Vec::new();
    let numbers = changed_after(store, id, at).await?;
    let here = folder_number(root.path());
    let is_elsewhere = |folder: Option<FolderNumber>| folder.is_some() && folder != here;
    for number in numbers.iter().rev() {
        let notes = store.read_log(id, SessionLog::Files, number - 1, 1).await?;
        match notes.first().map(|note| read::<FileChange>(id, note)).transpose()? {
            Some((FileNote::Changed { change, folder, .. }, content)) => {
                let before = change.before.is_some().then_some(content);
                let came = if is_elsewhere(folder) {
                    undo_elsewhere(&change, root, before)
                } else {
                    // What cannot be reached any more, or is no file, has changed since as well.
                    change.undo(root, before).unwrap_or(UndoOutcome::Conflict)
                };
                undone.push((*number, change.path, came));
            }
            Some((FileNote::Command { paths, folder, .. }, _)) if is_elsewhere(folder) => {
                let left = |path| (*number, path, UndoOutcome::OtherFolder);
                undone.extend(paths.into_iter().map(left));
            }
            Some((FileNote::Command { kept, paths, .. }, _)) => {
                let came = undo_command(&kept, root.path(), paths).into_iter();
                undone.extend(came.map(|(path, came)| (*number, path, came)));
            }
            Some((FileNote::Undone { .. } | FileNote::Rewound { .. }, _)) | None => {}
        }
    }
    settle(&mut undone);
    let is_left =
        |came: &UndoOutcome| matches!(came, UndoOutcome::Conflict | UndoOutcome::OtherFolder);
    let left: BTreeSet<u64> = undone.iter().filter(|it| is_left(&it.2)).map(|it| it.0).collect();
    let notes: Vec<u64> = numbers.into_iter().filter(|it| !left.contains(it)).collect();
    if !notes.is_empty() {
        let header = store.header(id).await?.ok_or_else(|| StoreError::NotFound(id.clone()))?;
        let note = encode(id, &FileNote::<()>::Undone { at: header.length, notes })?;
        store.append_log(id, SessionLog::Files, &[note.into()], None).await?;
    }
    Ok(undone.into_iter().map(|(_, path, came)| (path, came)).collect())
}

/// Undoes a change that was made in another folder, if the folder that is there now holds what the change made. That a file is
/// missing in it says nothing.
fn undo_elsewhere(change: &FileChange, root: &WorkspaceRoot, before: Option<&[u8]>) -> UndoOutcome {
    let undone = change.after.as_ref().and_then(|_| change.undo(root, before).ok());
    match undone {
        Some(came @ (UndoOutcome::Restored | UndoOutcome::Removed)) => came,
        _ => UndoOutcome::OtherFolder,
    }
}

/// Returns the number of the folder at a path. `None` means that there is none.
fn folder_number(path: &Path) -> Option<FolderNumber> {
    fs::metadata(path).ok().map(|it| it.ino())
}

/// Takes a later change of a path for undone if the path is as it was before an earlier change, which was undone after it.
fn settle(undone: &mut [(u64, String, UndoOutcome)]) {
    let is_conflict = |came: &UndoOutcome| *came == UndoOutcome::Conflict;
    let last: BTreeMap<String, bool> =
        undone.iter().map(|(_, path, came)| (path.clone(), is_conflict(came))).collect();
    for (_, path, came) in undone.iter_mut() {
        if is_conflict(came) && last.get(path) == Some(&false) {
            *came = UndoOutcome::Unchanged;
        }
    }
}

/// Undoes what a command did, if what the paths were is kept on this machine.
#[cfg(target_os = "linux")]
fn undo_command(kept: &Path, root: &Path, paths: Vec<String>) -> Vec<(String, UndoOutcome)> {
    use loopwright_capabilities::bash::{Restored, undo_command};

    match undo_command(kept, root) {
        Ok(came) if !came.is_empty() || paths.is_empty() => came
            .into_iter()
            .map(|it| match it {
                Restored::AsBefore(path) => (path, UndoOutcome::Restored),
                Restored::Removed(path) => (path, UndoOutcome::Removed),
                Restored::Unchanged(path) => (path, UndoOutcome::Unchanged),
                Restored::ChangedSince(path) => (path, UndoOutcome::Conflict),
            })
            .collect(),
        // Nothing is kept: it was not made real, or it was kept long enough, or elsewhere.
        _ => paths.into_iter().map(|path| (path, UndoOutcome::Conflict)).collect(),
    }
}

#[cfg(not(target_os = "linux"))]
fn undo_command(_: &Path, _: &Path, paths: Vec<String>) -> Vec<(String, UndoOutcome)> {
    paths.into_iter().map(|path| (path, UndoOutcome::Conflict)).collect()
}

/// A change of files that is part of the past of a session.
struct PastChange {
    /// The number of changes of the session after which it counts as made.
    at: Seq,
    /// The number of its note.
    note: u64,
    /// Whether it was undone, and the session did not go back behind it.
    is_undone: bool,
    /// Whether a rewind left it in the files.
    was_left: bool,
    /// Whether it is [`was_left`](Self::was_left) and the session has not continued since that rewind. It then counts as
    /// the first change after that place.
    is_open: bool,
}

impl PastChange {
    /// Notes that the session has this number of changes. Once a session continues from where it went back to, a change
    /// that was left in the files belongs to what was before, as the agent found the files so.
    fn reach(&mut self, length: Seq) {
        if self.is_open && length >= self.at {
            (self.at, self.is_open) = (self.at - 1, false);
        }
    }
}

/// Returns the numbers of the notes of changes that came after a place and are part of the past, but for those that were undone.
async fn changed_after(
    store: &dyn SessionStore,
    id: &SessionId,
    place: Seq,
) -> Result<Vec<u64>, StoreError> {
    let header = store.header(id).await?.ok_or_else(|| StoreError::NotFound(id.clone()))?;
    let past = past(store, id, header.length).await?;
    Ok(past.into_iter().filter(|it| it.at > place && !it.is_undone).map(|it| it.note).collect())
}

/// Returns the changes of files that are part of the past of a session with this number of changes, oldest first.
async fn past(
    store: &dyn SessionStore,
    id: &SessionId,
    length: Seq,
) -> Result<Vec<PastChange>, StoreError> {
    let mut past: Vec<PastChange> = Vec::new();
    // Few sessions have changes that a rewind left, and those are closed soon.
    let (mut last, mut has_open) = (0, false);
    loop {
        let notes = store.read_log(id, SessionLog::Files, last, PAGE).await?;
        let Some(end) = notes.last() else { break };
        last = end.number;
        for note in &notes {
            let (read, _) = read::<serde::de::IgnoredAny>(id, note)?;
            let (FileNote::Changed { at, .. }
            | FileNote::Command { at, .. }
            | FileNote::Undone { at, .. }
            | FileNote::Rewound { at, .. }) = read;
            if has_open {
                for change in &mut past {
                    change.reach(at);
                }
                has_open = past.iter().any(|it| it.is_open);
            }
            match read {
                FileNote::Changed { .. } | FileNote::Command { .. } => {
                    let note = note.number;
                    past.push(PastChange {
                        at,
                        note,
                        is_undone: false,
                        was_left: false,
                        is_open: false,
                    });
                }
                FileNote::Undone { notes, .. } => {
                    let notes: BTreeSet<u64> = notes.into_iter().collect();
                    for undone in past.iter_mut().filter(|it| notes.contains(&it.note)) {
                        undone.is_undone = true;
                    }
                }
                FileNote::Rewound { .. } => {
                    past.retain(|it| it.at <= at || !it.is_undone);
                    for left in past.iter_mut().filter(|it| it.at > at) {
                        (left.at, left.was_left, left.is_open) = (at + 1, true, true);
                        has_open = true;
                    }
                }
            }
        }
    }
    for change in &mut past {
        change.reach(length);
    }
    Ok(past)
}

fn read<'a, C: serde::de::DeserializeOwned>(
    id: &SessionId,
    note: &'a LogEntry,
) -> Result<(FileNote<C>, &'a [u8]), StoreError> {
    let end = note.body.iter().position(|byte| *byte == b'\n');
    let (line, content) = match end {
        Some(end) => (&note.body[..end], &note.body[end + 1..]),
        None => (&note.body[..], &[][..]),
    };
    Ok((decode(id, line)?, content))
}
