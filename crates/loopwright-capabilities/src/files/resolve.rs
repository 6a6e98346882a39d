//! Resolution of a path to an open directory and a name in it.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::mem::take;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use loopwright_sandbox::screen::Screen;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::files::FileError;
use crate::files::access::FileUse;
use crate::files::made::Made;
use crate::files::root::{Base, Leg, WorkspaceRoot, legs_of};
use crate::files::shown;

/// How many links are followed before it is a circle.
const MAX_LINKS: u32 = 40;

/// How deep a path leads: one handle is open for each level.
const MAX_LEVELS: usize = 256;

/// The number of restarts of a path resolution because something was replaced on the way.
const MAX_WALKS: u32 = 64;

/// What to do about directories that do not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Parents {
    #[default]
    Expect,
    Create,
}

/// An open directory below a root, and its path without links, which is absolute in an added folder.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) fd: OwnedFd,
    pub(super) path: PathBuf,
    pub(super) base: Base,
}

/// A name in an open directory. It was no directory and no link when it was looked at.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) folder: Folder,
    pub(super) name: OsString,
    pub(super) found: Option<FileType>,
    /// What was made on the way.
    pub(super) made: Made,
    /// What may not be written, once it was asked: the settings of git are read once a write.
    pub(super) screen: OnceLock<Screen>,
}

#[expect(
    clippy::large_enum_variant,
    reason = "it is destructured immediately, and there is only one per call"
)]
enum Resolved {
    Folder(Folder),
    Place(Place),
}

enum Failed {
    /// Something was swapped between looking at it and opening it.
    Raced,
    /// The path is wrong.
    Error(FileError),
}

impl From<FileError> for Failed {
    fn from(error: FileError) -> Self {
        Self::Error(error)
    }
}

impl Place {
    /// Returns the path below the root, without links; it is absolute in an added folder.
    pub(super) fn path(&self) -> PathBuf {
        self.folder.path.join(&self.name)
    }

    /// Opens what is there for reading; without waiting, if it has become something that waits.
    pub(super) fn open(&self) -> rustix::io::Result<File> {
        open_file(&self.folder.fd, &self.name)
    }
}

/// Opens a file of a directory, and nothing that a link leads to.
pub(super) fn open_file(folder: impl AsFd, name: &OsStr) -> rustix::io::Result<File> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::openat(folder, name, flags, Mode::empty()).map(File::from)
}

/// Opens a directory of a directory, and none that a link leads to.
pub(super) fn open_folder(folder: impl AsFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(folder, name, flags, Mode::empty())
}

/// Says what stands in the way of reading a file.
pub(super) fn not_a_file(path: &str, kind: FileType) -> FileError {
    let (kind, remedy) = match kind {
        FileType::Directory => ("a directory", "list it with `list_dir`"),
        FileType::Fifo => ("a named pipe", "name a file"),
        FileType::CharacterDevice | FileType::BlockDevice => ("a device", "name a file"),
        FileType::Socket => ("a socket", "name a file"),
        _ => ("a special file", "name a file"),
    };
    FileError::NotAFile { path: path.to_owned(), kind, remedy }
}

impl WorkspaceRoot {
    /// Opens a regular file for reading, with the text of the editor if a file of the root is open there.
    pub(super) fn read(&self, path: &str) -> Result<(File, Metadata, PathBuf), FileError> {
        self.newest(path, self.read_on_disk(path)?)
    }

    /// Opens a regular file on disk for reading.
    pub(super) fn read_on_disk(&self, path: &str) -> Result<(File, Metadata, PathBuf), FileError> {
        self.attempt(path, || match self.walk(path, Some(FileUse::Read), Parents::Expect)? {
            Resolved::Folder(_) => Err(not_a_file(path, FileType::Directory).into()),
            Resolved::Place(place) => {
                self.permit(FileUse::Read, path, &place.path())?;
                read_at(path, &place)
            }
        })
    }

