//! The staged changes, compared with the current files.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{llistxattr, lremovexattr};

use super::error::TransactionError;
use super::plan::{Attributes, Look, Mark, Part, Step};
use super::{Moment, UPPER, place};
use crate::beneath::is_opaque;
use crate::removal::{self, remove};
use crate::screen::{self, DEEPEST, EntryKind, FolderView, Reason, Screen, TOO_DEEP, entries};

/// How the names begin of what the file system notes for itself.
const NOTES: &[u8] = b"user.overlay.";
const CLOSES: Reason =
    Reason::new("would remove permissions that the folder's owner needs to enter it");

/// The checked changes of a command, not yet applied.
#[derive(Debug)]
pub struct Changes {
    pub(super) made: Vec<PathChange>,
    /// When the scan began.
    pub(super) looked: Moment,
    pub(super) steps: Vec<Step>,
    pub(super) folders: Vec<Attributes>,
    refused: Vec<Refused>,
    conflicts: Vec<Conflict>,
}

/// A change of one path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathChange {
    /// The path in the folder.
    pub path: PathBuf,
    /// The kind of change.
    pub kind: ChangeKind,
}

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ChangeKind {
    /// The path is new.
    Added,
    /// The entry was replaced, or its content changed.
    Modified,
    /// The entry was removed, with everything in it.
    Removed,
    /// The permissions or times of a folder changed.
    Attributes,
}

impl ChangeKind {
    /// Returns the name of the change.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Modified => "modified",
            Self::Removed => "removed",
            Self::Attributes => "attributes",
        }
    }
}

/// A change that the screen refuses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refused {
    /// The path in the folder; the refusal includes everything in it.
    pub path: PathBuf,
    /// The reason, as the end of a sentence that starts with the path.
    pub reason: &'static str,
}

/// A change that conflicts: the path was changed by others after the command started.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conflict {
    /// The path in the folder.
    pub path: PathBuf,
}

impl Changes {
    /// The changes to apply, sorted by path.
    pub fn made(&self) -> &[PathChange] {
        &self.made
    }

    /// The changes that the screen refuses.
    pub fn refused(&self) -> &[Refused] {
        &self.refused
    }

    /// The changes that conflict, because the path was changed by others after the command started.
    pub fn conflicts(&self) -> &[Conflict] {
        &self.conflicts
    }

    /// Returns `true` if there are no changes and no refusals.
    pub fn is_empty(&self) -> bool {
        self.made.is_empty() && self.refused.is_empty() && self.conflicts.is_empty()
    }
}

impl Changes {
    /// How many of each there are so far.
    fn noted(&self) -> [usize; 5] {
        let Self { made, steps, folders, refused, conflicts, .. } = self;
        [made.len(), steps.len(), folders.len(), refused.len(), conflicts.len()]
    }

    /// Forgets what was noted after these.
    fn forget_since(&mut self, [made, steps, folders, refused, conflicts]: [usize; 5]) {
        self.made.truncate(made);
        self.steps.truncate(steps);
        self.folders.truncate(folders);
        self.refused.truncate(refused);
        self.conflicts.truncate(conflicts);
    }
}

/// Why a folder is not kept that the screen cannot look into as a whole.
const TOO_LONG: Reason = Reason::new("contains a path that is too long");

fn is_too_deep(path: &Path) -> bool {
    path.components().count() > DEEPEST + 1
}

fn is_too_long(error: &TransactionError) -> bool {
    matches!(error, TransactionError::File { source, .. }
        if source.raw_os_error() == Some(libc::ENAMETOOLONG))
}

/// Compares what was collected with what is there.
pub(super) fn scan(
    folder: &Path,
    root: &Path,
    began: Moment,
    screen: &Screen,
) -> Result<Changes, TransactionError> {
    let looked = super::touched(folder)?;
    let upper = folder.join(UPPER);
    let layers = Layers::new(&upper, root);
    let mut scan = Scan {
        layers,
        began,
        screen,
        changes: Changes {
            made: Vec::new(),
            looked,
            steps: Vec::new(),
            folders: Vec::new(),
            refused: Vec::new(),
            conflicts: Vec::new(),
        },
        kept: 0,
    };
    scan.merged(Path::new(""))?;
    scan.changes.made.sort();
    Ok(scan.changes)
}

