//! What this program keeps for its user, and how agents are kept away from it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use loopwright_capabilities::files::WorkspaceRoot;
use loopwright_sandbox::transaction::temporary_staging;
use loopwright_sandbox::{BroadFolder, ResolvedPath, SandboxPolicy, key_paths};

use crate::config::{Config, ConfigSources};
use crate::project::{WORKTREES, repository};
use crate::store::{StoreLocation, state_directory};

/// The reason for the model.
const REASON: &str = "Loopwright keeps its settings and sessions there";

/// The same for paths that the configuration hides.
const HIDDEN: &str = "`sandbox.hide` in the configuration includes this path";

/// The same for keys and credentials.
const KEYS: &str = "it contains keys or credentials, which agents cannot read";

/// The number of files of the user's settings in which links are looked for.
const MAX_FILES: usize = 10_000;

/// The paths of this program, absolute and without links as far as they exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnPaths {
    /// Settings and sessions, which agents neither read nor change.
    kept: Vec<PathBuf>,
    /// What is elsewhere and takes part in the settings: a configuration file that was named, the targets of links, the
    /// links on the way, and scripts of hooks. Agents do not change it.
    settings: Vec<PathBuf>,
    /// What `sandbox.hide` names. File tools neither read nor change it; commands have it from [their settings](crate::commands).
    hidden: Vec<PathBuf>,
    /// Keys and credentials of the user and the system. Commands do not see them in a folder around them, and file tools nowhere.
    keys: Vec<PathBuf>,
    /// The user's home, without links.
    home: Option<PathBuf>,
}

/// A folder in which no agent works.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "agents cannot work in {}: Loopwright keeps its settings and sessions there; choose another folder with `-C`",
    path.display()
)]
pub(crate) struct OwnFolder {
    path: PathBuf,
}

impl OwnPaths {
    /// Finds what is kept for the user.
    pub(crate) fn of(config: &Config, sources: &ConfigSources) -> Self {
        let usual = sources.home.as_ref().map(|home| home.join(".config/loopwright"));
        let folders: BTreeSet<PathBuf> = sources.own_directory().into_iter().chain(usual).collect();
        let mut kept: Vec<PathBuf> = state_directory(sources).into_iter().collect();
        kept.extend(folders.iter().cloned());
        match StoreLocation::of(config, sources) {
            Ok(StoreLocation::Files(directory)) => kept.push(directory),
            Ok(StoreLocation::Sqlite(file)) => {
                kept.extend(["", "-wal", "-shm", "-acknowledged"].map(|end| {
                    let mut name = file.clone().into_os_string();
                    name.push(end);
                    name.into()
                }));
            }
            _ => {}
        }
        let mut links = Links::default();
        let staging = staging_folders(temporary_staging());
        let kept = kept.iter().map(|it| links.resolve(it)).chain(staging).collect();
        for folder in &folders {
            links.search(folder);
        }
        if let Some(file) = &config.user_file {
            let real = links.resolve(file);
            links.found.insert(real);
        }
        let hidden = config.sandbox.hide.iter();
        let hidden =
            hidden.flat_map(|it| it.value.to_paths(&config.workdir, sources.home.as_deref()));
        let hidden = hidden.map(|it| without_links(&it)).collect();
        let home = sources.home.as_ref().and_then(|it| it.canonicalize().ok());
        let keys = key_paths(home.as_deref()).flat_map(|it| [without_links(&it), it]);
        let keys = keys.collect::<BTreeSet<_>>().into_iter().collect();
        let mut own = Self { kept, settings: Vec::new(), hidden, keys, home };
        own.settings = links.found.into_iter().filter(|it| !own.is_kept(it)).collect();
        own
    }

    /// Adds files that take part in the settings: agents do not change them.
    pub(crate) fn with_settings(mut self, files: impl IntoIterator<Item = PathBuf>) -> Self {
        self.settings.extend(files);
        self
    }

    fn is_kept(&self, path: &Path) -> bool {
        self.kept.iter().any(|it| path.starts_with(it))
    }

    /// Returns `true` if a folder, by its path without links, is one of the paths or inside one.
    pub(crate) fn contain(&self, folder: &Path) -> bool {
        self.is_kept(folder) || self.settings.iter().any(|it| folder.starts_with(it))
    }

