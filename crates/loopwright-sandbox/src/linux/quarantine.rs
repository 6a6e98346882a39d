//! Quarantine for folders in which changes take effect immediately: after the command, files that
//! would later run or take effect outside the sandbox are moved away. The same rules as for
//! collected changes select them; new files are found by their change time.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::{AtFlags, Mode, mkdirat, renameat, statat};
use rustix::time::{ClockId, clock_gettime};

use super::fs_view::{Covered, Seen, Shape, View};
use super::kept::{Kept, Restored, put_back_at};
use crate::beneath::{make_open_writable, open_below, random};
use crate::job::LaunchRequest;
use crate::policy::Backend;
use crate::screen::{self, DEEPEST, EntryKind, FolderView, Reason, Screen};

/// The folder for such files, below the folder in which they were found.
const FOLDER: &str = ".loopwright-quarantine";

/// A part of a tick of the clock that file systems use.
const TICK_PART: Duration = Duration::from_micros(500);

/// More parts than two ticks have. A clock that is set back meanwhile must not hold the command up.
const MAX_TICK_PARTS: usize = 60;

/// The check of the folders when a command has ended.
#[derive(Debug)]
pub(crate) struct Sweep {
    roots: Vec<Root>,
    /// The paths that the command could not change.
    covered: Vec<PathBuf>,
    began: (i64, i64),
    /// The folders that existed, by path and inode. A renamed folder contains files that are older than the
    /// command.
    folders: HashSet<(PathBuf, u64)>,
    /// The files that existed and that make a folder a repository. Git replaces them.
    files: HashSet<PathBuf>,
    /// The rights of the folders themselves.
    modes: Vec<(PathBuf, u32)>,
}

/// A folder to check.
#[derive(Debug)]
struct Root {
    path: PathBuf,
    /// The screen of the folder, with the settings from before the command.
    screen: Screen,
    /// The protected files that the command could change.
    kept: Kept,
    /// Other files that programs obey. A refused change of one is undone.
    obeyed: Kept,
    /// The screen of protected files that are no longer covered, and their content from before the command.
    of_covered: Screen,
    covered: Kept,
}

impl Sweep {
    /// Prepares the check of everything that a command can change directly.
    pub(crate) fn of(view: &View, job: &LaunchRequest) -> Self {
        let policy = &job.policy;
        let is_collected = |root: &&PathBuf| policy.staging.is_some() && **root == view.workdir;
        let roots = view.writable.iter().filter(|root| !is_collected(root)).cloned();
        let direct = view.entries.iter().filter_map(|entry| match entry.seen {
            Seen::Part { covered: Covered::Direct, .. } => Some(entry.at.clone()),
            _ => None,
        });
        // Parts of a writable folder are protected by mounts only.
        let is_covered = job.backend != Backend::Landlock;
        let covered = view.entries.iter().filter_map(|entry| match entry.seen {
            Seen::Part { covered: Covered::Protected | Covered::Hidden, .. } if is_covered => {
                Some(entry.at.clone())
            }
            _ => None,
        });
        let roots = roots.chain(direct).map(|path| {
            // A protected path that did not exist must not appear either, whatever its content.
            let protected = policy.protected.iter().map(|it| path.join(it));
            let screen = policy.screen(protected.fold(Screen::standard(), Screen::refuse));
            let screen = screen.of_user(&path, &job.settings);
            let kept = if is_covered { &[][..] } else { &policy.protected };
            let below = |it: &PathBuf| match it.strip_prefix(&path) {
                Ok(below) => Some(below.to_path_buf()),
                Err(_) => Some(it.clone()).filter(|it| it.is_relative()),
            };
            let protected: Vec<PathBuf> = kept.iter().filter_map(below).collect();
            let files = view.entries.iter().filter(|entry| {
                let covered = matches!(entry.seen, Seen::Part { covered: Covered::Protected, .. });
                covered && is_covered && entry.shape() == Some(Shape::File)
            });
            let files =
                files.filter_map(|it| it.at.strip_prefix(&path).ok().map(Path::to_path_buf));
            let covered = Kept::of(&path, &files.collect::<Vec<_>>());
            let of_covered = policy.screen(Screen::standard()).of_user(&path, &job.settings);
            let kept = Kept::of(&path, &protected);
            Root { path, screen, kept, obeyed: Kept::default(), of_covered, covered }
        });
        Self::beginning(roots.collect(), covered.collect())
    }

