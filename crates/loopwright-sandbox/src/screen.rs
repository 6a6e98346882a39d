//! Changes that a command or a file tool may not leave behind, because a program outside the
//! sandbox would run or apply them later.
//!
//! Commands and file tools share one table: [`Screen::OBEYED`] lists names, at every depth. Git
//! repositories are recognized by their content, whatever their name, and checked entry by entry.

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

pub(crate) use self::git::makes_repository;
#[cfg(target_os = "linux")]
pub(crate) use self::git::{is_made_by, is_obeyed_info, is_obeyed_part};
pub(crate) use self::named::UserSettings;
use self::named::{Named, Place};
use self::obeyed::{listed, names};

/// How many folders can be nested in a folder whose changes are checked.
pub(crate) const DEEPEST: usize = 128;

/// Why changes below are not checked and not kept.
pub(crate) const TOO_DEEP: Reason = Reason::new("is nested in more than 128 folders");

/// The kind of an entry at a path, without following links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A folder.
    Folder,
    /// A regular file.
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

/// A view of a folder as it will be after changes are applied.
pub trait FolderView {
    /// Returns the kind of the future entry at a path in the folder, or `None` if there will be
    /// none.
    fn what(&self, path: &Path) -> Option<EntryKind>;
    /// Returns the kind of the current entry, or `None` if there is none.
    fn before(&self, path: &Path) -> Option<EntryKind>;
    /// Returns the future beginning of a file, at most 64 KiB, or the target of a link, or `None`
    /// if it is unknown.
    fn content(&self, path: &Path) -> Option<Vec<u8>>;
    /// Returns the current beginning of a file, at most 64 KiB, or `None` if it cannot be read.
    fn content_before(&self, path: &Path) -> Option<Vec<u8>>;
    /// Returns the future names in a folder; empty for anything else.
    fn names(&self, path: &Path) -> Vec<OsString>;
    /// Returns `true` if the content of a file is final. Other files are checked again later.
    fn is_decided(&self, path: &Path) -> bool {
        let _ = path;
        true
    }
}

/// How much of a file is read to decide what it is.
pub(crate) const LOOKED_AT: u64 = 64 << 10;

/// Decides which changes may be left behind in a folder.
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
    /// Absolute paths that are refused, wherever the folder is.
    refused_paths: Vec<PathBuf>,
    /// What settings of the user name, at any depth.
    named: Vec<(Vec<OsString>, Reason)>,
    /// What they name in the folder.
    named_here: Vec<(Vec<OsString>, Reason)>,
    /// Folders in which a shell looks for programs.
    searched: Vec<Vec<OsString>>,
    allowed: Vec<Vec<OsString>>,
    reachable: Vec<PathBuf>,
}

/// The reason for a refusal, as the end of a sentence that starts with the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason(&'static str);

impl Reason {
    pub(crate) const fn new(text: &'static str) -> Self {
        Self(text)
    }

    /// Returns the reason, such as "is read by shells when they start".
    pub const fn text(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0)
    }
}

const PROTECTED: Reason = Reason("is protected");

/// Where the system has its programs.
const PROGRAMS: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Folders of the system, into which a link may lead.
const SYSTEM: [&str; 9] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/dev/null"];

impl Screen {
    /// Names that are obeyed wherever they are, with all that is below them, and why.
    pub const OBEYED: &[(&str, &str)] = obeyed::NAMES;

    /// Creates a screen from the table, without exceptions.
    pub fn standard() -> Self {
        Self {
            refused: Vec::new(),
            refused_paths: Vec::new(),
            named: Vec::new(),
            named_here: Vec::new(),
            searched: Vec::new(),
            allowed: Vec::new(),
            reachable: Vec::new(),
        }
    }

    /// Refuses a name, or several joined by `/`, at any depth, with everything in it. Refuses an absolute path only in
    /// its place; for that, the screen needs its folder (see [`with_root`](Self::with_root)).
    pub fn refuse(mut self, path: impl AsRef<Path>) -> Self {
        if path.as_ref().is_absolute() {
            self.refused_paths.push(path.as_ref().to_path_buf());
            return self;
        }
        let names = names(path.as_ref());
        if !names.is_empty() && !self.refused.contains(&names) {
            self.refused.push(names);
        }
        self
    }

    /// Allows a name, or several joined by `/`, at any depth, with everything in it. It takes
    /// precedence over the table and the rules for repositories: `.git/hooks` allows hooks. It does
    /// not allow devices, set-user-id programs and links that lead outside.
    pub fn allow(mut self, path: impl AsRef<Path>) -> Self {
        let names = names(path.as_ref());
        if !names.is_empty() {
            self.allowed.push(names);
        }
        self
    }

