//! Files that permission rules deny, for commands in the sandbox.

use std::path::{Path, PathBuf};

use loopwright_permissions::{Access, Policy};
use loopwright_sandbox::SandboxPolicy;

use crate::own_paths::without_links;

/// Paths that rules deny, without links. Rules see the text of a command; the sandbox keeps the programs that it runs from
/// these paths, too.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeniedPaths {
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
}

impl DeniedPaths {
    /// Returns what the rules of a policy deny.
    pub(crate) fn of(policy: &Policy) -> Self {
        let denied = |access| {
            let paths = policy.denied_paths(access);
            paths.iter().map(|it| without_links(Path::new(it))).collect()
        };
        Self { read: denied(Access::Read), write: denied(Access::Write) }
    }

    /// Returns the paths that commands do not read.
    pub(crate) fn unread(&self) -> impl Iterator<Item = &PathBuf> {
        self.read.iter()
    }

    /// Keeps commands from the paths in the folders that a policy shows. If nothing in the working folder may be written, it is
    /// read-only; it cannot be hidden.
    pub(crate) fn confine(&self, policy: SandboxPolicy) -> SandboxPolicy {
        if self.read.is_empty() && self.write.is_empty() {
            return policy;
        }
        let workdir = without_links(&policy.workdir);
        let written = policy.write_paths.iter().map(|it| without_links(it));
        let read = policy.read_paths.iter().map(|it| without_links(it));
        let written: Vec<PathBuf> = written.chain([workdir.clone()]).collect();
        let shown: Vec<PathBuf> = read.chain(written.iter().cloned()).collect();
        let is_in = |path: &Path, roots: &[PathBuf]| {
            roots.iter().any(|root| path != root && path.starts_with(root))
        };
        let hidden = self.read.iter().filter(|it| is_in(it, &shown) && it.exists());
        let policy = hidden.fold(policy, SandboxPolicy::hide);
        let kept = self.write.iter().filter(|it| is_in(it, &written));
        let policy = kept.fold(policy, SandboxPolicy::protect);
        if self.write.iter().any(|it| workdir.starts_with(it)) {
            policy.read_only()
        } else {
            policy
        }
    }
}