    /// Says why agents change nothing in a folder, by its path without links, and what to do about it. `None` means that it can be the
    /// folder of a project.
    pub(crate) fn broad(&self, folder: &Path) -> Option<String> {
        let broad = BroadFolder::of(folder, self.home.as_deref())?;
        let folder = folder.display();
        Some(format!(
            "{folder} {broad}, so agents cannot change files in it, and commands that could change them are refused; start in the \
                folder of a project, choose one with `-C FOLDER`, or add a folder with `--add-dir FOLDER`"
        ))
    }

    /// Keeps the tools of an agent away from the paths, and from changes in a folder that holds more than a project.
    ///
    /// # Errors
    ///
    /// Returns an error if the agent would work inside one of them.
    pub(crate) fn keep_from(&self, root: WorkspaceRoot) -> Result<WorkspaceRoot, OwnFolder> {
        let folders: Vec<PathBuf> =
            std::iter::once(root.path()).chain(root.folders()).map(Path::to_path_buf).collect();
        if let Some(path) = folders.iter().find(|it| self.contain(it)) {
            return Err(OwnFolder { path: path.clone() });
        }
        let below = |path: &Path| {
            let inside = folders.iter().filter_map(|it| path.strip_prefix(it).ok()?.to_str());
            inside.map(str::to_owned).collect::<Vec<_>>()
        };
        let mut root = root;
        for path in &self.kept {
            for name in below(path) {
                // What does not exist yet is not created either.
                root = root.protect(&name);
            }
            root = root.hide(path, REASON);
        }
        for path in self.settings.iter().filter(|it| !below(it).is_empty()) {
            root = path.to_str().into_iter().fold(root, WorkspaceRoot::protect);
        }
        let root = self.hidden.iter().fold(root, |root, path| root.hide(path, HIDDEN));
        let is_near = |key: &&PathBuf| {
            folders.iter().any(|folder| key.starts_with(folder) || folder.starts_with(key))
        };
        let keys = self.keys.iter().filter(is_near);
        let root = keys.fold(root, |root, path| root.hide(path, KEYS));
        let root = match self.broad(&folders[0]) {
            Some(reason) => root.with_read_only_directory(reason),
            None => root,
        };
        // A worktree has the same files by other paths.
        Ok(match repository(&folders[0]) {
            Some(repository) => root.with_copies(repository.join(WORKTREES), repository),
            None => root,
        })
    }

    /// Says why a path, which is without links, is hidden. `None` means that it is not one of the hidden paths, nor in one.
    pub(crate) fn hidden_by(&self, path: &Path) -> Option<&'static str> {
        let is_in = |paths: &[PathBuf]| paths.iter().any(|it| path.starts_with(it));
        if self.is_kept(path) {
            Some(REASON)
        } else if is_in(&self.hidden) {
            Some(HIDDEN)
        } else {
            is_in(&self.keys).then_some(KEYS)
        }
    }

    /// Keeps commands away from the paths, whatever the policy shows or is given later. What does not exist yet is not
    /// created either.
    pub(crate) fn confine(&self, policy: SandboxPolicy) -> SandboxPolicy {
        // What cannot be looked at may be there.
        let may_exist = |it: &&PathBuf| !matches!(it.try_exists(), Ok(false));
        let (hidden, missing): (Vec<&PathBuf>, _) = self.kept.iter().partition(may_exist);
        let policy = hidden.into_iter().fold(policy, SandboxPolicy::hide);
        let keys: Vec<_> = self.keys.iter().filter(|it| is_shown_around(&policy, it)).collect();
        let policy = keys.into_iter().fold(policy, SandboxPolicy::hide);
        missing.into_iter().chain(&self.settings).fold(policy, SandboxPolicy::protect)
    }
}

/// Returns `true` if a policy shows a path only because it shows a folder around it.
fn is_shown_around(policy: &SandboxPolicy, path: &Path) -> bool {
    let named = policy.read_paths.iter().chain(&policy.write_paths);
    policy.shows(path) && !named.into_iter().any(|it| it.starts_with(path))
}

/// Returns a path without links, as far as it exists.
pub(crate) fn without_links(path: &Path) -> PathBuf {
    ResolvedPath::of(path).real
}