    /// Allows links into this folder, such as a toolchain, which is outside the working folder.
    pub fn reach(mut self, path: impl Into<PathBuf>) -> Self {
        self.reachable.push(path.into());
        self
    }

    /// Also refuses files in the folder that settings refer to: programs, hooks and included files
    /// in the git settings of the repository and the user, and files that direnv loads for an
    /// `.envrc`.
    pub fn with_root(self, root: &Path) -> Self {
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
        let below = self.refused_paths.iter().filter_map(|it| it.strip_prefix(root).ok());
        let below: Vec<_> = below.map(names).filter(|it| !it.is_empty()).collect();
        self.named_here.extend(below.into_iter().map(|names| (names, PROTECTED)));
        self
    }

    /// Checks a path in the folder by its names alone. Returns `None` if it is allowed.
    pub fn by_name(&self, path: &Path) -> Option<Reason> {
        let path = names(path);
        if self.is_allowed(&path) {
            return None;
        }
        let refused = || {
            let is_refused = self.refused.iter().any(|names| contains(&path, names));
            is_refused.then_some(PROTECTED)
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

    /// Returns `true` if a path is refused [by its names](Self::by_name), and would not be without the last of them. Cheap for the
    /// names that most files have.
    pub(crate) fn is_obeyed(&self, path: &Path) -> bool {
        let Some(name) = path.file_name() else { return false };
        let name = name.to_ascii_lowercase();
        let ends = |names: &[OsString]| names.last() == Some(&name);
        let named = self.named.iter().chain(&self.named_here).map(|(names, _)| names);
        let may_be = obeyed::ends_with(&name)
            || content::pattern(&name).is_some()
            || self.refused.iter().chain(named).any(|it| ends(it));
        may_be && self.by_name(path).is_some()
    }

    /// Checks the future entry at a path in the folder. Returns `None` if it is allowed.
    pub fn judge(&self, path: &Path, root: &Path, after: &dyn FolderView) -> Option<Reason> {
        if let Some(reason) = self.by_name(path) {
            return Some(reason);
        }
        let what = after.what(path)?;
        let plain = kind(what)
            .or_else(|| self.leads_out(path, root, what, after))
            .or_else(|| self.leads_past(path, what));
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
            "would run in place of the system's program, because `.envrc` adds its folder to `PATH`",
        );
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return None };
        let is_searched = !self.searched.is_empty() && self.searched.contains(&names(folder));
        let is_program = |folder: &&str| Path::new(folder).join(name).is_file();
        let shadows =
            is_searched && after.before(path).is_none() && PROGRAMS.iter().any(is_program);
        shadows.then_some(SHADOW)
    }

    /// Checks the removal of the current entry at a path in the folder. Returns `None` if it is allowed.
    pub fn judge_removal(&self, path: &Path, folder: &dyn FolderView) -> Option<Reason> {
        let path_names = names(path);
        if self.is_allowed(&path_names) {
            return None;
        }
        self.by_name(path).or_else(|| git::judge_removal(path, folder))
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
        const OUT: Reason = Reason("is a link to a place outside the folder");
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

    /// Judges a link that replaces a folder on the way to a protected path, which would then be another one.
    fn leads_past(&self, path: &Path, what: EntryKind) -> Option<Reason> {
        const PAST: Reason =
            Reason("is a link that replaces a folder on the way to a protected path");
        if what != EntryKind::Link {
            return None;
        }
        let path = names(path);
        let leads =
            |names: &Vec<OsString>| (1..names.len()).any(|count| path.ends_with(&names[..count]));
        let is_here = |(names, reason): &(Vec<OsString>, Reason)| {
            *reason == PROTECTED && names.len() > path.len() && names.starts_with(&path)
        };
        (self.refused.iter().any(leads) || self.named_here.iter().any(is_here)).then_some(PAST)
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

/// Returns `true` if files of this name may be refused for their content.
pub(crate) fn is_read(name: &OsStr) -> bool {
    let name = name.to_ascii_lowercase();
    content::is_read(&name) || git::is_settings(&name)
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
    /// Returns the kind of the entry at a path, or `None` if there is none.
    pub fn at(path: &Path) -> Option<Self> {
        fs::symlink_metadata(path).ok().map(|metadata| Self::of(&metadata))
    }

    /// Returns the kind of an entry.
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

    /// Returns the kind of an entry.
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
/// Returns an error if the folder cannot be read.
pub fn entries(folder: &Path) -> io::Result<Vec<OsString>> {
    let entries = fs::read_dir(folder)?;
    let mut names = entries.map(|it| Ok(it?.file_name())).collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// Returns the beginning of a file, at most 64 KiB, or the target of a link, or `None` if it cannot
/// be read.
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
