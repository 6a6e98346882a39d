//! Files that permission rules deny, for commands in the sandbox, and the same paths in a copy of a folder.

use std::path::{Path, PathBuf};

use loopwright_permissions::{Access, Policy};
use loopwright_sandbox::{ResolvedPath, SandboxPolicy};

use crate::own_paths::without_links;

/// Paths that rules deny: as they are named, of which the sandbox follows the links for each command, and without links as
/// they were at first, so that a command that changes a link opens nothing. Rules see the text of a command; the sandbox
/// keeps the programs that it runs from these paths, too.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeniedPaths {
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
}

impl DeniedPaths {
    /// Returns what the rules of a policy deny.
    pub(crate) fn of(policy: &Policy) -> Self {
        let read = policy.denied_paths(Access::Read);
        let write = policy.denied_paths(Access::Write);
        Self {
            read: read.iter().flat_map(|it| to_hide(Path::new(it))).collect(),
            write: write.iter().flat_map(|it| to_protect(Path::new(it))).collect(),
        }
    }

    /// Returns the paths with the same ones in a copy of a folder.
    pub(crate) fn in_copy(&self, policy: &Policy, folder: &FolderCopy) -> Self {
        let of = |access| {
            let paths = policy.denied_paths(access).into_iter();
            paths.filter_map(move |it| folder.place(Path::new(&it)))
        };
        let mut all = self.clone();
        all.read.retain(|it| !folder.is_in(it));
        all.write.retain(|it| !folder.is_in(it));
        all.read.extend(of(Access::Read).flat_map(|it| to_hide(&it)));
        all.write.extend(of(Access::Write).flat_map(|it| to_protect(&it)));
        all
    }

    /// Keeps commands from the paths, whatever the policy shows or is given later. A command in a folder that may not be
    /// changed sees it read-only, and a folder that may not be read has no commands.
    pub(crate) fn confine(&self, policy: SandboxPolicy) -> SandboxPolicy {
        let policy = self.read.iter().cloned().fold(policy, SandboxPolicy::hide);
        let policy = self.write.iter().cloned().fold(policy, SandboxPolicy::protect);
        let is_kept = || {
            let workdir = without_links(&policy.workdir);
            self.write.iter().any(|it| workdir.starts_with(it))
        };
        if self.write.is_empty() || !is_kept() { policy } else { policy.read_only() }
    }
}

/// Returns a path as it is named, and where it leads.
fn to_hide(path: &Path) -> Vec<PathBuf> {
    let real = without_links(path);
    if real == path { vec![real] } else { vec![path.to_path_buf(), real] }
}

/// Returns the same with the links on the way: a program that replaces one changes what is found at the path.
fn to_protect(path: &Path) -> Vec<PathBuf> {
    let ResolvedPath { real, links } = ResolvedPath::of(path);
    let is_plain = links.is_empty();
    let named = (!is_plain).then(|| path.to_path_buf());
    named.into_iter().chain(links).chain([real]).collect()
}

/// A copy of a folder, in which commands work instead. What holds for a path in the folder holds for the same path in the copy.
#[derive(Clone, Debug)]
pub(crate) struct FolderCopy {
    pub(crate) original: PathBuf,
    pub(crate) copy: PathBuf,
}

impl FolderCopy {
    /// Returns the same path in the copy. `None` means that a path is not in the folder.
    fn place(&self, path: &Path) -> Option<PathBuf> {
        Some(self.copy.join(path.strip_prefix(&self.original).ok()?))
    }

    /// Returns `true` if the copy is in a folder. A rule for that folder is not about the copy.
    fn is_in(&self, folder: &Path) -> bool {
        self.copy.starts_with(folder)
    }

    /// Returns the paths that commands use besides their directory: those in the folder are the ones in the copy, if it has them.
    pub(crate) fn moved(&self, paths: Vec<PathBuf>) -> Vec<PathBuf> {
        let moved = paths.into_iter().filter_map(|path| match self.place(&without_links(&path)) {
            Some(moved) => moved.exists().then_some(moved),
            None => Some(path),
        });
        moved.collect()
    }

    /// Withholds in the copy what a policy withholds in the folder. Relative paths hold in every directory.
    pub(crate) fn confine(&self, mut policy: SandboxPolicy) -> SandboxPolicy {
        for paths in [&mut policy.hidden, &mut policy.protected] {
            let real = paths.iter().filter(|it| it.is_absolute()).map(|it| without_links(it));
            let copied: Vec<PathBuf> =
                paths.iter().cloned().chain(real).filter_map(|it| self.place(&it)).collect();
            paths.retain(|it| it.is_relative() || !self.is_in(it));
            paths.extend(copied);
        }
        policy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_in_a_folder_holds_in_its_copy() {
        let home = tempfile::tempdir().unwrap();
        let original = home.path().canonicalize().unwrap().join("project");
        let copy = original.join("copies/one");
        std::fs::create_dir_all(copy.join("target")).unwrap();
        std::os::unix::fs::symlink(&original, original.with_file_name("link")).unwrap();
        let at = |path: &str| original.join(path);
        let folder = FolderCopy { original: original.clone(), copy: copy.clone() };
        let policy = SandboxPolicy { protected: vec!["ci".into()], ..SandboxPolicy::in_dir(&copy) };
        let policy = policy.hide("a.txt").hide(at("b.txt")).hide(at("copies")).hide("/elsewhere");
        let linked = original.with_file_name("link").join("c.txt");
        let policy = folder.confine(policy.hide(&linked).protect(at("d.txt")));
        let paths = |paths: &[&Path]| paths.iter().map(|it| it.to_path_buf()).collect::<Vec<_>>();
        let kept = paths(&["a.txt".as_ref(), &at("b.txt"), "/elsewhere".as_ref(), &linked]);
        // Each is found by its own path, and by the one without links.
        let copied = ["b.txt", "copies", "b.txt", "copies", "c.txt"].map(|it| copy.join(it));
        assert_eq!(policy.hidden, [kept, copied.to_vec()].concat());
        let once = copy.join("d.txt");
        assert_eq!(policy.protected, paths(&["ci".as_ref(), &at("d.txt"), &once, &once]));
        let used = paths(&[&at("target"), &at("missing"), "/elsewhere".as_ref()]);
        assert_eq!(folder.moved(used), [copy.join("target"), "/elsewhere".into()]);
    }
}
