//! A directory that paths cannot leave.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, File};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use loopwright_agent::BuildError;
use loopwright_sandbox::screen::Screen;
use rustix::fs::OFlags;

use crate::files::FileError;
use crate::files::access::{FileAccess, FileUse};
use crate::files::change::{FileJournal, JournalElsewhere};
use crate::files::editor::EditorFiles;
use crate::files::protected;
use crate::files::stage::Durability;

/// A directory for file tools, which no path can leave.
///
/// Paths are resolved from an open handle, name by name, and each name is opened without following
/// links: the target of a link is read and resolved in the same way. So there is no gap between
/// checking a path and using it, and replacing directories with links in between has no effect.
/// Links that stay inside are followed; others are refused.
///
/// More folders can be [added](WorkspaceRoot::with_folder). Their files are named by absolute paths,
/// or by relative paths that lead from the directory to the folder.
///
/// Creating a root does nothing; the directory is opened on first use. Clones are the same root,
/// and changes through one root run one after the other.
#[derive(Clone)]
#[must_use]
pub struct WorkspaceRoot(Arc<Inner>);

#[derive(Clone)]
struct Settings {
    screen: Screen,
    /// What is protected besides what always is, and what of that is allowed.
    more_protected: Vec<String>,
    allowed: Vec<String>,
    /// Absolute paths that do not exist for file tools, each with the reason for the model.
    hidden: Vec<(PathBuf, Arc<str>)>,
    copies: Option<Copies>,
    durability: Durability,
    journal: Option<Arc<dyn FileJournal>>,
    access: Option<Arc<dyn FileAccess>>,
    editor: Option<Arc<dyn EditorFiles>>,
    folders: Vec<PathBuf>,
    /// Why file tools change nothing in the directory. `None` means that they may.
    read_only: Option<Arc<str>>,
}

/// Folders that are copies of another one.
#[derive(Clone)]
struct Copies {
    /// Each folder in this one is a copy.
    below: PathBuf,
    /// What they are copies of.
    of: PathBuf,
}

struct Inner {
    path: PathBuf,
    settings: Settings,
    /// The directory, and then the added folders.
    opened: OnceLock<Vec<Opened>>,
    writing: Mutex<()>,
}

struct Opened {
    directory: File,
    real: PathBuf,
}

/// The directory of a root, or one of its added folders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Base(usize);

impl Base {
    pub(super) const DIRECTORY: Self = Self(0);
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Leg {
    Up,
    Down(OsString),
}

impl Copies {
    /// Returns the path in the original, if a path is in a copy.
    fn original(&self, path: &Path) -> Option<PathBuf> {
        let mut below = path.strip_prefix(&self.below).ok()?.components();
        below.next()?;
        Some(self.of.join(below.as_path()))
    }
}

impl WorkspaceRoot {
    /// Creates a root for a directory. File tools do not write the paths that sandboxed commands
    /// may not leave behind: see [`Screen`].
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let settings = Settings {
            screen: Screen::standard(),
            more_protected: Vec::new(),
            allowed: Vec::new(),
            hidden: Vec::new(),
            copies: None,
            durability: Durability::default(),
            journal: None,
            access: None,
            editor: None,
            folders: Vec::new(),
            read_only: None,
        };
        Self::of(path.into(), settings)
    }

    fn of(path: PathBuf, settings: Settings) -> Self {
        Self(Arc::new(Inner { path, settings, opened: OnceLock::new(), writing: Mutex::new(()) }))
    }

    fn with(self, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = self.0.settings.clone();
        change(&mut settings);
        Self::of(self.0.path.clone(), settings)
    }

    /// Protects another path, at any depth: it can be read but not written. An absolute path without links is
    /// protected only in its place.
    pub fn protect(self, path: &str) -> Self {
        self.with(|it| {
            it.screen = it.screen.clone().refuse(path);
            it.more_protected.push(path.to_owned());
        })
    }

    /// Allows writes to an otherwise protected name, or several joined by `/`, at any depth.
    pub fn allow(self, path: &str) -> Self {
        self.with(|it| {
            it.screen = it.screen.clone().allow(path);
            it.allowed.push(path.to_owned());
        })
    }

    /// Hides an absolute path without links, with everything in it: it is not read, listed, found or written. The
    /// reason is for the model.
    pub fn hide(self, path: impl Into<PathBuf>, reason: impl Into<Arc<str>>) -> Self {
        self.with(|it| it.hidden.push((path.into(), reason.into())))
    }

