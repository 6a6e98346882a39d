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
mod user_caches;
mod venv;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

pub use self::caches::Caches;
pub use self::user_caches::UserCache;

use self::known::Known;
use self::venv::Venv;
use crate::policy::SandboxPolicy;
use crate::withheld::{ResolvedPath, SYSTEM};

/// The folder for the user's own programs, in the home.
const PROGRAMS: &str = ".local/bin";
/// The number of links in it that are shown.
const MAX_PROGRAMS: usize = 200;

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
    /// The user's caches, of which commands can have copies-on-write; see [`Caches::copy`].
    pub caches: Vec<UserCache>,
    /// A virtual environment in the working folder, which commands can change.
    of_project: Option<Venv>,
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
        found.caches = user_caches::find(&found.found, environment, home.as_deref());
        found.caches.retain(|cache| is_fit(&cache.folder));
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
        let venv = venv::find(environment, &workdir);
        let venv =
            venv.filter(|it| it.is_inside || (is_fit(&it.root) && path::is_closed(&it.root)));
        if let Some(venv) = &venv {
            found.found.push(("venv", venv.root.clone()));
            let installation = venv.installation(&folders).filter(|it| is_fit(it));
            let own = Some(venv.root.as_path()).filter(|_| !venv.is_inside);
            own.into_iter().chain(installation).for_each(|it| found.show(it.to_path_buf()));
        }
        for folder in &folders {
            if let Some(package) = path::package(folder).filter(|it| is_fit(it)) {
                found.show(package);
            }
        }
        if let Some(home) = &home {
            found.show_programs(&home.join(PROGRAMS));
        }
        found.path = folders.into_iter().filter(|it| found.shows(it)).collect();
        if let Some(venv) = &venv {
            found.activate(venv);
        }
        found.of_project = venv.filter(|it| it.is_inside);
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

    /// Puts the programs of a virtual environment before all others.
    fn activate(&mut self, venv: &Venv) {
        let programs = venv.programs();
        let is_text = |path: &Path| path.to_str().is_some_and(|it| !it.contains(':'));
        if let (true, Some(root)) = (is_text(&programs), venv.root.to_str()) {
            self.variables.insert(venv::VARIABLE.to_owned(), root.to_owned());
            self.path.retain(|it| *it != programs);
            self.path.insert(0, programs);
        }
    }

    /// Shows the links in a folder that lead to programs of found toolchains.
    fn show_programs(&mut self, folder: &Path) {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let links = entries.map(|it| it.path()).filter(|it| it.is_symlink());
        let is_shown = |it: &PathBuf| {
            it.canonicalize().is_ok_and(|real| {
                real.is_file() && self.read.iter().any(|shown| real.starts_with(shown))
            })
        };
        let mut links: Vec<PathBuf> = links.filter(is_shown).take(MAX_PROGRAMS).collect();
        links.sort_unstable();
        for link in links {
            self.show(link);
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

    /// Removes a virtual environment that the user has not activated, for commands that are not confined: its programs come from
    /// the working folder, and would replace those of the system.
    #[must_use]
    pub fn without_inactive_environment(mut self) -> Self {
        if let Some(venv) = self.of_project.take_if(|it| !it.is_active) {
            self.path.retain(|it| *it != venv.programs());
            self.found.retain(|(_, root)| *root != venv.root);
            self.variables.remove(venv::VARIABLE);
        }
        self
    }

    /// Puts programs in folders that commands can change, such as those of a virtual environment in the working folder, behind those
    /// of the system, for programs that the user has configured, such as hooks: commands must not replace `sh` or `jq` for these.
    /// The folders in `changeable` are without links.
    #[must_use]
    pub fn with_changeable_last(mut self, changeable: &[PathBuf]) -> Self {
        let is_in = |path: PathBuf| changeable.iter().any(|folder| path.starts_with(folder));
        // A link on the way can be changed as well as what it leads to.
        let is_changeable = |path: &PathBuf| ResolvedPath::of(path).into_all().any(is_in);
        let (last, first): (Vec<_>, Vec<_>) = self.path.into_iter().partition(is_changeable);
        self.path = first;
        if !last.is_empty() {
            self.path = path::with_system(&self.path);
            self.path.extend(last);
        }
        self
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