    fn beginning(mut roots: Vec<Root>, covered: Vec<PathBuf>) -> Self {
        let (mut folders, mut files) = (HashSet::new(), HashSet::new());
        for Root { path: root, screen, obeyed, .. } in &mut roots {
            let mut note = Note { root, screen, folders: &mut folders, files: &mut files, obeyed };
            note.folder(Path::new(""), 0, false);
        }
        let modes = roots.iter().filter_map(|it| Some((it.path.clone(), folder_mode(&it.path)?)));
        let modes = modes.collect();
        if !roots.is_empty() {
            pass_file_time(time(ClockId::Realtime));
        }
        Self { roots, covered, began: time(ClockId::RealtimeCoarse), folders, files, modes }
    }

    /// Gives the owner of the folders the rights back that the command has taken, and returns a note about each.
    fn open_again(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for (path, before) in &self.modes {
            let Some(now) = folder_mode(path) else { continue };
            let taken = before & 0o700 & !now;
            let rights = fs::Permissions::from_mode(now | taken);
            if taken != 0 && fs::set_permissions(path, rights).is_ok() {
                notes.push(format!(
                    "the owner permissions of {} were restored, because the folder could not be entered without them",
                    path.display()
                ));
            }
        }
        notes
    }

    /// Returns the paths over which something is mounted.
    pub(crate) fn covered(&self) -> &[PathBuf] {
        &self.covered
    }

    /// Moves the files that must be moved, and returns a note about each. Every process of the command must have
    /// ended. No step follows a link, because the command may have left some. The paths `lost` were covered when the command
    /// started, and at the end no longer.
    pub(crate) fn run(&self, lost: &[PathBuf]) -> Vec<String> {
        let mut notes = self.open_again();
        for of_root in &self.roots {
            let Root { path: root, kept, of_covered, covered, .. } = of_root;
            for path in lost.iter().filter_map(|it| it.strip_prefix(root).ok()) {
                let view = Uncovered { ended: Ended { of_root, sweep: self }, covered };
                let is_changed = view.content(path) != view.content_before(path);
                let is_refused = || of_covered.judge(path, root, &view).is_some();
                if is_changed
                    && is_refused()
                    && let Ok(to) = move_away(root, path)
                {
                    covered.put_back(root);
                    notes.push(format!(
                        "{} may have been changed by the command after another program replaced it; it was \
                            moved to {to}, and its earlier content was restored",
                        path.display()
                    ));
                }
            }
            let mut found = Vec::new();
            self.search(of_root, Path::new(""), Age::Unknown, &mut found);
            for (path, reason) in found {
                notes.push(taken_away(of_root, &path, reason));
            }
            let back = kept.put_back(root).into_iter();
            notes.extend(
                back.map(|path| format!("the earlier content of {} was restored", path.display())),
            );
        }
        notes
    }

    fn search(&self, of_root: &Root, folder: &Path, age: Age, found: &mut Vec<(PathBuf, Reason)>) {
        let Root { path: root, screen, .. } = of_root;
        if folder.components().count() > DEEPEST {
            return;
        }
        for name in names(&root.join(folder)) {
            let path = folder.join(&name);
            let at = root.join(&path);
            let is_own = folder.as_os_str().is_empty() && name == FOLDER;
            let Ok(status) = fs::symlink_metadata(&at) else { continue };
            if is_own || self.covered.contains(&at) {
                continue;
            }
            let age = if age == Age::New || self.appeared(&at, &status) { Age::New } else { age };
            let is_new = age == Age::New || self.is_new(&status);
            let judged = || screen.judge(&path, root, &Ended { of_root, sweep: self });
            // Older content of a folder stays.
            let stays = || status.is_dir() && age != Age::New && self.holds_older(&at);
            match is_new.then(judged).flatten() {
                Some(reason) if !stays() => found.push((path, reason)),
                _ if status.is_dir() => self.search(of_root, &path, age, found),
                _ => {}
            }
        }
    }

    fn is_new(&self, status: &Metadata) -> bool {
        (status.ctime(), status.ctime_nsec()) >= self.began
    }