    /// Makes every folder in `below` count as a copy of the folder `of`: a path in it is hidden if the same path in `of` is. Both are
    /// absolute and without links.
    pub fn with_copies(self, below: impl Into<PathBuf>, of: impl Into<PathBuf>) -> Self {
        self.with(|it| it.copies = Some(Copies { below: below.into(), of: of.into() }))
    }

    /// Sets whether a change waits until it is on disk.
    pub fn with_durability(self, durability: Durability) -> Self {
        self.with(|it| it.durability = durability)
    }

    /// Sets the journal that records changes before they are made.
    pub fn with_journal(self, journal: Arc<dyn FileJournal>) -> Self {
        self.with(|it| it.journal = Some(journal))
    }

    /// Sets rules for file access: denied files are not read, listed, found or written.
    pub fn with_access(self, access: Arc<dyn FileAccess>) -> Self {
        self.with(|it| it.access = Some(access))
    }

    /// Sets the editor that has files of the directory open.
    pub fn with_editor(self, editor: Arc<dyn EditorFiles>) -> Self {
        self.with(|it| it.editor = Some(editor))
    }

    /// Adds a folder outside the directory: the same rules and protections hold in it. The paths of
    /// its files are absolute, even in what tools report and journals record. A folder that does
    /// not exist fails on first use, as the directory does.
    pub fn with_folder(self, folder: impl Into<PathBuf>) -> Self {
        self.with(|it| it.folders.push(folder.into()))
    }

    /// Makes the directory read-only: files are changed only in [added folders](WorkspaceRoot::with_folder). The reason is for
    /// the model.
    pub fn with_read_only_directory(self, reason: impl Into<Arc<str>>) -> Self {
        self.with(|it| it.read_only = Some(reason.into()))
    }

    /// Returns a root with the same settings for another directory. The journal records changes there as in an added folder, so
    /// that a root for this directory can undo them.
    pub fn elsewhere(&self, path: impl Into<PathBuf>) -> Self {
        let (path, mut settings) = (path.into(), self.0.settings.clone());
        settings.journal = settings.journal.map(|journal| {
            Arc::new(JournalElsewhere { journal, directory: path.clone() }) as Arc<dyn FileJournal>
        });
        Self::of(path, settings)
    }

    /// Returns a root with the same settings for a directory in a copy of the folder `original`. Added folders and protected paths in
    /// `original` are those in the copy, and folders that the copy does not have are left out. Blocks.
    pub fn in_copy(&self, path: impl Into<PathBuf>, original: &Path, copy: &Path) -> Self {
        let place = |path: &Path| Some(copy.join(path.strip_prefix(original).ok()?));
        let mut folders: Vec<PathBuf> = Vec::new();
        for folder in &self.0.settings.folders {
            match folder.canonicalize().ok().and_then(|real| place(&real)) {
                Some(moved) if !moved.is_dir() => {}
                Some(moved) => folders.push(moved),
                None => folders.push(folder.clone()),
            }
        }
        let protected = self.0.settings.more_protected.iter();
        let protected =
            protected.filter_map(|it| place(Path::new(it))?.to_str().map(str::to_owned));
        let protected: Vec<String> = protected.collect();
        let root = self.elsewhere(path).with(|it| {
            it.folders = folders;
            // A folder around the copy is hidden from those that work in the original.
            it.hidden.retain(|(hidden, _)| !copy.starts_with(hidden));
        });
        protected.iter().fold(root, |root, path| root.protect(path))
    }