struct Scan<'a> {
    layers: Layers<'a>,
    began: Moment,
    screen: &'a Screen,
    changes: Changes,
    /// How many things are to be kept for the way back.
    kept: usize,
}

impl Scan<'_> {
    /// Looks at a folder that was there before, and of which some part was collected.
    fn merged(&mut self, path: &Path) -> Result<(), TransactionError> {
        let held = self.changes.refused.len() + self.changes.conflicts.len();
        let planned = self.changes.steps.len();
        let (upper, below) = (self.layers.upper.join(path), self.layers.root.join(path));
        let opened = Opened::of(&upper).map_err(TransactionError::at(&upper))?;
        for name in entries(&upper).map_err(TransactionError::at(&upper))? {
            let path = path.join(name);
            if is_too_deep(&path) {
                self.refuse(&path, TOO_DEEP);
                continue;
            }
            let noted = self.changes.noted();
            match self.entry(&path) {
                Err(error) if is_too_long(&error) => {
                    self.changes.forget_since(noted);
                    self.refuse(&path, TOO_LONG);
                }
                done => done?,
            }
        }
        let before = fs::symlink_metadata(&below).map_err(TransactionError::at(&below))?;
        let (mut after, before) = (Look::of(&opened.status), Look::of(&before));
        let taken = before.mode & 0o700 & !after.mode;
        let closes = path == Path::new("") && taken != 0;
        after.mode |= if closes { taken } else { 0 };
        let is_whole = held == self.changes.refused.len() + self.changes.conflicts.len();
        let is_touched = is_whole && before.modified != after.modified;
        // Every step in it changes its times, whatever the command did.
        if before.mode != after.mode || is_touched || planned != self.changes.steps.len() {
            self.changes.folders.push(Attributes { path: path.into(), before, after });
            let is_alone = before.mode != after.mode && path != Path::new("");
            if is_alone {
                self.note_change(path, ChangeKind::Attributes);
            }
        }
        if closes {
            self.refuse(Path::new("."), CLOSES);
        }
        Ok(())
    }

    /// Looks at what was collected at a path in a folder that was there before.
    fn entry(&mut self, path: &Path) -> Result<(), TransactionError> {
        let upper = self.layers.upper.join(path);
        let new = fs::symlink_metadata(&upper).map_err(TransactionError::at(&upper))?;
        let old = fs::symlink_metadata(self.layers.root.join(path)).ok();
        let was = old.as_ref().map(Mark::of);
        if is_whiteout(&new) {
            if let Some(was) = was {
                self.removed(path, was);
            }
            return Ok(());
        }
        if new.is_dir() && !is_opaque(&upper) && old.as_ref().is_some_and(Metadata::is_dir) {
            return match self.screen.by_name(path).filter(|_| self.layers.changes_below(path)) {
                Some(reason) => {
                    self.refuse(path, reason);
                    Ok(())
                }
                None => self.merged(path),
            };
        }
        if old.as_ref().is_some_and(|old| self.is_same(path, old, &new)) {
            return Ok(());
        }
        self.layers.know(path, &new);
        if let Some(reason) = self.screen.judge(path, self.layers.root, &self.layers) {
            self.refuse(path, reason);
            return Ok(());
        }
        match (&old, was) {
            (Some(old), Some(was)) if !new.is_dir() && !old.is_dir() => {
                if self.is_newer(old) {
                    self.conflict(path);
                    return Ok(());
                }
                let is = taken(&upper, &new)?;
                let old = self.keep();
                self.changes.steps.push(Step::Replace { path: path.into(), old, was, is });
                self.note_change(path, ChangeKind::Modified);
                Ok(())
            }
            (Some(_), Some(was)) => {
                if self.removed(path, was) {
                    self.added(path, &upper, &new)?;
                }
                Ok(())
            }
            _ => self.added(path, &upper, &new),
        }
    }

    /// Plans the removal of what is at a path. Returns whether it is planned.
    fn removed(&mut self, path: &Path, was: Mark) -> bool {
        if let Some(reason) = self.screen.judge_removal(path, &self.layers) {
            self.refuse(path, reason);
            return false;
        }
        if self.changed_since(&self.layers.root.join(path)) {
            self.conflict(path);
            return false;
        }
        let old = self.keep();
        self.changes.steps.push(Step::Remove { path: path.into(), old, was });
        self.note_change(path, ChangeKind::Removed);
        true
    }

    /// Plans what is new at a path, with all that is in it but what is refused.
    fn added(&mut self, path: &Path, upper: &Path, new: &Metadata) -> Result<(), TransactionError> {
        let mut is = taken(upper, new)?;
        let mut parts = Vec::new();
        self.note_change(path, ChangeKind::Added);
        if new.is_dir() {
            self.parts(path, &mut parts)?;
            // Removing what is refused has changed the folder's times.
            is = fs::symlink_metadata(upper).map_or(is, |status| Mark::of(&status));
        }
        self.changes.steps.push(Step::Add { path: path.into(), is, parts });
        Ok(())
    }

    /// Goes through a folder that is new, and takes out of it what is refused.
    fn parts(&mut self, folder: &Path, parts: &mut Vec<Part>) -> Result<(), TransactionError> {
        let upper = self.layers.upper.join(folder);
        let opened = Opened::of(&upper).map_err(TransactionError::at(&upper))?;
        let mut is_whole = true;
        for name in entries(&upper).map_err(TransactionError::at(&upper))? {
            let path = folder.join(&name);
            let at = upper.join(&name);
            let new = fs::symlink_metadata(&at).map_err(TransactionError::at(&at))?;
            let refused = if is_whiteout(&new) {
                None
            } else if is_too_deep(&path) {
                Some(TOO_DEEP)
            } else {
                self.layers.know(&path, &new);
                self.screen.judge(&path, self.layers.root, &self.layers)
            };
            if let Some(reason) = refused {
                self.refuse(&path, reason);
            }
            if refused.is_some() || is_whiteout(&new) {
                is_whole = false;
                remove(&at).map_err(TransactionError::at(&at))?;
                continue;
            }
            let is = taken(&at, &new)?;
            let (noted, planned) = (self.changes.noted(), parts.len());
            self.note_change(&path, ChangeKind::Added);
            parts.push(Part { path: path.clone(), is });
            if !new.is_dir() {
                continue;
            }
            match self.parts(&path, parts) {
                Err(error) if is_too_long(&error) => {
                    self.changes.forget_since(noted);
                    parts.truncate(planned);
                    self.refuse(&path, TOO_LONG);
                    is_whole = false;
                    remove(&at).map_err(TransactionError::at(&at))?;
                }
                done => done?,
            }
        }
        if !is_whole {
            place::set_times(&upper, &opened.status).map_err(TransactionError::at(&upper))?;
        }
        Ok(())
    }

    /// Returns `true` if a file was only opened, not changed.
    fn is_same(&self, path: &Path, old: &Metadata, new: &Metadata) -> bool {
        old.file_type() == new.file_type()
            && (old.mode(), old.size()) == (new.mode(), new.size())
            && (old.mtime(), old.mtime_nsec()) == (new.mtime(), new.mtime_nsec())
            && same_content(&self.layers.upper.join(path), &self.layers.root.join(path), old)
    }

    /// Returns `true` if something was changed since the command began. What was changed in the same tick of the clock was
    /// changed before the command could look at it, because starting it takes longer than a tick.
    fn is_newer(&self, old: &Metadata) -> bool {
        (old.ctime(), old.ctime_nsec()) > self.began
    }

    /// The same of anything in a tree.
    fn changed_since(&self, path: &Path) -> bool {
        let mut paths = vec![path.to_path_buf()];
        while let Some(path) = paths.pop() {
            let Ok(status) = fs::symlink_metadata(&path) else { continue };
            if self.is_newer(&status) {
                return true;
            }
            if status.is_dir() {
                let names = entries(&path).unwrap_or_default().into_iter();
                paths.extend(names.map(|name| path.join(name)));
            }
        }
        false
    }

    fn keep(&mut self) -> usize {
        self.kept += 1;
        self.kept
    }

    fn note_change(&mut self, path: &Path, kind: ChangeKind) {
        // What is put in the place of a folder is one change.
        if let Some(last) = self.changes.made.last_mut()
            && last.path == path
            && last.kind == ChangeKind::Removed
        {
            last.kind = ChangeKind::Modified;
            return;
        }
        self.changes.made.push(PathChange { path: path.into(), kind });
    }

    fn refuse(&mut self, path: &Path, reason: Reason) {
        self.changes.refused.push(Refused { path: path.into(), reason: reason.text() });
    }

    fn conflict(&mut self, path: &Path) {
        self.changes.conflicts.push(Conflict { path: path.into() });
    }
}