    /// Returns `true` if the command created or renamed the folder, with all its content.
    fn appeared(&self, at: &Path, status: &Metadata) -> bool {
        status.is_dir()
            && self.is_new(status)
            && !self.folders.contains(&(at.to_path_buf(), status.ino()))
    }

    fn holds_older(&self, folder: &Path) -> bool {
        let older = |name: &OsString| {
            fs::symlink_metadata(folder.join(name)).is_ok_and(|status| !self.is_new(&status))
        };
        names(folder).iter().any(older)
    }

    /// Returns `true` if the path existed below the folder when the command started.
    fn was_there(&self, root: &Path, path: &Path) -> bool {
        path.ancestors().filter(|at| !at.as_os_str().is_empty()).all(|at| {
            let at = root.join(at);
            fs::symlink_metadata(&at).is_ok_and(|status| !self.appeared(&at, &status))
        })
    }
}

/// Whether the content of a folder can be older than the command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Age {
    Unknown,
    New,
}

/// What is recorded of a folder before a command.
struct Note<'a> {
    root: &'a Path,
    screen: &'a Screen,
    folders: &'a mut HashSet<(PathBuf, u64)>,
    files: &'a mut HashSet<PathBuf>,
    obeyed: &'a mut Kept,
}

impl Note<'_> {
    /// Records the folders below a folder, the files that make one a repository, and the content of those that programs obey.
    /// Other files are not inspected.
    fn folder(&mut self, folder: &Path, depth: usize, is_obeyed: bool) {
        if depth > DEEPEST {
            return;
        }
        let at = self.root.join(folder);
        let entries: Vec<_> = fs::read_dir(&at).into_iter().flatten().flatten().collect();
        let has = |name: &str| entries.iter().any(|it| it.file_name() == name);
        let is_repository = at.ends_with(".git") || screen::is_made_by(has);
        for entry in &entries {
            let (path, name) = (folder.join(entry.file_name()), entry.file_name());
            let kind = entry.file_type();
            let is_folder = kind.as_ref().is_ok_and(fs::FileType::is_dir);
            let is_link = kind.is_ok_and(|kind| kind.is_symlink());
            let is_obeyed = is_obeyed
                || self.screen.is_obeyed(&path)
                || (is_repository && screen::is_obeyed_part(&name));
            if !is_folder {
                if screen::makes_repository(&name) {
                    self.files.insert(entry.path());
                }
                let is_read = || screen::is_read(&name) || screen::is_obeyed_info(&path);
                if is_obeyed || is_link || is_read() {
                    self.obeyed.add(self.root, &path, 0);
                }
                continue;
            }
            // For a mount point, the entry has the inode of the folder below the mount.
            if let Ok(status) = entry.metadata() {
                self.folder(&path, depth + 1, is_obeyed);
                self.folders.insert((entry.path(), status.ino()));
            }
        }
    }
}

/// Waits until new times of files are later than a time, so that a file that another program changed just before does not count
/// as changed by the command. File systems use a clock that ticks every few milliseconds, and some of them a finer one too.
fn pass_file_time(earlier: (i64, i64)) {
    for _ in 0..MAX_TICK_PARTS {
        if time(ClockId::RealtimeCoarse) > earlier {
            return;
        }
        thread::sleep(TICK_PART);
    }
}

/// Returns the seconds and nanoseconds of a clock.
fn time(clock: ClockId) -> (i64, i64) {
    let now = clock_gettime(clock);
    (now.tv_sec, now.tv_nsec)
}

/// Returns the rights of a folder. `None` means that there is no folder at the path.
fn folder_mode(path: &Path) -> Option<u32> {
    let status = fs::symlink_metadata(path).ok()?;
    status.is_dir().then(|| status.mode() & 0o7777)
}

/// Returns the names in a folder. A folder that cannot be read counts as empty.
fn names(folder: &Path) -> Vec<OsString> {
    screen::entries(folder).unwrap_or_default()
}

/// A folder after a command has ended.
struct Ended<'a> {
    of_root: &'a Root,
    sweep: &'a Sweep,
}

impl Ended<'_> {
    fn at(&self, path: &Path) -> PathBuf {
        self.of_root.path.join(path)
    }
}

