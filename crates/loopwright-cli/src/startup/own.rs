//! What the program's own agent may use.

use super::{StartError, Startup};
use crate::agent::Setup;
use crate::definitions::Defined;
use crate::folders::FoldersError;
use crate::loaded::LoadedParts;
use crate::model;
use crate::permissions::ProjectSettings;

impl Startup {
    /// Finds what the program's own agent may use: skills of a project only if the user trusts it.
    pub(super) fn own(&self) -> Result<Option<Defined>, StartError> {
        if self.applied.is_some() {
            return Ok(None);
        }
        let providers = model::providers(&self.config, &self.sources)?;
        let defined = Defined::find(&self.config, &self.sources, &providers)
            .with_settings(&self.config, &self.sources);
        let project = ProjectSettings::find(&self.config, &self.sources)?;
        let is_trusted = project.is_trusted();
        Ok(Some(if is_trusted { defined } else { defined.without_project_skills(&self.sources) }))
    }

    /// Lists what was found for an agent.
    pub(super) fn loaded(&self, setup: &Setup) -> Result<LoadedParts, FoldersError> {
        let project = ProjectSettings::find(&self.config, &self.sources)?;
        let defined = setup.own.as_ref().or(setup.applied.as_ref().map(|it| &it.defined));
        Ok(LoadedParts::of(&self.config, &self.sources, &project)
            .with_defined(defined)
            .with_shared(&setup.project, &setup.mcp, &setup.permissions))
    }
}
