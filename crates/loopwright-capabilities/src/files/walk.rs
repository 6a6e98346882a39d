//! All files in a directory tree, through open handles and in order.

use std::ffi::OsStr;
use std::io::Read as _;
use std::ops::AddAssign;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::FileType;
use tokio_util::sync::CancellationToken;

use crate::files::FileError;
use crate::files::access::FileUse;
use crate::files::blocking::check;
use crate::files::list::{self, Entry};
use crate::files::resolve::{open_file, open_folder};
use crate::files::root::WorkspaceRoot;

/// How many names are looked at in one walk.
const MAX_ENTRIES: usize = 200_000;

/// How deep a walk goes: one handle is open for each level.
const MAX_LEVELS: usize = 128;

/// How much of a file of rules is read, in bytes.
const MAX_RULES: u64 = 1 << 20;

/// Whether the rules of `.gitignore` and `.ignore` files count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rules {
    Honoured,
    Disregarded,
}

/// Something that a walk comes by.
#[derive(Debug)]
pub(super) struct Visit<'a> {
    /// The directory that it is in.
    pub(super) folder: BorrowedFd<'a>,
    pub(super) name: &'a OsStr,
    /// Below the root.
    pub(super) path: &'a Path,
    pub(super) kind: FileType,
}

/// What to do after a visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    On,
    Enough,
}

/// What a walk has not seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Missed {
    /// Whether it ended early, at the bound on its length.
    pub(super) is_cut: bool,
    /// Directories that could not be read.
    pub(super) folders: usize,
}

impl AddAssign for Missed {
    fn add_assign(&mut self, other: Self) {
        self.is_cut |= other.is_cut;
        self.folders += other.folders;
    }
}

/// Visits everything below a directory, directories before what is in them, by name. Links are
/// visited and not followed. `.git` is left out, and so is what rules deny to the tool that walks.
pub(super) fn walk(
    root: &WorkspaceRoot,
    tool: &str,
    start: &str,
    rules: Rules,
    stop: &CancellationToken,
    visit: &mut dyn FnMut(&Visit<'_>) -> Result<Next, FileError>,
) -> Result<Missed, FileError> {
    let folder = root.folder(start)?;
    let mut walk =
        Walk { rules, stop, left: MAX_ENTRIES, missed: Missed::default(), frames: Vec::new() };
    let above = if rules == Rules::Honoured { rules_above(root, &folder.path) } else { Vec::new() };
    walk.enter(folder.fd, folder.path)?;
    while let Some((at, entry)) = walk.next() {
        check(stop)?;
        let frame = &walk.frames[at];
        let path = frame.path.join(&entry.name);
        let is_folder = entry.kind == FileType::Directory;
        if entry.name == ".git" || walk.is_ignored(&above, &path, is_folder) {
            continue;
        }
        if root.denied(FileUse::Read, Some(tool), &path).is_some() {
            continue;
        }
        let folder = frame.fd.as_fd();
        let next = visit(&Visit { folder, name: &entry.name, path: &path, kind: entry.kind })?;
        if next == Next::Enough {
            return Ok(walk.missed);
        }
        if is_folder {
            walk.descend(at, &entry.name, path)?;
        }
    }
    Ok(walk.missed)
}

struct Walk<'a> {
    rules: Rules,
    stop: &'a CancellationToken,
    left: usize,
    missed: Missed,
    frames: Vec<Frame>,
}

/// A directory whose entries are being visited.
struct Frame {
    fd: OwnedFd,
    path: PathBuf,
    entries: std::vec::IntoIter<Entry>,
    rules: Gitignore,
}

