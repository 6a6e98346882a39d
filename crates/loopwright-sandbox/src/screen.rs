//! What a command or a file tool may not leave behind, because something runs or obeys it later, outside of the
//! sandbox.
//!
//! One table for commands and file tools: [`Screen::OBEYED`] lists names, at every depth. What git takes for a
//! repository is recognised by what it is, whatever it is called, and judged entry by entry.

mod config;
mod content;
mod git;
mod named;
mod obeyed;
mod words;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Component, Path, PathBuf};

pub(crate) use self::named::UserSettings;
use self::named::{Named, Place};
use self::obeyed::{listed, names};

/// What is at a path, without following a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A folder.
    Folder,
    /// A file with content.
    File,
    /// A file that runs with the rights of its owner or group.
    SetId,
    /// A symbolic link.
    Link,
    /// A device.
    Device,
    /// A pipe or a socket.
    Other,
}

/// What a folder will hold once changes are made, as far as it is asked.
pub trait FolderView {
    /// Returns what will be at a path below the folder. `None` means nothing.
    fn what(&self, path: &Path) -> Option<EntryKind>;
    /// Returns what is there now. `None` means nothing.
    fn before(&self, path: &Path) -> Option<EntryKind>;
    /// Returns the beginning of a file as it will be, at most 64 KiB, or the target of a link. `None` means that it is
    /// not known.
    fn content(&self, path: &Path) -> Option<Vec<u8>>;
    /// Returns the beginning of a file as it is, at most 64 KiB. `None` means that it cannot be read.
    fn content_before(&self, path: &Path) -> Option<Vec<u8>>;
    /// Returns the names that a folder will hold. Empty for what is no folder.
    fn names(&self, path: &Path) -> Vec<OsString>;
    /// Whether the content of a file is decided. One that is not is judged again when it is.
    fn is_decided(&self, path: &Path) -> bool {
        let _ = path;
        true
    }
}

/// How much of a file is read to decide what it is.
pub(crate) const LOOKED_AT: u64 = 64 << 10;

/// Decides what may be left behind in a folder.
///
/// ```
/// use loopwright_sandbox::screen::Screen;
/// use std::path::Path;
///
/// let screen = Screen::standard();
/// assert!(screen.by_name(Path::new("web/.envrc")).is_some());
/// assert!(screen.by_name(Path::new("src/main.rs")).is_none());
/// assert!(screen.allow(".envrc").by_name(Path::new("web/.envrc")).is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Screen {
    /// What is refused besides the table.
    refused: Vec<Vec<OsString>>,
    /// What settings of the user name, at any depth.
    named: Vec<(Vec<OsString>, Reason)>,
    /// What they name in the folder.
    named_here: Vec<(Vec<OsString>, Reason)>,
    /// Folders in which a shell looks for programs.
    searched: Vec<Vec<OsString>>,
    allowed: Vec<Vec<OsString>>,
    reachable: Vec<PathBuf>,
}

/// Why something is not left behind, as the end of a sentence that begins with its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason(&'static str);

impl Reason {
    pub(crate) const fn new(text: &'static str) -> Self {
        Self(text)
    }

    /// The reason, such as "is read by shells when they start".
    pub const fn text(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0)
    }
}

/// Where the system has its programs.
const PROGRAMS: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Folders of the system, into which a link may lead.
const SYSTEM: [&str; 9] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/dev/null"];

impl Screen {
    /// Names that are obeyed wherever they are, with all that is below them, and why.
    pub const OBEYED: &[(&str, &str)] = obeyed::NAMES;

    /// The table, with nothing allowed.
    pub fn standard() -> Self {
        Self {
            refused: Vec::new(),
            named: Vec::new(),
            named_here: Vec::new(),
            searched: Vec::new(),
            allowed: Vec::new(),
            reachable: Vec::new(),
        }
    }

    /// Refuses a name, or several joined by `/`, wherever it is, and all that is below it.
    pub fn refuse(mut self, path: impl AsRef<Path>) -> Self {
        let names = names(path.as_ref());
        if !names.is_empty() && !self.refused.contains(&names) {
            self.refused.push(names);
        }
        self
    }