    /// Reads a complete text file of at most this many bytes. `None` means that it is longer or not
    /// text. Opens nothing outside the directory. Blocks.
    ///
    /// # Errors
    ///
    /// Returns an error if the file does not exist or cannot be read.
    pub fn read_text(&self, path: &str, most_bytes: u64) -> Result<Option<String>, FileError> {
        Ok(self.read_bytes(path, most_bytes)?.and_then(|it| String::from_utf8(it).ok()))
    }

    /// Returns a path relative to the root without links, or an absolute one in an added folder, like
    /// [`FileChange::path`](crate::files::FileChange::path). The path does not need to exist.
    ///
    /// # Errors
    ///
    /// Returns an error if the path leads outside, or its directory does not exist.
    pub fn resolve(&self, path: &str) -> Result<String, FileError> {
        self.attempt(path, || {
            Ok(shown::path(&match self.walk(path, None, Parents::Expect)? {
                Resolved::Folder(folder) => folder.path,
                Resolved::Place(place) => place.path(),
            }))
        })
    }

    /// Opens a directory.
    pub(super) fn folder(&self, path: &str) -> Result<Folder, FileError> {
        self.attempt(path, || match self.walk(path, Some(FileUse::Read), Parents::Expect)? {
            Resolved::Folder(folder) => {
                self.permit(FileUse::Read, path, &folder.path)?;
                Ok(folder)
            }
            Resolved::Place(Place { found: None, .. }) => {
                Err(FileError::Missing(path.to_owned()).into())
            }
            Resolved::Place(_) => Err(FileError::NotADirectory(path.to_owned()).into()),
        })
    }

    /// Finds where a file is to be written, which is nothing or a regular file, and not protected.
    pub(super) fn target(&self, path: &str, parents: Parents) -> Result<Place, FileError> {
        self.attempt(path, || match self.walk(path, Some(FileUse::Write), parents)? {
            Resolved::Folder(_) => Err(not_a_file(path, FileType::Directory).into()),
            Resolved::Place(place) if self.is_protected(&place.screen, &place.path(), None) => {
                Err(FileError::Protected(path.to_owned()).into())
            }
            Resolved::Place(place) => {
                self.permit_change(path, &place.path())?;
                self.permit(FileUse::Write, path, &place.path())?;
                match place.found {
                    None | Some(FileType::RegularFile) => Ok(place),
                    Some(kind) => Err(not_a_file(path, kind).into()),
                }
            }
        })
    }

    /// Returns `true` if a path leads to anything that a tool may list.
    pub(super) fn exists(&self, path: &str, tool: &str) -> Result<bool, FileError> {
        let is_denied = |path: &Path| self.denied(FileUse::Read, Some(tool), path).is_some();
        let found =
            self.attempt(path, || match self.walk(path, Some(FileUse::Read), Parents::Expect)? {
                Resolved::Folder(folder) => Ok(!is_denied(&folder.path)),
                Resolved::Place(place) => Ok(place.found.is_some() && !is_denied(&place.path())),
            });
        match found {
            Err(
                FileError::Missing(_)
                | FileError::NotADirectory(_)
                | FileError::NotPermitted { .. },
            ) => Ok(false),
            found => found,
        }
    }

    fn attempt<T>(
        &self,
        path: &str,
        mut walk: impl FnMut() -> Result<T, Failed>,
    ) -> Result<T, FileError> {
        self.open()?;
        for _ in 0..MAX_WALKS {
            match walk() {
                Ok(found) => return Ok(found),
                Err(Failed::Error(error)) => return Err(error),
                Err(Failed::Raced) => {}
            }
        }
        Err(FileError::Changed(path.to_owned()))
    }