/// Returns the folders for temporary files in which changes are staged, without links. Another user can put a link in the place of
/// one, in which nothing is staged then: what it leads to is not kept from agents. Nor are the links on the way, such as `/tmp`
/// itself: what they lead to may contain projects.
fn staging_folders(places: impl IntoIterator<Item = PathBuf>) -> impl Iterator<Item = PathBuf> {
    places.into_iter().filter(|it| !it.is_symlink()).map(|it| without_links(&it))
}

/// Links on the way to files, and what they lead to.
#[derive(Debug, Default)]
struct Links {
    found: BTreeSet<PathBuf>,
    searched: BTreeSet<PathBuf>,
}

impl Links {
    /// Returns a path without links, as far as it exists, and remembers the links on the way.
    fn resolve(&mut self, path: &Path) -> PathBuf {
        let ResolvedPath { real, links } = ResolvedPath::of(path);
        self.found.extend(links);
        real
    }

    /// Looks for links in a folder of settings and below, and in the folders that they lead to.
    fn search(&mut self, folder: &Path) {
        if self.searched.len() >= MAX_FILES || !self.searched.insert(folder.to_path_buf()) {
            return;
        }
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_symlink() {
                let target = self.resolve(&entry.path());
                self.found.insert(target.clone());
                self.search(&target);
            } else if kind.is_dir() {
                self.search(&entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::config::Flags;

    fn world() -> (tempfile::TempDir, PathBuf) {
        let home = tempfile::tempdir().unwrap();
        let real = home.path().canonicalize().unwrap();
        (home, real)
    }

    fn loaded(sources: &ConfigSources) -> Config {
        let flags = Flags { workdir: ".".into(), ..Flags::default() };
        Config::load(flags, sources).unwrap().config
    }

    fn own(home: &Path) -> OwnPaths {
        let sources =
            ConfigSources { home: Some(home.into()), cwd: home.into(), ..ConfigSources::default() };
        OwnPaths::of(&loaded(&sources), &sources)
    }

    #[test]
    fn links_of_the_settings_count_with_their_targets_and_the_links_on_the_way() {
        let (_home, home) = world();
        let at = |name: &str| home.join(name);
        for folder in [".config/loopwright/skills", "dotfiles/v1/agents"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        fs::write(at("dotfiles/v1/hooks.json"), "{}").unwrap();
        fs::write(at("elsewhere.md"), "").unwrap();
        symlink("v1", at("dotfiles/current")).unwrap();
        symlink(at("dotfiles/current/hooks.json"), at(".config/loopwright/hooks.json")).unwrap();
        symlink("../../dotfiles/v1/agents", at(".config/loopwright/agents")).unwrap();
        symlink("../../../elsewhere.md", at("dotfiles/v1/agents/a.md")).unwrap();
        symlink("hooks.json", at(".config/loopwright/mcp.json")).unwrap();
        let names = ["current", "v1/agents", "v1/agents/a.md", "v1/hooks.json"];
        let mut settings: Vec<_> = names.map(|it| at("dotfiles").join(it)).into();
        settings.push(at("elsewhere.md"));
        assert_eq!(own(&home).settings, settings);
    }

    #[test]
    fn a_link_in_place_of_a_staging_folder_keeps_agents_from_nothing() {
        let (_home, home) = world();
        fs::create_dir_all(home.join("scratch/staging")).unwrap();
        symlink("scratch", home.join("tmp")).unwrap();
        symlink(&home, home.join("scratch/hostile")).unwrap();
        let places = ["staging", "missing", "hostile"].map(|it| home.join("tmp").join(it));
        let found: Vec<_> = staging_folders(places).collect();
        assert_eq!(found, ["staging", "missing"].map(|it| home.join("scratch").join(it)));
    }

    #[test]
    fn folders_that_do_not_exist_are_found_through_the_links_on_the_way() {
        let (_home, home) = world();
        fs::create_dir_all(home.join("dotfiles/config")).unwrap();
        symlink("dotfiles/config", home.join(".config")).unwrap();
        let own = own(&home);
        assert!(own.kept.contains(&home.join("dotfiles/config/loopwright")), "{own:?}");
        assert!(own.contain(&home.join("dotfiles/config/loopwright/agents")));
        assert!(!own.contain(&home.join("dotfiles/config")));
        assert_eq!(own.settings, [home.join(".config")]);
    }
}
