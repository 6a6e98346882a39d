//! The files that rules come from, and rules that are read again when one of them changes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use loopwright_capabilities::skills::SkillGrants;
use loopwright_permissions::{Decision, Policy};

use super::{SettingsFiles, grants};
use crate::claude_settings::{SharedSettings, UNSET, UNWANTED, shared_files, shared_settings};
use crate::config::{
    Config, ConfigError, ConfigSources, Flags, Loaded, PermissionLayers, permission_files,
};
use crate::console;
use crate::folders::{self, FoldersError};
use crate::project_settings::{ProjectSettings, claude_files};
use crate::render::{count, sanitize_terminal};
use crate::untrusted::{UNTRUSTED, Untrusted};

/// The settings that rules come from, as they were read last.
#[derive(Debug)]
pub(super) struct ReadSettings {
    /// That of the run, with the permissions that the files have now.
    pub(super) config: Config,
    pub(super) project: Arc<ProjectSettings>,
    /// Those of Claude Code for all projects.
    pub(super) for_all_projects: Vec<SharedSettings>,
    /// The calls that skills allow while they are active.
    pub(super) grants: SkillGrants,
    /// The files before they were read.
    files: FileStamps,
}

/// Why settings cannot be read again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReloadError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Folders(#[from] FoldersError),
}

/// What is different since settings were read again: lines for the user, and warnings.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Reloaded {
    pub(crate) lines: Vec<String>,
    pub(crate) warnings: Vec<String>,
}

impl ReadSettings {
    /// Takes what a run has read of its project. The other files are read.
    pub(super) fn of(
        config: &Config,
        sources: &ConfigSources,
        project: &Arc<ProjectSettings>,
    ) -> Self {
        let files = FileStamps::of(config, sources);
        Self {
            config: config.clone(),
            project: Arc::clone(project),
            for_all_projects: shared_settings(sources),
            grants: grants(sources, project),
            files,
        }
    }

    /// Returns the files of settings with rules.
    pub(super) fn files(&self) -> SettingsFiles<'_> {
        SettingsFiles { project: &self.project, for_all_projects: &self.for_all_projects }
    }

    /// Returns `true` if a file has changed since it was read.
    pub(super) fn is_outdated(&self, sources: &ConfigSources) -> bool {
        self.files != FileStamps::of(&self.config, sources)
    }

    /// Reads all files again.
    ///
    /// # Errors
    ///
    /// Returns an error if one of them stops a run at its start.
    pub(super) fn again(&self, sources: &ConfigSources) -> Result<Self, ReloadError> {
        let files = FileStamps::of(&self.config, sources);
        let usual = sources.user_file();
        let named = self.config.user_file.as_deref().filter(|it| usual.as_deref() != Some(*it));
        let flags = Flags {
            workdir: self.config.workdir.clone(),
            config: named.map(Path::to_path_buf),
            ..Flags::default()
        };
        let Loaded { config: now, .. } = Config::load(flags, sources)?;
        let permissions = PermissionLayers {
            project: now.permissions.project,
            user: now.permissions.user,
            ..self.config.permissions.clone()
        };
        let (user_file, project_file) = (now.user_file, now.project_file);
        let config = Config { user_file, project_file, permissions, ..self.config.clone() };
        let project = ProjectSettings::find(&config, sources)?;
        Ok(Self {
            for_all_projects: shared_settings(sources),
            grants: grants(sources, &project),
            project: Arc::new(project),
            config,
            files,
        })
    }

    /// Returns what the policy of these settings changes in that of earlier ones. `review` is what reviews the settings of a
    /// project.
    pub(super) fn changes(
        &self,
        policy: &Policy,
        (before, was): (&Self, &Policy),
        sources: &ConfigSources,
        review: &str,
    ) -> Reloaded {
        let (now, then) = (rules_by_file(policy), rules_by_file(was));
        let files: BTreeSet<&str> = now.keys().chain(then.keys()).copied().collect();
        let changed = files.into_iter().filter(|file| now.get(file) != then.get(file));
        let mut lines: Vec<String> = changed
            .map(|file| {
                let rules = count(now.get(file).map_or(0, Vec::len) as u64, "rule");
                format!("permissions reloaded: {rules} from {}", sanitize_terminal(file))
            })
            .collect();
        if policy.mode() != was.mode() {
            lines.push(format!("permissions reloaded: mode `{}`", policy.mode()));
        }
        let known: BTreeSet<String> = was.warnings().iter().map(ToString::to_string).collect();
        let is_told = |message: &str| {
            ![UNTRUSTED, UNSET, UNWANTED].iter().any(|reason| message.ends_with(reason))
        };
        let new = policy.warnings().iter().filter(|it| it.ignored_key().is_none());
        let new = new.filter(|it| is_told(&it.message)).map(ToString::to_string);
        let mut warnings: Vec<String> = new.filter(|it| !known.contains(it)).collect();
        let untrusted = |settings: &Self, policy| {
            let Self { config, project, .. } = settings;
            let found = Untrusted::find(policy, config, sources, project);
            found.warning(&project.distrust(), review, false)
        };
        let ignored = untrusted(self, policy);
        if ignored != untrusted(before, was) {
            warnings.extend(ignored);
        }
        Reloaded { lines, warnings }
    }
}

impl Reloaded {
    /// Tells the user.
    pub(crate) fn tell(&self) {
        self.lines.iter().for_each(|line| console::interrupt(line));
        self.warnings.iter().for_each(|warning| console::warn(&sanitize_terminal(warning)));
    }
}

/// Returns the rules of each file or other source, in order.
fn rules_by_file(policy: &Policy) -> BTreeMap<&str, Vec<(Decision, &str)>> {
    let mut files: BTreeMap<&str, Vec<(Decision, &str)>> = BTreeMap::new();
    for rule in policy.rules() {
        files.entry(&*rule.file).or_default().push((rule.decision, rule.text.as_str()));
    }
    files
}

/// The files that rules come from, whether they exist or not, and what shows that one has changed.
#[derive(Debug, PartialEq, Eq)]
struct FileStamps(Vec<(PathBuf, Option<Stamp>)>);

#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    file: (u64, u64),
    size: u64,
    written: (i64, i64),
    /// Set by the kernel alone, so that a change with an old time of writing is seen, too.
    changed: (i64, i64),
}

impl FileStamps {
    fn of(config: &Config, sources: &ConfigSources) -> Self {
        let mut paths = permission_files(config, sources);
        paths.extend(folders::file(sources));
        paths.extend(claude_files(&config.workdir, sources));
        paths.extend(shared_files(sources).into_iter().map(|(_, path, _)| path));
        let stamped = |path: PathBuf| {
            let stamp = Stamp::of(&path);
            (path, stamp)
        };
        Self(paths.into_iter().map(stamped).collect())
    }
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        // A link that leads nowhere is settings that cannot be read.
        let found = fs::metadata(path).or_else(|_| fs::symlink_metadata(path)).ok()?;
        Some(Self {
            file: (found.dev(), found.ino()),
            size: found.len(),
            written: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }
}

#[cfg(test)]
mod tests;
