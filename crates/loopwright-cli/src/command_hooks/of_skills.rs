//! Hooks of skills, which run while the skill is active.

use std::path::PathBuf;
use std::sync::Arc;

use loopwright_capabilities::skills::{Skill, SkillAudience, SkillLibrary, SkillScope};

use super::{CommandHook, HookEvent, read_events};
use crate::config::{ConfigSources, Discovery};
use crate::project_settings::ProjectSettings;
use crate::skill_folders::{Places, skills};

/// The hooks that one skill brings.
#[derive(Debug)]
pub(crate) struct SkillHooks {
    pub(crate) hooks: Vec<CommandHook>,
    pub(crate) warnings: Vec<String>,
    pub(crate) file: PathBuf,
    /// Whether the skill is one of the project.
    pub(crate) is_of_project: bool,
}

impl SkillHooks {
    /// Returns the hooks of each skill in a library that brings some. Blocks while it reads.
    pub(crate) fn of(library: &SkillLibrary) -> Vec<Self> {
        let all = library.list(SkillAudience::All);
        let bring = all.iter().filter(|it| !it.info.hooks.is_empty());
        bring.map(|skill| Self::of_skill(skill, library)).collect()
    }

    /// Returns the hooks of the skills that a project brings. Blocks while it reads.
    pub(crate) fn of_project(sources: &ConfigSources, project: &ProjectSettings) -> Vec<Self> {
        if sources.discovery == Discovery::Nothing {
            return Vec::new();
        }
        let mut found = Self::of(project.skills(sources));
        found.retain(|it| it.is_of_project);
        found
    }

    fn of_skill(skill: &Skill, library: &SkillLibrary) -> Self {
        let name: Arc<str> = skill.name().into();
        let file = library.file(&name).unwrap_or_default();
        let is_of_project = library.scope(&name) == Some(SkillScope::Project);
        let is_known = |event: &str| HookEvent::of_agents().any(|known| known == event);
        let (known, others): (Vec<_>, Vec<_>) =
            skill.info.hooks.iter().partition(|(event, _)| is_known(event));
        let events = known.into_iter().map(|(event, hooks)| (event.clone(), hooks.clone()));
        let (hooks, mut warnings) = read_events(&file, &events.collect());
        warnings.extend(others.iter().map(|(event, _)| {
            format!("{}: hooks for the event `{event}` are not supported", file.display())
        }));
        let of_skill = |hook| CommandHook { skill: Some(Arc::clone(&name)), ..hook };
        Self { hooks: hooks.into_iter().map(of_skill).collect(), warnings, file, is_of_project }
    }
}

/// Returns the hooks of the skills that a run can use: those of a project only if it is trusted. Blocks while it reads.
pub(crate) fn skill_hooks(sources: &ConfigSources, project: &ProjectSettings) -> Vec<SkillHooks> {
    if sources.discovery == Discovery::Nothing {
        return Vec::new();
    }
    if project.is_trusted() {
        return SkillHooks::of(project.skills(sources));
    }
    SkillHooks::of(&skills(&project.root, sources, Places::User))
}