    /// Allows a name, or several joined by `/`, wherever it is, and all that is below it. It takes precedence over
    /// the table and over what is said of repositories: `.git/hooks` allows hooks. Devices, set-user-id programs and links
    /// that lead out are not allowed by it.
    pub fn allow(mut self, path: impl AsRef<Path>) -> Self {
        let names = names(path.as_ref());
        if !names.is_empty() {
            self.allowed.push(names);
        }
        self
    }

    /// Allows links into this folder outside the working folder, such as a toolchain.
    pub fn reach(mut self, path: impl Into<PathBuf>) -> Self {
        self.reachable.push(path.into());
        self
    }

    /// Refuses also what settings name in the folder: programs, hooks and included files of settings that git's settings
    /// name, those of the repository and those of the user; and files that direnv loads for an `.envrc`.
    pub fn of(self, root: &Path) -> Self {
        self.of_user(root, &UserSettings::found())
    }

    /// The same with the settings of this user.
    pub(crate) fn of_user(mut self, root: &Path, user: &UserSettings) -> Self {
        for Named { path, place, reason } in named::of(root, user) {
            let names = names(&path);
            match place {
                Place::Here => self.named_here.push((names, reason)),
                Place::Anywhere => self.named.push((names, reason)),
                Place::Searched => self.searched.push(names),
            }
        }
        self
    }

    /// Judges a path below the folder by its names alone. Returns `None` if it is allowed.
    pub fn by_name(&self, path: &Path) -> Option<Reason> {
        let path = names(path);
        if self.is_allowed(&path) {
            return None;
        }
        let refused = || {
            let is_refused = self.refused.iter().any(|names| contains(&path, names));
            is_refused.then_some(Reason("is protected"))
        };
        let named = || {
            let anywhere = self.named.iter().filter(|(names, _)| contains(&path, names));
            let here = self.named_here.iter().filter(|(names, _)| path.starts_with(names));
            anywhere.chain(here).map(|(_, reason)| *reason).next()
        };
        let pattern = || content::pattern(path.last()?);
        let listed = listed(&path).map(Reason);
        listed.or_else(pattern).or_else(refused).or_else(named)
    }

    /// Judges what will be at a path below the folder. Returns `None` if it is allowed.
    pub fn judge(&self, path: &Path, root: &Path, after: &dyn FolderView) -> Option<Reason> {
        if let Some(reason) = self.by_name(path) {
            return Some(reason);
        }
        let what = after.what(path)?;
        let plain = kind(what).or_else(|| self.leads_out(path, root, what, after));
        if plain.is_some() || self.is_allowed(&names(path)) {
            return plain;
        }
        git::judge(path, what, after)
            .or_else(|| content::judge(path, what, after))
            .or_else(|| self.shadows(path, after))
    }

    /// Judges what a shell would run in place of a program of the system, once it has entered the folder.
    fn shadows(&self, path: &Path, after: &dyn FolderView) -> Option<Reason> {
        const SHADOW: Reason = Reason(
            "would be run in place of the system's program, as the `.envrc` puts its folder into `PATH`",
        );
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return None };
        let is_searched = !self.searched.is_empty() && self.searched.contains(&names(folder));
        let is_program = |folder: &&str| Path::new(folder).join(name).is_file();
        let shadows =
            is_searched && after.before(path).is_none() && PROGRAMS.iter().any(is_program);
        shadows.then_some(SHADOW)
    }

    /// Judges the removal of what is at a path below the folder. Returns `None` if it is allowed.
    pub fn judge_removal(&self, path: &Path) -> Option<Reason> {
        let path_names = names(path);
        if self.is_allowed(&path_names) {
            return None;
        }
        self.by_name(path).or_else(|| git::judge_removal(path))
    }

    fn is_allowed(&self, path: &[OsString]) -> bool {
        self.allowed.iter().any(|names| contains(path, names))
    }

    /// Judges a link. `..` counts only before the first name, where it leaves folders that are no links.
    fn leads_out(
        &self,
        path: &Path,
        root: &Path,
        what: EntryKind,
        after: &dyn FolderView,
    ) -> Option<Reason> {
        const OUT: Reason = Reason("is a link that leads out of the folder");
        if what != EntryKind::Link {
            return None;
        }
        let Some(target) = after.content(path) else { return Some(OUT) };
        let target = PathBuf::from(bytes_to_os(target));
        let (depth, inside) = if target.is_absolute() {
            if self.is_reachable(&target) {
                return None;
            }
            let Ok(inside) = target.strip_prefix(root) else { return Some(OUT) };
            (0, inside.to_path_buf())
        } else {
            (path.components().count().saturating_sub(1), target)
        };
        let ups = inside.components().take_while(|part| matches!(part, Component::ParentDir));
        let ups = ups.count();
        let rest = inside.components().skip(ups);
        let is_plain =
            rest.into_iter().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        (ups > depth || !is_plain).then_some(OUT)
    }

    fn is_reachable(&self, target: &Path) -> bool {
        let plain = target.components().all(|part| !matches!(part, Component::ParentDir));
        let system = SYSTEM.iter().map(Path::new);
        plain
            && system
                .chain(self.reachable.iter().map(PathBuf::as_path))
                .any(|folder| target.starts_with(folder))
    }
}

