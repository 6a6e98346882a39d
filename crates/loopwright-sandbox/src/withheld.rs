//! Paths that a policy keeps from commands, and what links lead to.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::policy::{SandboxPolicy, Withheld};

/// The number of links after which a path counts as a circle.
const MAX_LINKS: usize = 40;

/// Folders with the programs and libraries of the system, which every command sees.
pub(crate) const SYSTEM: [&str; 8] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"];

/// Files that programs need to start, on one system or another.
const NEEDED: [&str; 6] = [
    "/bin/sh",
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/ld-linux-aarch64.so.1",
    "/lib/ld-linux.so.2",
    "/lib/ld-musl-x86_64.so.1",
    "/lib/ld-musl-aarch64.so.1",
];

/// Returns `true` if a path is in a folder of the system that every command sees.
pub fn is_system_path(path: &Path) -> bool {
    SYSTEM.iter().chain(&["/etc"]).any(|it| path.starts_with(it))
}

/// A path without links, and the links on the way to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolvedPath {
    /// The path without links, as far as it exists.
    pub real: PathBuf,
    /// The links on the way, each without links in the folders around it.
    pub links: BTreeSet<PathBuf>,
}

impl ResolvedPath {
    /// Follows the links of an absolute path as they are now. What does not exist is kept as it is.
    pub fn of(path: &Path) -> Self {
        let mut resolved = Self { real: PathBuf::from("/"), links: BTreeSet::new() };
        let mut pending = names(path);
        let mut followed = 0;
        while let Some(name) = pending.pop() {
            if name == ".." {
                resolved.real.pop();
                continue;
            }
            let next = resolved.real.join(&name);
            match fs::read_link(&next) {
                Ok(target) if followed < MAX_LINKS => {
                    followed += 1;
                    if target.is_absolute() {
                        resolved.real = PathBuf::from("/");
                    }
                    pending.extend(names(&target));
                    resolved.links.insert(next);
                }
                _ => resolved.real = next,
            }
        }
        resolved
    }

    /// Returns the links and the path, the links first.
    pub fn into_all(self) -> impl Iterator<Item = PathBuf> {
        self.links.into_iter().chain([self.real])
    }
}

/// Returns the names of a path, the last one first.
fn names(path: &Path) -> Vec<OsString> {
    let names = path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        _ => None,
    });
    names.collect()
}

impl SandboxPolicy {
    /// Returns how commands are kept from a path because it, or a folder around it, is hidden or
    /// protected. `path` is absolute and without links. `None` means that the other fields decide.
    ///
    /// ```
    /// use loopwright_sandbox::{SandboxPolicy, Withheld};
    /// use std::path::Path;
    ///
    /// let policy = SandboxPolicy::in_dir("/srv/project").hide("keys").protect("/srv/project/ci");
    /// let withheld = |path| policy.withheld(Path::new(path));
    /// assert_eq!(withheld("/srv/project/keys/a"), Some(Withheld::Hidden));
    /// assert_eq!(withheld("/srv/project/ci/run.sh"), Some(Withheld::Protected));
    /// assert_eq!(withheld("/srv/project/src"), None);
    /// ```
    pub fn withheld(&self, path: &Path) -> Option<Withheld> {
        if self.hidden.iter().any(|it| path.starts_with(self.workdir.join(it))) {
            return Some(Withheld::Hidden);
        }
        let protected = self.protected.iter().filter(|it| it.is_absolute());
        protected.into_iter().any(|it| path.starts_with(it)).then_some(Withheld::Protected)
    }

    /// Adds to hidden and absolute protected paths what they lead to now, and to protected paths
    /// the links on the way. Links can change between two commands, so each command needs this anew.
    pub fn with_links_followed(mut self) -> Self {
        let hidden = self.hidden.iter().map(|it| ResolvedPath::of(&self.workdir.join(it)).real);
        let hidden: Vec<PathBuf> = hidden.collect();
        for path in hidden {
            if !self.hidden.iter().any(|it| self.workdir.join(it) == path) {
                self.hidden.push(path);
            }
        }
        self.with_protected_links_followed()
    }

