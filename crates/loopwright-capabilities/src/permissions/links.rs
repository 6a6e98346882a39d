//! Where the links lead that deny rules for files name.

use std::fs;
use std::path::{Path, PathBuf};

use loopwright_permissions::{Access, Policy};
use loopwright_sandbox::ResolvedPath;

/// The targets of the paths in deny rules that are links, or lead through links.
#[derive(Debug, Default)]
pub(super) struct LinkTargets {
    read: Vec<Target>,
    write: Vec<Target>,
}

#[derive(Debug)]
struct Target {
    /// The path in the rule.
    named: PathBuf,
    /// What it leads to, without links; and below the working directory also as the working directory is given.
    paths: Vec<PathBuf>,
}

impl LinkTargets {
    /// Reads where the paths that a policy denies lead. Patterns with wildcards name no path.
    pub(super) fn of(policy: &Policy) -> Self {
        let given = Path::new(policy.workdir());
        let real = fs::canonicalize(given).unwrap_or_else(|_| given.to_owned());
        let targets = |access| {
            let named = policy.denied_paths(access).into_iter().map(PathBuf::from);
            let leading = named.filter_map(|named| {
                let target = ResolvedPath::of(&named).real;
                let below = target.strip_prefix(&real).ok().map(|below| given.join(below));
                let paths: Vec<PathBuf> = [Some(target), below].into_iter().flatten().collect();
                (!paths.contains(&named)).then_some(Target { named, paths })
            });
            leading.collect()
        };
        Self { read: targets(Access::Read), write: targets(Access::Write) }
    }

    /// Returns other paths of a file: those through the links that rules name.
    pub(super) fn leading_to(&self, access: Access, path: &Path) -> impl Iterator<Item = PathBuf> {
        let targets = match access {
            Access::Read => &self.read,
            Access::Write => &self.write,
        };
        targets.iter().filter_map(move |it| {
            let below = it.paths.iter().find_map(|target| path.strip_prefix(target).ok())?;
            Some(it.named.join(below))
        })
    }
}