    /// Walks a path. With an `access`, rules apply to each link on the way, too: a rule that names a link is about what the
    /// link leads to.
    fn walk(
        &self,
        path: &str,
        access: Option<FileUse>,
        parents: Parents,
    ) -> Result<Resolved, Failed> {
        let (base, legs) = self.legs(path)?;
        let mut walk = Walk {
            root: self,
            path,
            access,
            base,
            levels: Vec::new(),
            pending: legs.into_iter().rev().collect(),
            links: 0,
            made: Made::default(),
            screen: OnceLock::new(),
        };
        while let Some(leg) = walk.pending.pop() {
            match leg {
                Leg::Up => walk.up()?,
                Leg::Down(name) => {
                    if let Some(place) = walk.down(name, parents)? {
                        return Ok(Resolved::Place(place));
                    }
                }
            }
        }
        Ok(Resolved::Folder(walk.into_folder()?))
    }
}

/// A path that is being walked. Every directory from its base to where it is stays open, so that
/// `..` leads back the way it came.
struct Walk<'a> {
    root: &'a WorkspaceRoot,
    path: &'a str,
    access: Option<FileUse>,
    base: Base,
    levels: Vec<(OwnedFd, OsString)>,
    pending: Vec<Leg>,
    links: u32,
    made: Made,
    screen: OnceLock<Screen>,
}

