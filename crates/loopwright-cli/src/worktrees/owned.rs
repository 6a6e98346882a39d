//! Which repository a folder belongs to. Files of the folder name it, and these may be the words of another person: a repository
//! that does not know the folder is not used.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::WorktreeError;
use super::git::Git;
use crate::own_paths::without_links;

/// The size of a file that leads to a folder.
const MAX_LINK: u64 = 64 << 10;

/// The folders of a repository in which links are looked for at every depth.
const SEARCHED: [&str; 6] = ["refs", "logs", "worktrees", "info", "reftable", "objects/pack"];

/// The entries of a repository that the program's git does not use, and that may be links.
const UNUSED: [&str; 5] = ["hooks", "annex", "lfs", "modules", "rr-cache"];

/// What git reads in a working tree, in the folder that all working trees of a repository share.
const READ: [&str; 7] = ["HEAD", "objects", "refs", "reftable", "packed-refs", "info", "shallow"];

/// Settings without which git cannot read a repository that has them.
const FORMATS: [&str; 2] = ["extensions.objectFormat", "extensions.refStorage"];

/// The repository of a working tree, by paths without links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Repository {
    /// The folder for this working tree.
    pub(super) own: PathBuf,
    /// The folder that all working trees share.
    pub(super) shared: PathBuf,
}

impl Repository {
    /// Finds the repository of a working tree, whose path is without links. The repository must be in the working tree with all
    /// its files, or must name the working tree as its own.
    pub(super) fn of(tree: &Path) -> Result<Self, WorktreeError> {
        let link = tree.join(".git");
        let none = |_| WorktreeError::NoRepository(tree.to_path_buf());
        let own = directory(&link).map_err(none)?;
        let shared = match path_in(&own.join("commondir"), b"") {
            Ok(path) => fs::canonicalize(own.join(path)).map_err(none)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => own.clone(),
            Err(error) => return Err(none(error)),
        };
        let found = Self { own, shared };
        if found.own.starts_with(tree) && found.shared.starts_with(tree) {
            for folder in [&found.shared, &found.own] {
                has_own_files(folder)?;
            }
        } else if !found.has_worktree(&link) && !found.has_setting_for(tree) {
            let target = if found.own.starts_with(tree) { found.shared } else { found.own };
            return Err(WorktreeError::Elsewhere { tree: tree.to_path_buf(), target });
        }
        Ok(found)
    }

    /// Returns `true` if the folder for this working tree is one of the repository's worktrees, and names the file that leads to it.
    fn has_worktree(&self, link: &Path) -> bool {
        let is_file = link.symlink_metadata().is_ok_and(|it| it.is_file());
        let named = || path_in(&self.own.join("gitdir"), b"").ok();
        let real = |named: PathBuf| fs::canonicalize(self.own.join(named)).ok();
        is_file
            && self.own.parent() == Some(self.shared.join("worktrees").as_path())
            && named().and_then(real).as_deref() == Some(link)
    }

    /// Returns `true` if the repository has the working tree in its settings, as that of a submodule.
    fn has_setting_for(&self, tree: &Path) -> bool {
        let named = || Git::setting(&self.own.join("config"), "core.worktree");
        let real = |named: PathBuf| fs::canonicalize(self.own.join(named)).ok();
        self.own == self.shared && named().and_then(real).as_deref() == Some(tree)
    }

    /// Returns what commands read of the repository, besides the folder for their working tree. The settings, which can hold
    /// passwords, are among it only if git cannot read the repository without them. What a link leads to is not among it: a
    /// repository that came with the working tree could lead anywhere.
    pub(super) fn read_by_commands(&self) -> Vec<PathBuf> {
        let config = self.shared.join("config");
        let needs_config = FORMATS.iter().any(|name| Git::setting(&config, name).is_some());
        let names = READ.iter().map(|name| self.shared.join(name));
        let all = names.chain(needs_config.then_some(config));
        all.filter(|path| path.exists() && !path.is_symlink()).collect()
    }
}

/// Returns the folder that `.git` is or leads to.
fn directory(link: &Path) -> io::Result<PathBuf> {
    if link.is_dir() {
        return fs::canonicalize(link);
    }
    let named = path_in(link, b"gitdir: ")?;
    fs::canonicalize(link.parent().unwrap_or(link).join(named))
}

/// Reads the path that is in a file, as git does.
fn path_in(file: &Path, prefix: &[u8]) -> io::Result<PathBuf> {
    let metadata = fs::metadata(file)?;
    if !metadata.is_file() || metadata.len() > MAX_LINK {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let content = fs::read(file)?;
    let path = content.strip_prefix(prefix).ok_or(io::ErrorKind::InvalidData)?;
    let ends = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let end = path.iter().rposition(|byte| !ends(byte)).map_or(0, |last| last + 1);
    Ok(PathBuf::from(OsStr::from_bytes(&path[..end])))
}

/// Fails if git would read or write files elsewhere through a repository that is in the working tree.
fn has_own_files(folder: &Path) -> Result<(), WorktreeError> {
    let (objects, refs) = (folder.join("objects"), folder.join("refs"));
    let alternates = objects.join("info/alternates");
    if alternates.symlink_metadata().is_ok_and(|it| it.len() > 0) {
        return Err(WorktreeError::Alternates(alternates));
    }
    // The names of the objects themselves are not known to a person who cannot read them.
    let mut pending = vec![(folder.to_path_buf(), false), (objects.clone(), false)];
    pending.extend(SEARCHED.iter().map(|name| (folder.join(name), true)));
    while let Some((at, is_deep)) = pending.pop() {
        for entry in fs::read_dir(&at).into_iter().flatten().flatten() {
            let (path, kind) = (entry.path(), entry.file_type());
            let is_unused = || at == folder && UNUSED.iter().any(|name| entry.file_name() == *name);
            match kind {
                // Old versions of git have written `HEAD` so.
                Ok(kind)
                    if kind.is_symlink()
                        && (is_unused() || without_links(&path).starts_with(&refs)) => {}
                Ok(kind) if kind.is_symlink() => return Err(WorktreeError::ForeignFile(path)),
                Ok(kind) if kind.is_dir() && is_deep => pending.push((path, true)),
                _ => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