/// Takes from a file what the file system noted on it for itself.
fn taken(upper: &Path, new: &Metadata) -> Result<Mark, TransactionError> {
    if new.is_dir() || new.is_file() {
        let mut list = [0_u8; 4096];
        let length = llistxattr(upper, &mut list).unwrap_or(0);
        for name in list[..length].split(|byte| *byte == 0).filter(|it| it.starts_with(NOTES)) {
            let removed = lremovexattr(upper, name);
            removed.map_err(|error| TransactionError::at(upper)(error.into()))?;
        }
    }
    Ok(Mark::of(new))
}

/// The folder as it is, and what was collected above it.
struct Layers<'a> {
    upper: &'a Path,
    root: &'a Path,
    /// What was found where it is asked again and again: for what makes a repository, beside every file.
    found: RefCell<HashMap<PathBuf, Option<EntryKind>>>,
    /// What was there before of the names that make a repository. Each removal asks for them in all folders around it.
    was: RefCell<HashMap<PathBuf, Option<EntryKind>>>,
}

impl<'a> Layers<'a> {
    fn new(upper: &'a Path, root: &'a Path) -> Self {
        Self { upper, root, found: RefCell::default(), was: RefCell::default() }
    }

    /// Returns `true` if what is below at a path is seen through what was collected.
    fn shows_below(&self, path: &Path) -> bool {
        path.ancestors().skip(1).all(|at| {
            let upper = self.upper.join(at);
            match fs::symlink_metadata(&upper) {
                Ok(status) => status.is_dir() && !is_opaque(&upper),
                Err(_) => true,
            }
        })
    }