impl Default for Screen {
    fn default() -> Self {
        Self::standard()
    }
}

/// Refuses devices and set-user-id files.
fn kind(what: EntryKind) -> Option<Reason> {
    match what {
        EntryKind::Device => Some(Reason("is a device")),
        EntryKind::SetId => {
            Some(Reason("runs with the rights of its owner (set-user-id or set-group-id)"))
        }
        EntryKind::Folder | EntryKind::File | EntryKind::Link | EntryKind::Other => None,
    }
}

impl EntryKind {
    /// Returns what is at a path. `None` means nothing.
    pub fn at(path: &Path) -> Option<Self> {
        fs::symlink_metadata(path).ok().map(|metadata| Self::of(&metadata))
    }

    /// Returns what something is.
    #[cfg(unix)]
    pub fn of(metadata: &Metadata) -> Self {
        use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
        let file_type = metadata.file_type();
        if file_type.is_dir() {
            Self::Folder
        } else if file_type.is_symlink() {
            Self::Link
        } else if file_type.is_block_device() || file_type.is_char_device() {
            Self::Device
        } else if !file_type.is_file() {
            Self::Other
        } else if metadata.permissions().mode() & 0o6000 != 0 {
            Self::SetId
        } else {
            Self::File
        }
    }

    /// Returns what something is.
    #[cfg(not(unix))]
    pub fn of(metadata: &Metadata) -> Self {
        if metadata.is_dir() {
            Self::Folder
        } else if metadata.is_symlink() {
            Self::Link
        } else {
            Self::File
        }
    }
}

fn contains(path: &[OsString], names: &[OsString]) -> bool {
    path.windows(names.len()).any(|part| part == names)
}

#[cfg(unix)]
fn bytes_to_os(bytes: Vec<u8>) -> OsString {
    std::os::unix::ffi::OsStringExt::from_vec(bytes)
}

#[cfg(not(unix))]
fn bytes_to_os(bytes: Vec<u8>) -> OsString {
    String::from_utf8_lossy(&bytes).into_owned().into()
}

#[cfg(unix)]
fn os_to_bytes(text: &OsStr) -> Vec<u8> {
    std::os::unix::ffi::OsStrExt::as_bytes(text).to_vec()
}

#[cfg(not(unix))]
fn os_to_bytes(text: &OsStr) -> Vec<u8> {
    text.to_string_lossy().into_owned().into_bytes()
}

/// Returns the names in a folder, in their order.
///
/// # Errors
///
/// If the folder cannot be read.
pub fn entries(folder: &Path) -> io::Result<Vec<OsString>> {
    let entries = fs::read_dir(folder)?;
    let mut names = entries.map(|it| Ok(it?.file_name())).collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// Reads the beginning of a file, at most 64 KiB, or the target of a link. `None` means that it cannot be read.
pub fn read_beginning(path: &Path) -> Option<Vec<u8>> {
    use std::io::Read as _;
    let metadata = fs::symlink_metadata(path).ok()?;
    if metadata.is_symlink() {
        return fs::read_link(path).ok().map(|target| os_to_bytes(target.as_os_str()));
    }
    if !metadata.is_file() {
        return None;
    }
    let mut content = Vec::new();
    fs::File::open(path).ok()?.take(LOOKED_AT).read_to_end(&mut content).ok()?;
    Some(content)
}

#[cfg(test)]
mod tests;
