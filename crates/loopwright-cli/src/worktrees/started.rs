//! How far commands reach the git repository of the directory in which an agent is started.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::WorktreeError;
use super::owned::Repository;
use crate::project::{plain, repository};

/// How far commands in a directory reach its git repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum GitReach {
    /// The repository is in the directory, or there is none.
    #[default]
    Whole,
    /// The directory is a worktree or a submodule. Commands can read these paths of the repository, whose folder for all worktrees is
    /// `shared`.
    ReadOnly { shared: PathBuf, paths: Vec<PathBuf> },
    /// `.git` leads to a repository that does not name the directory as its own, or belongs to another user.
    Foreign { target: PathBuf },
    /// The repository starts above the directory.
    Above { root: PathBuf },
}

impl GitReach {
    /// Looks at a directory. Blocks while git runs.
    pub(crate) fn of(workdir: &Path) -> Self {
        let Ok(tree) = fs::canonicalize(workdir) else { return Self::Whole };
        match repository(&tree) {
            Some(root) if root == tree => {}
            Some(root) => return Self::Above { root: root.to_path_buf() },
            None => return Self::Whole,
        }
        let link = tree.join(".git");
        let is_folder = link.symlink_metadata().is_ok_and(|it| it.is_dir());
        if is_folder && !link.join("commondir").exists() {
            return Self::Whole;
        }
        match Repository::of(&tree) {
            Ok(found) if found.own.starts_with(&tree) && found.shared.starts_with(&tree) => {
                Self::Whole
            }
            Ok(found) if is_of_one_owner([&link, &found.own, &found.shared]) => {
                let mut paths = found.read_by_commands();
                // A submodule has no folder besides that of its repository.
                let is_shared = found.own == found.shared;
                let own = if is_shared { found.own.join("index") } else { found.own };
                paths.push(own);
                // Git writes it the first time when it packs branches, which can be later.
                let packed = found.shared.join("packed-refs");
                if !paths.contains(&packed) {
                    paths.push(packed);
                }
                paths.retain(|path| !path.is_symlink());
                Self::ReadOnly { shared: found.shared, paths }
            }
            Ok(found) => Self::Foreign { target: found.shared },
            Err(WorktreeError::Elsewhere { target, .. }) => Self::Foreign { target },
            // Git does not work there for the user either, or the repository is in the directory.
            Err(_) => Self::Whole,
        }
    }

    /// The paths outside the directory that commands read.
    pub(crate) fn paths(&self) -> &[PathBuf] {
        match self {
            Self::ReadOnly { paths, .. } => paths,
            Self::Whole | Self::Foreign { .. } | Self::Above { .. } => &[],
        }
    }

    /// Says in one sentence what git cannot do for an agent that also works in the folders `added`. `None` means that nothing is to
    /// be said.
    pub(crate) fn note(&self, added: &[PathBuf]) -> Option<String> {
        let is_added = |path: &Path| added.iter().any(|it| path.starts_with(it));
        match self {
            Self::Whole => None,
            Self::ReadOnly { shared, .. } if is_added(shared) => None,
            Self::ReadOnly { shared, .. } => Some(match shared.parent() {
                Some(main) if shared.ends_with(".git") => format!(
                    "commands can read the repository of this git worktree, {}, but cannot commit; to allow commits, pass `--add-dir {}`",
                    plain(shared),
                    plain(main)
                ),
                _ => format!(
                    "commands can read the git repository of this folder, {}, but cannot commit",
                    plain(shared)
                ),
            }),
            Self::Foreign { target } => Some(format!(
                "commands cannot use git: `.git` points to {}, which does not list this folder as one of its working trees, or which belongs to another user",
                plain(target)
            )),
            Self::Above { root } if is_added(root) => Some(format!(
                "commands in this folder cannot use git: the root of the repository is above the folder; to use git, start with `-C {}`",
                plain(root)
            )),
            Self::Above { root } => Some(format!(
                "the root of the repository is above this folder, so git and the files there are out of reach; to use them, start with `-C {}`",
                plain(root)
            )),
        }
    }
}

fn is_of_one_owner(paths: [&Path; 3]) -> bool {
    let owners = paths.map(|path| fs::metadata(path).map(|it| it.uid()).ok());
    owners[0].is_some() && owners.iter().all(|owner| *owner == owners[0])
}

#[cfg(test)]
mod tests;