    fn find(&self, path: &Path) -> Option<EntryKind> {
        match fs::symlink_metadata(self.upper.join(path)) {
            Ok(status) => Some(EntryKind::of(&status)).filter(|_| !is_whiteout(&status)),
            Err(_) if self.shows_below(path) => self.before(path),
            Err(_) => None,
        }
    }

    /// Notes what was collected at a path, so that it is not asked again.
    fn know(&self, path: &Path, new: &Metadata) {
        self.found.borrow_mut().insert(path.into(), Some(EntryKind::of(new)));
    }

    /// Returns `true` if anything was collected in a folder besides its own look.
    fn changes_below(&self, path: &Path) -> bool {
        entries(&self.upper.join(path)).is_ok_and(|names| !names.is_empty())
    }
}

impl FolderView for Layers<'_> {
    fn what(&self, path: &Path) -> Option<EntryKind> {
        if let Some(found) = self.found.borrow().get(path) {
            return *found;
        }
        let found = self.find(path);
        self.found.borrow_mut().insert(path.into(), found);
        found
    }

    fn before(&self, path: &Path) -> Option<EntryKind> {
        let look = || EntryKind::at(&self.root.join(path));
        if !path.file_name().is_some_and(screen::makes_repository) {
            return look();
        }
        *self.was.borrow_mut().entry(path.into()).or_insert_with(look)
    }

    fn content(&self, path: &Path) -> Option<Vec<u8>> {
        self.what(path)?;
        let upper = self.upper.join(path);
        match fs::symlink_metadata(&upper) {
            Ok(_) => screen::read_beginning(&upper),
            Err(_) => screen::read_beginning(&self.root.join(path)),
        }
    }

    fn content_before(&self, path: &Path) -> Option<Vec<u8>> {
        screen::read_beginning(&self.root.join(path))
    }

    fn names(&self, path: &Path) -> Vec<OsString> {
        let upper = entries(&self.upper.join(path)).unwrap_or_default();
        let below = entries(&self.root.join(path)).unwrap_or_default();
        let mut all: Vec<OsString> = upper.into_iter().chain(below).collect();
        all.sort();
        all.dedup();
        all.retain(|name| self.what(&path.join(name)).is_some());
        all
    }
}

