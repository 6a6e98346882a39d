//! The capabilities of the built-in agent, and what every agent gets.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use loopwright_agent::Definitions as _;
use loopwright_capabilities::files::WorkspaceRoot;
use loopwright_capabilities::skills::SkillAudience;
use loopwright_templates::{FolderInstructions, ProjectInstructions};

use super::{StartError, Startup};
use crate::agent::Setup;
use crate::args::AgentArgs;
use crate::claude_settings::shared_settings;
use crate::config::Discovery;
use crate::console;
use crate::definitions::Defined;
use crate::loaded::LoadedParts;
use crate::mcp_servers::user_file;
use crate::model;
use crate::own_paths::OwnPaths;
use crate::permissions::{RunPermissions, hooks_file};
use crate::project::project_root;
use crate::project_settings::ProjectSettings;

impl Startup {
    /// Finds what the program's own agent may use: skills of a project only if the user trusts it.
    pub(super) fn own(&self, project: &ProjectSettings) -> Result<Option<Defined>, StartError> {
        if self.applied.is_some() {
            return Ok(None);
        }
        let providers = model::providers(&self.config, &self.sources)?;
        let defined = Defined::find(&self.config, &self.sources, &providers).with_settings_of(
            &self.config,
            &self.sources,
            Some(project),
        );
        let is_trusted = project.is_trusted();
        Ok(Some(if is_trusted { defined } else { defined.without_project_skills(&self.sources) }))
    }

    /// Lists what was found for an agent.
    pub(super) fn loaded(&self, setup: &Setup, project: &ProjectSettings) -> LoadedParts {
        let (config, sources) = (&self.config, &self.sources);
        let shared = shared_settings(sources).into_iter().map(|it| it.path);
        let own = hooks_file(sources).into_iter().chain(user_file(sources)).chain(shared);
        let own = own.filter(|it| it.is_file());
        let defined = setup.defined();
        let agents = defined.map(|it| it.agents.all()).unwrap_or_default();
        let policy = setup.permissions.policy();
        let skills = defined.map(|it| it.skills.list(SkillAudience::Models)).unwrap_or_default();
        let skills = skills.iter().filter(|it| policy.denies_skill(it.name()).is_none());
        let servers = setup.mcp.clients().iter();
        LoadedParts {
            folders: setup.workdir.folders().map(Path::to_path_buf).collect(),
            config: config.user_file.iter().map(|it| it.to_path_buf()).chain(own).collect(),
            project: project.paths().map(Path::to_path_buf).collect(),
            is_project_trusted: project.is_trusted(),
            instructions: setup.project.paths().map(Path::to_path_buf).collect(),
            agents: agents.iter().map(|it| it.name.clone()).collect(),
            skills: skills.map(|it| it.name().to_owned()).collect(),
            mcp_servers: servers.map(|it| it.server().name.clone()).collect(),
            hooks: setup.all_hooks().count(),
        }
    }

    /// Returns what folders of the project tell agents that use their files. Files that tools cannot read, such as those that rules
    /// deny, and files that are no part of the repository, tell nothing.
    pub(super) fn folder_instructions(
        &self,
        agent: &AgentArgs,
        permissions: &RunPermissions,
    ) -> Option<FolderInstructions> {
        if agent.no_agents_md || self.sources.discovery == Discovery::Nothing {
            return None;
        }
        let workdir = &self.config.workdir;
        let root = project_root(workdir);
        let root = root.canonicalize().unwrap_or(root);
        let files = self.readable(&root, permissions)?;
        let is_read = move |path: &Path| {
            let below = path.strip_prefix(files.path()).ok();
            // Notes that are not shared, such as `CLAUDE.local.md`, are excluded themselves.
            let folder = below.and_then(Path::parent);
            let is_own = folder.is_some_and(|folder| !files.excludes(folder));
            is_own && can_read(&files, path)
        };
        let folders = FolderInstructions::new(&root, workdir).with_filter(is_read);
        Some(folders.with_on_warning(|warning| console::warn(warning)))
    }

    /// Returns the files of the project as file tools read them. `None` means that no file of it can be read.
    fn readable(&self, root: &Path, permissions: &RunPermissions) -> Option<WorkspaceRoot> {
        let files = WorkspaceRoot::new(root).with_access(Arc::new(permissions.shared().clone()));
        OwnPaths::of(&self.config, &self.sources).keep_from(files).ok()
    }

    /// Finds what the user and the project tell every agent, and says what is odd about it. Files of the project that tools
    /// cannot read tell nothing.
    pub(super) fn project(
        &self,
        agent: &AgentArgs,
        permissions: &RunPermissions,
    ) -> ProjectInstructions {
        if agent.no_agents_md || self.sources.discovery == Discovery::Nothing {
            return ProjectInstructions::default();
        }
        let workdir = &self.config.workdir;
        let root = project_root(workdir);
        let mut found = ProjectInstructions::find(&root, workdir);
        let files = self.readable(&root, permissions);
        let is_read = |path: &Path| files.as_ref().is_some_and(|files| can_read(files, path));
        found.texts.retain(|(path, _)| is_read(path));
        let found = match &self.sources.home {
            Some(home) => {
                let own = self.sources.own_directory();
                let directories: Vec<PathBuf> =
                    own.into_iter().chain([home.join(".claude")]).collect();
                found.with_user_dirs(home, &directories)
            }
            None => found,
        };
        for warning in &found.warnings {
            console::warn(warning);
        }
        found
    }
}

/// Returns `true` if file tools can read a file: no rule denies it or a link on the way to it, and the configuration does not hide it.
fn can_read(files: &WorkspaceRoot, path: &Path) -> bool {
    let below = path.strip_prefix(files.path()).ok().and_then(Path::to_str);
    below.is_some_and(|below| files.read_bytes(below, 0).is_ok())
}