impl Walk<'_> {
    fn next(&mut self) -> Option<(usize, Entry)> {
        loop {
            let at = self.frames.len().checked_sub(1)?;
            if let Some(entry) = self.frames[at].entries.next() {
                return Some((at, entry));
            }
            self.frames.pop();
        }
    }

    fn enter(&mut self, fd: OwnedFd, path: PathBuf) -> Result<(), FileError> {
        let (mut entries, is_whole) =
            list::entries(&path.to_string_lossy(), &fd, self.left, self.stop)?;
        self.left -= entries.len();
        self.missed.is_cut |= !is_whole;
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let rules = match self.rules {
            Rules::Honoured => rules_of(&fd),
            Rules::Disregarded => Gitignore::empty(),
        };
        self.frames.push(Frame { fd, path, entries: entries.into_iter(), rules });
        Ok(())
    }

    fn descend(&mut self, at: usize, name: &OsStr, path: PathBuf) -> Result<(), FileError> {
        if self.frames.len() == MAX_LEVELS || self.left == 0 {
            self.missed.is_cut = true;
            return Ok(());
        }
        // Whatever has taken its place meanwhile, or cannot be read, is not walked.
        let entered = open_folder(&self.frames[at].fd, name)
            .map_err(|error| FileError::of(&path.to_string_lossy(), error))
            .and_then(|fd| self.enter(fd, path));
        match entered {
            Err(FileError::Cancelled) => Err(FileError::Cancelled),
            entered => {
                self.missed.folders += usize::from(entered.is_err());
                Ok(())
            }
        }
    }

    /// Asks the rules of the nearest directory first.
    fn is_ignored(&self, above: &[(PathBuf, Gitignore)], path: &Path, is_folder: bool) -> bool {
        let near = self.frames.iter().rev().map(|it| (&it.path, &it.rules));
        let far = above.iter().rev().map(|(folder, rules)| (folder, rules));
        excludes(near.chain(far), path, is_folder)
    }
}

/// Asks rules, the nearest first, whether they exclude a path.
fn excludes<'r>(
    rules: impl Iterator<Item = (&'r PathBuf, &'r Gitignore)>,
    path: &Path,
    is_folder: bool,
) -> bool {
    for (folder, rules) in rules.filter(|(_, rules)| !rules.is_empty()) {
        let Ok(below) = path.strip_prefix(folder) else { continue };
        match rules.matched(below, is_folder) {
            Match::None => {}
            Match::Ignore(_) => return true,
            Match::Whitelist(_) => return false,
        }
    }
    false
}

impl WorkspaceRoot {
    /// Returns `true` if `.gitignore` and `.ignore` files exclude a path below the root, or a folder that it is in. Blocks.
    pub fn excludes(&self, path: impl AsRef<Path>) -> bool {
        let path = path.as_ref();
        let rules = rules_above(self, path);
        let is_folder = self.path().join(path).is_dir();
        let parts: Vec<&Path> = path.ancestors().filter(|it| !it.as_os_str().is_empty()).collect();
        parts.into_iter().rev().any(|part| {
            let above = rules.iter().rev().map(|(folder, rules)| (folder, rules));
            // No rule of a folder is about the folder itself.
            excludes(above.filter(|(folder, _)| *folder != part), part, is_folder || part != path)
        })
    }
}

/// Reads the rules of the directories above one, and those that the repository keeps for itself.
fn rules_above(root: &WorkspaceRoot, path: &Path) -> Vec<(PathBuf, Gitignore)> {
    let mut rules = Vec::new();
    if path.is_relative()
        && let Ok((file, ..)) = root.read_on_disk(".git/info/exclude")
    {
        let mut builder = GitignoreBuilder::new("");
        add_rules(&mut builder, &file);
        rules.push((PathBuf::new(), builder.build().unwrap_or_else(|_| Gitignore::empty())));
    }
    let ancestors: Vec<&Path> = path.ancestors().skip(1).collect();
    for folder in ancestors.into_iter().rev() {
        let name = if folder.as_os_str().is_empty() { "." } else { folder.to_str().unwrap_or(".") };
        if let Ok(opened) = root.folder(name) {
            rules.push((folder.to_path_buf(), rules_of(&opened.fd)));
        }
    }
    rules
}

fn rules_of(folder: &impl AsFd) -> Gitignore {
    let mut builder = GitignoreBuilder::new("");
    for name in [".gitignore", ".ignore"] {
        if let Ok(file) = open_file(folder, OsStr::new(name)) {
            add_rules(&mut builder, &file);
        }
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

/// Adds the rules of a file; a line that is no rule counts for nothing.
fn add_rules(builder: &mut GitignoreBuilder, file: &std::fs::File) {
    let mut text = Vec::new();
    if !file.metadata().is_ok_and(|it| it.is_file())
        || file.take(MAX_RULES).read_to_end(&mut text).is_err()
    {
        return;
    }
    for line in String::from_utf8_lossy(&text).lines() {
        builder.add_line(None, line).ok();
    }
}

#[cfg(test)]
mod tests;