impl FolderView for Ended<'_> {
    fn what(&self, path: &Path) -> Option<EntryKind> {
        EntryKind::at(&self.at(path))
    }

    fn before(&self, path: &Path) -> Option<EntryKind> {
        if self.of_root.obeyed.content(path).is_some() {
            return Some(EntryKind::File);
        }
        let at = self.at(path);
        let status = fs::symlink_metadata(&at).ok()?;
        // A folder is as old as its inode, whatever has changed in it.
        let is_old = status.is_dir() || !self.sweep.is_new(&status);
        let was_there = is_old && self.sweep.was_there(&self.of_root.path, path);
        (was_there || self.sweep.files.contains(&at)).then(|| EntryKind::of(&status))
    }

    fn content(&self, path: &Path) -> Option<Vec<u8>> {
        screen::read_beginning(&self.at(path))
    }

    fn content_before(&self, path: &Path) -> Option<Vec<u8>> {
        if let Some(content) = self.of_root.obeyed.content(path) {
            return Some(content.to_vec());
        }
        self.before(path)?;
        let at = self.at(path);
        let is_new = fs::symlink_metadata(&at).is_ok_and(|it| self.sweep.is_new(&it));
        if is_new { None } else { screen::read_beginning(&at) }
    }

    fn names(&self, path: &Path) -> Vec<OsString> {
        names(&self.at(path))
    }
}

/// The same, with protected files that are no longer covered.
struct Uncovered<'a> {
    ended: Ended<'a>,
    covered: &'a Kept,
}

impl FolderView for Uncovered<'_> {
    fn what(&self, path: &Path) -> Option<EntryKind> {
        self.ended.what(path)
    }

    fn before(&self, path: &Path) -> Option<EntryKind> {
        self.covered.content(path).map(|_| EntryKind::File).or_else(|| self.ended.before(path))
    }

    fn content(&self, path: &Path) -> Option<Vec<u8>> {
        self.ended.content(path)
    }

    fn content_before(&self, path: &Path) -> Option<Vec<u8>> {
        let kept = self.covered.content(path).map(<[u8]>::to_vec);
        kept.or_else(|| self.ended.content_before(path))
    }

    fn names(&self, path: &Path) -> Vec<OsString> {
        self.ended.names(path)
    }
}

/// Moves away what is refused, restores what was there before, and returns a note about it.
fn taken_away(of_root: &Root, path: &Path, reason: Reason) -> String {
    let Root { path: root, obeyed, kept, .. } = of_root;
    let shown = path.display();
    let to = match move_away(root, path) {
        Ok(to) => to,
        Err(error) => {
            return format!(
                "{shown} {reason} and could not be moved away ({error}); remove it before you \
                    start a program that reads it"
            );
        }
    };
    match put_back_at(&[obeyed, kept], root, path) {
        Restored::Nothing => format!("{shown} {reason}; it was moved to {to}"),
        Restored::Partly => format!(
            "{shown} {reason}; the changed file was moved to {to}, and there is no copy of its \
                earlier content: check the file, and then move it back"
        ),
        Restored::All => format!(
            "{shown} {reason}; the changed file was moved to {to}, and the original was restored"
        ),
    }
}

fn move_away(root: &Path, path: &Path) -> io::Result<String> {
    let folder = File::open(root)?;
    let (Some(name), Some(parent)) = (path.file_name(), path.parent()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let parent = open_below(folder.as_fd(), parent)?;
    statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    // A command may have removed its own permission to change the folder.
    for opened in [&parent, &OwnedFd::from(folder.try_clone()?)] {
        make_open_writable(opened);
    }
    mkdirat(&folder, FOLDER, Mode::RWXU).ok();
    let mark = format!("{:016x}", random());
    if let Ok(quarantine) = open_below(folder.as_fd(), Path::new(FOLDER)) {
        let to = format!("{mark}-{}", name.to_string_lossy());
        if rename(&parent, name, &quarantine, &to).is_ok() {
            return Ok(format!("{FOLDER}/{to}"));
        }
    }
    let to = format!("{}.quarantined-{mark}", name.to_string_lossy());
    rename(&parent, name, &parent, &to)?;
    Ok(to)
}

fn rename(from: &OwnedFd, name: &OsStr, to: &OwnedFd, new: &str) -> io::Result<()> {
    Ok(renameat(from, name, to, new)?)
}

#[cfg(test)]
mod tests;
