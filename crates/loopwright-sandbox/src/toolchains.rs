//! The user's toolchains, so that commands can build and test what the user can.
//!
//! [`Toolchains::found`] searches an environment and a home, and [`Toolchains::extend`] adds the
//! found toolchains to a policy: read-only, without settings and credentials, and with the user's
//! `PATH` reduced to folders that the command can see. [`Caches`] is the folder that package
//! managers fill meanwhile.

mod caches;
mod known;
pub(crate) mod maven;
mod node;
mod path;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub use self::caches::Caches;

use self::known::Known;
use crate::policy::SandboxPolicy;
use crate::withheld::SYSTEM;

/// The user's toolchains that commands may use.
///
/// ```
/// use loopwright_sandbox::SandboxPolicy;
/// use loopwright_sandbox::toolchains::Toolchains;
/// use std::collections::BTreeMap;
/// use std::path::Path;
///
/// let environment = BTreeMap::from([("PATH".to_owned(), "/usr/bin".into())]);
/// let project = Path::new("/srv/project");
/// let toolchains = Toolchains::found(&environment, None, project);
/// let policy = toolchains.extend(SandboxPolicy::in_dir(project));
/// assert!(policy.environment.values["PATH"].starts_with("/usr/bin:"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Toolchains {
    /// The found toolchains, by name, with their locations.
    pub found: Vec<(&'static str, PathBuf)>,
    /// The paths that commands may read.
    pub read: Vec<PathBuf>,
    /// The folders for `PATH`; those of the system come last.
    pub path: Vec<PathBuf>,
    /// The environment variables that programs need.
    pub variables: BTreeMap<String, String>,
}

impl Toolchains {
    /// Searches an environment and a home for toolchains, for commands that work in a folder.
    /// Ignores toolchains inside that folder, and folders that contain it or the home. Blocks.
    pub fn found(
        environment: &BTreeMap<String, OsString>,
        home: Option<&Path>,
        workdir: &Path,
    ) -> Self {
        let workdir = workdir.canonicalize().unwrap_or_else(|_| workdir.to_path_buf());
        let home = home.and_then(|home| home.canonicalize().ok());
        let is_fit = |path: &Path| {
            let is_around = home.as_deref().is_some_and(|home| home.starts_with(path));
            !is_around && !path.starts_with(&workdir) && path.components().count() > 2
        };
        let mut found = Self::default();
        for known in known::ALL {
            if let Some(root) = known.root(environment, home.as_deref())
                && is_fit(&root)
            {
                found.add(known, &root, is_fit);
            }
        }
        if let Some((name, value)) = maven::options(&found.found) {
            found.variables.insert(name.to_owned(), value);
        }
        for (name, value) in environment {
            if let (true, Some(text)) = (known::is_setting(name, value), value.to_str()) {
                found.variables.insert(name.clone(), text.to_owned());
            }
        }
        let path = environment.get("PATH").cloned().unwrap_or_default();
        let folders: Vec<PathBuf> = path::of_user(&path, &workdir);
        for folder in &folders {
            if let Some(package) = path::package(folder).filter(|it| is_fit(it)) {
                found.show(package);
            }
        }
        found.path = folders.into_iter().filter(|it| found.shows(it)).collect();
        if let Some((name, folder)) = node::headers(&found.path)
            && let (true, Some(folder)) = (found.shows(&folder.join("include")), folder.to_str())
        {
            found.variables.insert(name.to_owned(), folder.to_owned());
        }
        found
    }

    fn add(&mut self, known: &Known, root: &Path, is_fit: impl Fn(&Path) -> bool) {
        self.found.push((known.name, root.to_path_buf()));
        for part in known.parts {
            let part = if part.is_empty() { root.to_path_buf() } else { root.join(part) };
            if part.canonicalize().is_ok_and(|real| is_fit(&real)) {
                self.show(part);
            }
        }
        for (name, part) in known.variables {
            let value = if part.is_empty() { root.to_path_buf() } else { root.join(part) };
            if let (true, Some(value)) = (value.exists(), value.to_str()) {
                self.variables.insert((*name).to_owned(), value.to_owned());
            }
        }
    }

    fn show(&mut self, path: PathBuf) {
        let is_seen = SYSTEM.iter().any(|system| path.starts_with(system));
        if !is_seen && !self.read.contains(&path) {
            self.read.push(path);
        }
    }

    /// Returns `true` if a folder is in the sandbox: as a part of what is shown, or around a program that is.
    fn shows(&self, folder: &Path) -> bool {
        let is_system = SYSTEM.iter().any(|system| folder.starts_with(system));
        is_system
            || self
                .read
                .iter()
                .any(|it| folder.starts_with(it) || (it.is_file() && it.parent() == Some(folder)))
    }

    /// Adds the toolchains to a policy. Existing values of the policy are kept.
    pub fn extend(&self, mut policy: SandboxPolicy) -> SandboxPolicy {
        for path in &self.read {
            if !policy.read_paths.contains(path) {
                policy.read_paths.push(path.clone());
            }
        }
        let path = path::joined(&self.path);
        let values = &mut policy.environment.values;
        for (name, value) in self.variables.iter().map(|(name, value)| (name.as_str(), value)) {
            values.entry(name.to_owned()).or_insert_with(|| value.clone());
        }
        values.entry("PATH".to_owned()).or_insert(path);
        policy
    }
}

#[cfg(test)]
mod tests;