impl Walk<'_> {
    fn up(&mut self) -> Result<(), Failed> {
        if self.levels.pop().is_none() {
            let arrived = self.root.leave(self.base, &mut self.pending);
            self.base = arrived.ok_or_else(|| FileError::Outside(self.path.to_owned()))?;
        }
        Ok(())
    }

    /// Goes into a directory, follows a link, or has arrived.
    fn down(&mut self, name: OsString, parents: Parents) -> Result<Option<Place>, Failed> {
        let is_last = self.pending.is_empty();
        match self.look(&name)? {
            Some(FileType::Symlink) => self.follow(&name).map(|()| None),
            Some(FileType::Directory) => self.enter(name).map(|()| None),
            found if is_last => {
                let folder = take(&mut self.levels);
                let folder = self.folder_of(folder)?;
                let (made, screen) = (take(&mut self.made), take(&mut self.screen));
                Ok(Some(Place { folder, name, found, made, screen }))
            }
            Some(_) => Err(FileError::NotADirectory(self.path.to_owned()).into()),
            None if parents == Parents::Create => self.create(name).map(|()| None),
            None => Err(FileError::Missing(self.path.to_owned()).into()),
        }
    }

    fn look(&self, name: &OsStr) -> Result<Option<FileType>, Failed> {
        let stat = match self.levels.last() {
            Some((fd, _)) => rustix::fs::statat(fd, name, AtFlags::SYMLINK_NOFOLLOW),
            None => {
                rustix::fs::statat(self.root.directory(self.base)?, name, AtFlags::SYMLINK_NOFOLLOW)
            }
        };
        match stat {
            Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(FileError::of(self.path, error).into()),
        }
    }

    fn enter(&mut self, name: OsString) -> Result<(), Failed> {
        if self.levels.len() == MAX_LEVELS {
            return Err(FileError::of(self.path, Errno::NAMETOOLONG).into());
        }
        let opened = match self.levels.last() {
            Some((fd, _)) => open_folder(fd, &name),
            None => open_folder(self.root.directory(self.base)?, &name),
        };
        let fd = opened.or_else(|error| raced_or(self.path, error))?;
        self.levels.push((fd, name));
        // The directory keeps its paths where it lies below an added folder.
        if self.base != Base::DIRECTORY && self.here() == self.root.open()? {
            self.base = Base::DIRECTORY;
            self.levels.clear();
        }
        Ok(())
    }

    fn follow(&mut self, name: &OsStr) -> Result<(), Failed> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(FileError::LinkLoop(self.path.to_owned()).into());
        }
        if let Some(access) = self.access {
            self.root.permit(access, self.path, &self.here().join(name))?;
        }
        let target = match self.levels.last() {
            Some((fd, _)) => rustix::fs::readlinkat(fd, name, Vec::new()),
            None => rustix::fs::readlinkat(self.root.directory(self.base)?, name, Vec::new()),
        };
        let target = target.or_else(|error| match error {
            Errno::INVAL => Err(Failed::Raced),
            error => raced_or(self.path, error),
        })?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        let legs = if target.is_absolute() {
            let found = self.root.absolute(&target);
            let (base, legs) = found.ok_or_else(|| FileError::Outside(self.path.to_owned()))?;
            self.base = base;
            self.levels.clear();
            legs
        } else {
            legs_of(&target)
        };
        self.pending.extend(legs.into_iter().rev());
        Ok(())
    }

    fn create(&mut self, name: OsString) -> Result<(), Failed> {
        if self.pending.contains(&Leg::Up) {
            return Err(FileError::Missing(self.path.to_owned()).into());
        }
        let rest = self.pending.iter().rev().filter_map(|leg| match leg {
            Leg::Down(name) => Some(name.as_os_str()),
            Leg::Up => None,
        });
        let whole = self.here().join(&name).join(rest.collect::<PathBuf>());
        if self.root.is_protected(&self.screen, &whole, None) {
            return Err(FileError::Protected(self.path.to_owned()).into());
        }
        self.root.permit_change(self.path, &whole)?;
        self.root.permit(FileUse::Write, self.path, &whole)?;
        let rights = Mode::from_raw_mode(0o777);
        let made = match self.levels.last() {
            Some((fd, _)) => rustix::fs::mkdirat(fd, &name, rights),
            None => rustix::fs::mkdirat(self.root.directory(self.base)?, &name, rights),
        };
        match made {
            Ok(()) => {
                match self.levels.last() {
                    Some((fd, _)) => self.made.push(fd, &name),
                    None => self.made.push(self.root.directory(self.base)?, &name),
                }
                self.enter(name)
            }
            Err(Errno::EXIST) => self.enter(name),
            Err(error) => Err(FileError::of(self.path, error).into()),
        }
    }

    fn here(&self) -> PathBuf {
        self.path_of(&self.levels)
    }

    fn path_of(&self, levels: &[(OwnedFd, OsString)]) -> PathBuf {
        let names = levels.iter().map(|(_, name)| Path::new(name));
        std::iter::once(self.root.prefix(self.base)).chain(names).collect()
    }

    fn into_folder(mut self) -> Result<Folder, Failed> {
        let levels = take(&mut self.levels);
        self.folder_of(levels)
    }

    fn folder_of(&self, mut levels: Vec<(OwnedFd, OsString)>) -> Result<Folder, Failed> {
        let path = self.path_of(&levels);
        let fd = match levels.pop() {
            Some((fd, _)) => fd,
            None => self.duplicate_root()?,
        };
        Ok(Folder { fd, path, base: self.base })
    }

    fn duplicate_root(&self) -> Result<OwnedFd, Failed> {
        let root = self.root.directory(self.base)?;
        root.try_clone_to_owned().map_err(|error| FileError::of(self.path, error).into())
    }
}

fn read_at(path: &str, place: &Place) -> Result<(File, Metadata, PathBuf), Failed> {
    match place.found {
        None => return Err(FileError::Missing(path.to_owned()).into()),
        Some(FileType::RegularFile) => {}
        Some(kind) => return Err(not_a_file(path, kind).into()),
    }
    let file = place.open().or_else(|error| raced_or(path, error))?;
    let metadata = file.metadata().map_err(|error| FileError::of(path, error))?;
    // It may have been swapped since it was looked at.
    if !metadata.is_file() {
        return Err(Failed::Raced);
    }
    Ok((file, metadata, place.path()))
}

/// Takes errors for a race that a swap explains.
fn raced_or<T>(path: &str, error: Errno) -> Result<T, Failed> {
    match error {
        Errno::LOOP | Errno::NOTDIR | Errno::NOENT | Errno::NXIO => Err(Failed::Raced),
        error => Err(Failed::Error(FileError::of(path, io::Error::from(error)))),
    }
}

#[cfg(test)]
mod tests;