/// Returns `true` if something stands for the removal of what is below it.
fn is_whiteout(status: &Metadata) -> bool {
    status.file_type().is_char_device() && status.rdev() == 0
}

fn same_content(one: &Path, other: &Path, status: &Metadata) -> bool {
    if status.is_symlink() {
        return fs::read_link(one).ok() == fs::read_link(other).ok();
    }
    status.is_file()
        && match (fs::File::open(one), fs::File::open(other)) {
            (Ok(one), Ok(other)) => same_bytes(one, other).unwrap_or(false),
            _ => false,
        }
}

/// Returns `true` if two files have the same content.
pub(super) fn same_bytes(one: fs::File, other: fs::File) -> io::Result<bool> {
    use std::io::BufRead as _;
    let mut one = io::BufReader::with_capacity(64 << 10, one);
    let mut other = io::BufReader::with_capacity(64 << 10, other);
    loop {
        let (left, right) = (one.fill_buf()?, other.fill_buf()?);
        let length = left.len().min(right.len());
        if left[..length] != right[..length] {
            return Ok(false);
        }
        if length == 0 {
            return Ok(left.is_empty() && right.is_empty());
        }
        one.consume(length);
        other.consume(length);
    }
}

/// A folder that its owner may look into while this is held.
struct Opened<'a> {
    folder: &'a Path,
    /// What it was before.
    status: Metadata,
}

impl<'a> Opened<'a> {
    fn of(folder: &'a Path) -> io::Result<Self> {
        let status = fs::symlink_metadata(folder)?;
        if status.mode() & 0o700 != 0o700 {
            removal::make_writable(folder)?;
        }
        Ok(Self { folder, status })
    }
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        if self.status.mode() & 0o700 != 0o700 {
            // The plan says what it is to be in the end.
            fs::set_permissions(self.folder, self.status.permissions()).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whether_a_folder_is_a_repository_is_looked_up_once_for_all_removals_in_it() {
        let world = tempfile::tempdir().unwrap();
        let (upper, root) = (world.path().join("upper"), world.path().join("root"));
        let inner = root.join(".git/modules/inner");
        fs::create_dir_all(inner.join("objects")).unwrap();
        fs::create_dir_all(inner.join("refs")).unwrap();
        fs::write(inner.join("HEAD"), "").unwrap();
        let layers = Layers::new(&upper, &root);
        let judge = |layers: &Layers<'_>, name: &str| {
            let path = Path::new(".git/modules/inner").join(name);
            Screen::standard().judge_removal(&path, layers).is_some()
        };
        let names = ["config", "refs/config", "objects/aa", "refs/heads/a"];
        let expect = [true, false, false, false];
        assert_eq!(names.map(|it| judge(&layers, it)), expect);
        fs::remove_file(inner.join("HEAD")).unwrap();
        assert_eq!(names.map(|it| judge(&layers, it)), expect);
        // Where no repository is found, any folder may belong to one.
        assert!(names.map(|it| judge(&Layers::new(&upper, &root), it))[1]);
    }
}