    /// Adds to absolute protected paths what they lead to now, and the links on the way.
    pub(crate) fn with_protected_links_followed(mut self) -> Self {
        let protected = self.protected.iter().filter(|it| it.is_absolute());
        let protected: Vec<PathBuf> =
            protected.flat_map(|it| ResolvedPath::of(it).into_all()).collect();
        for path in protected {
            if !self.protected.contains(&path) {
                self.protected.push(path);
            }
        }
        self
    }

    /// Returns `true` if a path, relative to the working folder or absolute, is in a folder that
    /// this policy shows besides the system's.
    pub fn shows(&self, path: &Path) -> bool {
        let path = self.workdir.join(path);
        let others = self.read_paths.iter().chain(&self.write_paths);
        others.chain([&self.workdir]).any(|it| path.starts_with(it))
    }

    /// Returns `true` if a cache at a path is a copy-on-write: commands can neither change it
    /// directly, nor are they kept from it.
    pub(crate) fn copies(&self, path: &Path) -> bool {
        let mut written = self.write_paths.iter().chain([&self.workdir]);
        self.withheld(path).is_none() && !written.any(|it| path.starts_with(it))
    }

    /// Returns the hidden paths of the system without which programs cannot start, such as the
    /// folder of the loader.
    pub fn hidden_needs(&self) -> Vec<PathBuf> {
        let needed: Vec<PathBuf> =
            NEEDED.iter().filter_map(|it| fs::canonicalize(it).ok()).collect();
        let real = |it: &PathBuf| ResolvedPath::of(&self.workdir.join(it)).real;
        let hides = |path: &PathBuf| {
            let real = real(path);
            is_system_path(&real) && needed.iter().any(|it| it.starts_with(&real))
        };
        self.hidden.iter().filter(|it| hides(it)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_policy_follows_links_as_they_are_at_the_time() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        let policy = SandboxPolicy { protected: Vec::new(), ..SandboxPolicy::in_dir(&root) };
        let policy = policy.hide(at("key")).hide("below").protect(at("set/a"));
        assert_eq!(policy.clone().with_links_followed(), policy);
        symlink("key-1", at("key")).unwrap();
        symlink("real", at("set")).unwrap();
        let followed = policy.clone().with_links_followed();
        assert_eq!(followed.hidden, [at("key"), "below".into(), at("key-1")]);
        assert_eq!(followed.protected, [at("set/a"), at("set"), at("real/a")]);
        fs::remove_file(at("key")).unwrap();
        symlink("key-2", at("key")).unwrap();
        let followed = policy.with_links_followed();
        assert_eq!(followed.hidden, [at("key"), "below".into(), at("key-2")]);
    }

    #[test]
    fn links_that_lead_to_each_other_end() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        symlink("b", root.join("a")).unwrap();
        symlink("a", root.join("b")).unwrap();
        let links = ResolvedPath::of(&root.join("a")).links;
        assert_eq!(links, BTreeSet::from([root.join("a"), root.join("b")]));
    }

    #[test]
    fn hiding_the_loader_or_the_shell_is_hiding_what_programs_need() {
        let policy = SandboxPolicy::in_dir("/srv/project").hide("/usr/share/doc").hide("/root");
        assert_eq!(policy.hidden_needs(), Vec::<PathBuf>::new());
        let shell = fs::canonicalize("/bin/sh").unwrap().parent().unwrap().to_path_buf();
        assert_eq!(policy.hide("/bin").hidden_needs(), [PathBuf::from("/bin")]);
        let policy = SandboxPolicy::in_dir("/srv/project").hide(&shell);
        assert_eq!(policy.hidden_needs(), [shell]);
    }
}
