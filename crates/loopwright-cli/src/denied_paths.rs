//! Files that permission rules deny, for commands in the sandbox.

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

    /// Returns the paths with the same ones in a copy of a folder. A path around the copy does not count: a rule for it is not about
    /// the copy.
    pub(crate) fn in_copy(&self, policy: &Policy, original: &Path, copy: &Path) -> Self {
        let of = |access| {
            let paths = policy.denied_paths(access).into_iter();
            paths.filter_map(move |it| Some(copy.join(Path::new(&it).strip_prefix(original).ok()?)))
        };
        let mut all = self.clone();
        all.read.retain(|it| !copy.starts_with(it));
        all.write.retain(|it| !copy.starts_with(it));
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
