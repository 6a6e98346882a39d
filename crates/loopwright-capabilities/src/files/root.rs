//! A directory that paths cannot leave.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use loopwright_agent::BuildError;
use loopwright_sandbox::screen::Screen;
use rustix::fs::OFlags;

use crate::files::FileError;
use crate::files::access::{FileAccess, FileUse};
use crate::files::change::FileJournal;
use crate::files::protected;
use crate::files::stage::Durability;

/// A directory for file tools, which no path can leave.
///
/// Paths are resolved from an open handle, name by name, and each name is opened without following
/// links: the target of a link is read and resolved in the same way. So there is no gap between
/// checking a path and using it, and replacing directories with links in between has no effect.
/// Links that stay inside are followed; others are refused.
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
    durability: Durability,
    journal: Option<Arc<dyn FileJournal>>,
    access: Option<Arc<dyn FileAccess>>,
}

struct Inner {
    path: PathBuf,
    settings: Settings,
    opened: OnceLock<Opened>,
    writing: Mutex<()>,
}

struct Opened {
    directory: File,
    real: PathBuf,
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Leg {
    Up,
    Down(OsString),
}

impl WorkspaceRoot {
    /// Creates a root for a directory. File tools do not write the paths that sandboxed commands
    /// may not leave behind: see [`Screen`].
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let settings = Settings {
            screen: Screen::standard(),
            more_protected: Vec::new(),
            allowed: Vec::new(),
            durability: Durability::default(),
            journal: None,
            access: None,
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

    /// Protects another path, at any depth: it can be read but not written.
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

    /// Returns why a path below the root is denied, or `None` if it is not.
    pub(super) fn denied(
        &self,
        access: FileUse,
        tool: Option<&str>,
        path: &Path,
    ) -> Option<String> {
        self.0.settings.access.as_ref()?.denied(access, tool, &self.0.path.join(path))
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

    /// Returns the paths that [`protect`](WorkspaceRoot::protect) has added.
    pub fn extra_protected_paths(&self) -> impl Iterator<Item = &str> {
        self.0.settings.more_protected.iter().map(String::as_str)
    }

    /// Returns the names that [`allow`](WorkspaceRoot::allow) has added.
    pub fn allowed(&self) -> impl Iterator<Item = &str> {
        self.0.settings.allowed.iter().map(String::as_str)
    }

    /// Returns the journal of changes.
    pub(crate) fn recorder_shared(&self) -> Option<&Arc<dyn FileJournal>> {
        self.0.settings.journal.as_ref()
    }

    /// Returns the directory as it was given.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Opens the directory unless it is already open, and returns its path without links.
    ///
    /// # Errors
    ///
    /// [`FileError::NoRoot`] if it does not exist, is not a directory, or cannot be read.
    pub fn open(&self) -> Result<&Path, FileError> {
        Ok(&self.opened()?.real)
    }

    /// Opens the directory for a capability, which cannot be used without it.
    pub(crate) fn checked(&self, capability: Cow<'static, str>) -> Result<(), BuildError> {
        self.open().map(drop).map_err(|error| BuildError::Capability {
            capability,
            reason: "name a directory that exists".to_owned(),
            source: Some(error.into()),
        })
    }

    pub(super) fn directory(&self) -> Result<BorrowedFd<'_>, FileError> {
        Ok(self.opened()?.directory.as_fd())
    }

    fn opened(&self) -> Result<&Opened, FileError> {
        if let Some(opened) = self.0.opened.get() {
            return Ok(opened);
        }
        let opened = self.try_open().map_err(|source| FileError::NoRoot {
            path: self.0.path.display().to_string(),
            source,
        })?;
        Ok(self.0.opened.get_or_init(|| opened))
    }

    fn try_open(&self) -> io::Result<Opened> {
        let real = fs::canonicalize(&self.0.path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(&real, flags, rustix::fs::Mode::empty())?;
        Ok(Opened { directory: directory.into(), real })
    }

    /// Returns the steps from the root to a path. An absolute path has to begin with the root's.
    pub(super) fn legs(&self, path: &str) -> Result<Vec<Leg>, FileError> {
        if path.is_empty() || path.contains('\0') {
            return Err(FileError::NotAPath(path.to_owned()));
        }
        self.legs_of(Path::new(path)).ok_or_else(|| FileError::Outside(path.to_owned()))
    }

    /// Returns the steps of a path that a link may hold; none if it is absolute and leads elsewhere.
    pub(super) fn legs_of(&self, path: &Path) -> Option<Vec<Leg>> {
        let real = self.0.opened.get().map(|it| it.real.as_path());
        let path = if path.is_absolute() {
            let given = path.strip_prefix(&self.0.path).ok();
            given.or_else(|| path.strip_prefix(real?).ok())?
        } else {
            path
        };
        path.components()
            .filter_map(|it| match it {
                Component::Normal(name) => Some(Some(Leg::Down(name.to_owned()))),
                Component::ParentDir => Some(Some(Leg::Up)),
                Component::CurDir => None,
                Component::RootDir | Component::Prefix(_) => Some(None),
            })
            .collect()
    }

    /// Judges a file, by its path without links, before it is written. `None` for the content means that it is not
    /// decided yet. The screen is made at the first question of a write.
    pub(super) fn is_protected(
        &self,
        screen: &OnceLock<Screen>,
        path: &Path,
        content: Option<&[u8]>,
    ) -> bool {
        let root = self.0.opened.get().map_or(self.path(), |it| it.real.as_path());
        let screen = screen.get_or_init(|| self.0.settings.screen.clone().with_root(root));
        protected::judge(screen, root, path, content).is_some()
    }

    pub(super) fn waits_for_disk(&self) -> bool {
        self.0.settings.durability == Durability::Synced
    }

    pub(super) fn recorder(&self) -> Option<&dyn FileJournal> {
        self.0.settings.journal.as_deref()
    }

    /// Waits for its turn to write.
    pub(super) fn write_lock(&self) -> MutexGuard<'_, ()> {
        self.0.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