    /// Returns the added folders, as they were given.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        self.0.settings.folders.iter().map(PathBuf::as_path)
    }

    /// Returns a root that reaches these folders as well.
    pub(super) fn reaching(&self, folders: &[String]) -> Cow<'_, Self> {
        let opened = self.0.opened.get().map(Vec::as_slice).unwrap_or_default();
        let is_new = |it: &&String| opened.iter().all(|known| known.real != Path::new(it));
        let mut missing = folders.iter().filter(is_new).peekable();
        if missing.peek().is_none() {
            return Cow::Borrowed(self);
        }
        Cow::Owned(missing.fold(self.clone(), Self::with_folder))
    }

    /// Returns why a path below the root is denied, or `None` if it is not.
    pub(super) fn denied(
        &self,
        access: FileUse,
        tool: Option<&str>,
        path: &Path,
    ) -> Option<String> {
        let settings = &self.0.settings;
        if !settings.hidden.is_empty() {
            let (root, below) = self.split(path);
            let real = root.join(below);
            let copies = settings.copies.as_ref();
            let counts_as = copies.and_then(|it| it.original(&real));
            let is_hidden = |path: &Path| match (&counts_as, copies) {
                (Some(original), Some(copies)) => {
                    original.starts_with(path)
                        || (path.starts_with(&copies.below) && real.starts_with(path))
                }
                _ => real.starts_with(path),
            };
            if let Some((_, reason)) = settings.hidden.iter().find(|(it, _)| is_hidden(it)) {
                return Some(reason.to_string());
            }
        }
        settings.access.as_ref()?.denied(access, tool, &self.0.path.join(path))
    }

    /// Fails if a path below the root is denied.
    pub(super) fn permit(
        &self,
        access: FileUse,
        asked: &str,
        path: &Path,
    ) -> Result<(), FileError> {
        match self.denied(access, None, path) {
            Some(reason) => Err(FileError::NotPermitted { path: asked.to_owned(), reason }),
            None => Ok(()),
        }
    }

    /// Fails if a path, without links, is in a directory that is read-only.
    pub(super) fn permit_change(&self, asked: &str, path: &Path) -> Result<(), FileError> {
        let Some(reason) = &self.0.settings.read_only else { return Ok(()) };
        let (root, below) = self.split(path);
        let real = root.join(below);
        let added = self.0.opened.get().into_iter().flatten().skip(1);
        if added.into_iter().any(|it| real.starts_with(&it.real)) {
            return Ok(());
        }
        Err(FileError::ReadOnly { path: asked.to_owned(), reason: reason.to_string() })
    }

    /// Returns the paths that [`protect`](WorkspaceRoot::protect) has added.
    pub fn extra_protected_paths(&self) -> impl Iterator<Item = &str> {
        self.0.settings.more_protected.iter().map(String::as_str)
    }

    /// Returns the names that [`allow`](WorkspaceRoot::allow) has added.
    pub fn allowed(&self) -> impl Iterator<Item = &str> {
        self.0.settings.allowed.iter().map(String::as_str)
    }

    /// Returns the journal of changes.
    pub(crate) fn journal(&self) -> Option<&Arc<dyn FileJournal>> {
        self.0.settings.journal.as_ref()
    }

    /// Returns the directory as it was given.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Opens the directory and the added folders unless they are already open, and returns the
    /// directory's path without links.
    ///
    /// # Errors
    ///
    /// [`FileError::NoRoot`] if one of them does not exist, is not a directory, or cannot be read.
    pub fn open(&self) -> Result<&Path, FileError> {
        Ok(&self.opened(Base::DIRECTORY)?.real)
    }

    /// Opens the directory for a capability, which cannot be used without it.
    pub(crate) fn checked(&self, capability: Cow<'static, str>) -> Result<(), BuildError> {
        self.open().map(drop).map_err(|error| BuildError::Capability {
            capability,
            reason: "choose an existing directory".to_owned(),
            source: Some(error.into()),
        })
    }

    pub(super) fn directory(&self, base: Base) -> Result<BorrowedFd<'_>, FileError> {
        Ok(self.opened(base)?.directory.as_fd())
    }

    /// Returns what the paths of files of an added folder begin with; of the directory, nothing.
    pub(super) fn prefix(&self, base: Base) -> &Path {
        match self.0.opened.get() {
            Some(opened) if base != Base::DIRECTORY => &opened[base.0].real,
            _ => Path::new(""),
        }
    }

    fn opened(&self, base: Base) -> Result<&Opened, FileError> {
        if let Some(opened) = self.0.opened.get() {
            return Ok(&opened[base.0]);
        }
        let all = std::iter::once(&self.0.path).chain(&self.0.settings.folders);
        let opened = all.map(|it| Opened::at(it)).collect::<Result<Vec<_>, _>>()?;
        Ok(&self.0.opened.get_or_init(|| opened)[base.0])
    }

    /// Returns where a path begins, and the steps from there. An absolute path has to begin with the
    /// directory's or a folder's.
    pub(super) fn legs(&self, path: &str) -> Result<(Base, Vec<Leg>), FileError> {
        if path.is_empty() || path.contains('\0') {
            return Err(FileError::NotAPath(path.to_owned()));
        }
        let path_of = Path::new(path);
        let found = if path_of.is_absolute() {
            self.absolute(path_of)
        } else {
            Some((Base::DIRECTORY, legs_of(path_of)))
        };
        found.ok_or_else(|| FileError::Outside(path.to_owned()))
    }

    /// Returns where an absolute path begins, and the steps from there. `None` means that it leads outside.
    pub(super) fn absolute(&self, path: &Path) -> Option<(Base, Vec<Leg>)> {
        let opened = self.0.opened.get().map(Vec::as_slice).unwrap_or_default();
        let given = std::iter::once(&self.0.path).chain(&self.0.settings.folders);
        (0..).zip(given).find_map(|(number, given)| {
            let real = opened.get(number).map(|it| it.real.as_path());
            let below = path.strip_prefix(given).ok();
            let below = below.or_else(|| path.strip_prefix(real?).ok())?;
            Some((Base(number), legs_of(below)))
        })
    }

    /// Follows steps that lead above a base until they arrive at the directory or a folder. `pending` holds them
    /// from the last to the first, and those after the arrival are left in it. Names on the way are not
    /// looked at, so that a link among them leads nowhere. Without added folders, every such path leads outside.
    pub(super) fn leave(&self, base: Base, pending: &mut Vec<Leg>) -> Option<Base> {
        let opened = self.0.opened.get().filter(|it| it.len() > 1)?;
        let mut at = opened.get(base.0)?.real.parent()?.to_path_buf();
        loop {
            if let Some(number) = opened.iter().position(|it| it.real == at) {
                return Some(Base(number));
            }
            match pending.pop()? {
                Leg::Up => drop(at.pop()),
                Leg::Down(name) => at.push(name),
            }
        }
    }

    /// Judges a file, by its path without links, before it is written. `None` for the content means that it is not
    /// decided yet. The screen is made at the first question of a write.
    pub(super) fn is_protected(
        &self,
        screen: &OnceLock<Screen>,
        path: &Path,
        content: Option<&[u8]>,
    ) -> bool {
        let (root, path) = self.split(path);
        let screen = screen.get_or_init(|| self.0.settings.screen.clone().with_root(root));
        protected::judge(screen, root, path, content).is_some()
    }

    /// Splits a path without links into its directory or added folder, and the path below that.
    pub(super) fn split<'a>(&'a self, path: &'a Path) -> (&'a Path, &'a Path) {
        let opened = self.0.opened.get().map(Vec::as_slice).unwrap_or_default();
        let holds = |it: &&Opened| path.is_relative() || path.starts_with(&it.real);
        let root = opened.iter().find(holds).map_or(self.path(), |it| it.real.as_path());
        (root, path.strip_prefix(root).unwrap_or(path))
    }

    pub(super) fn waits_for_disk(&self) -> bool {
        self.0.settings.durability == Durability::Synced
    }

    pub(super) fn editor(&self) -> Option<&dyn EditorFiles> {
        self.0.settings.editor.as_deref()
    }

    /// Waits for its turn to write.
    pub(super) fn write_lock(&self) -> MutexGuard<'_, ()> {
        self.0.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Opened {
    fn at(path: &Path) -> Result<Self, FileError> {
        let open = || {
            let real = fs::canonicalize(path)?;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let directory = rustix::fs::open(&real, flags, rustix::fs::Mode::empty())?;
            Ok(Self { directory: directory.into(), real })
        };
        open().map_err(|source| FileError::NoRoot { path: path.display().to_string(), source })
    }
}

/// Returns the steps of a path that is relative to a base.
pub(super) fn legs_of(path: &Path) -> Vec<Leg> {
    let leg = |it| match it {
        Component::Normal(name) => Some(Leg::Down(OsStr::to_owned(name))),
        Component::ParentDir => Some(Leg::Up),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(leg).collect()
}

impl fmt::Debug for WorkspaceRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WorkspaceRoot").field(&self.0.path).finish()
    }
}

impl<P: Into<PathBuf>> From<P> for WorkspaceRoot {
    fn from(path: P) -> Self {
        Self::new(path)
    }
}

#[cfg(test)]
mod tests;
