//! The directory that an agent works in.

use loopwright_capabilities::files::WorkspaceRoot;

use super::{StartError, Startup};
use crate::config::{Config, ConfigSources};
use crate::exit::ExitCode;
use crate::permissions::RunPermissions;
use crate::store::own_paths;
use crate::tools;

impl Startup {
    /// Returns the directory that agents work in, with the folders that they use besides it.
    pub(crate) fn workdir(
        &self,
        permissions: &RunPermissions,
    ) -> Result<WorkspaceRoot, StartError> {
        let workdir = tools::workdir(&self.config.workdir).map_err(|error| StartError {
            error: error.into(),
            exit_code: ExitCode::Usage,
            stop_reason: "usage",
        })?;
        let added = permissions.added_folders()?;
        let workdir = added.iter().fold(workdir, WorkspaceRoot::with_folder);
        Ok(without_own(workdir, &self.config, &self.sources))
    }
}

/// Keeps an agent from what this program keeps for its user, where it lies in a folder that the agent
/// uses.
pub(crate) fn without_own(
    workdir: WorkspaceRoot,
    config: &Config,
    sources: &ConfigSources,
) -> WorkspaceRoot {
    own_paths(config, sources).iter().fold(workdir, |workdir, real| {
        let roots: Vec<_> = std::iter::once(workdir.path()).chain(workdir.folders()).collect();
        let below = roots.into_iter().filter_map(|it| real.strip_prefix(it).ok()?.to_str());
        let below: Vec<_> = below.filter(|it| !it.is_empty()).map(str::to_owned).collect();
        below.iter().fold(workdir, |workdir, below| workdir.protect(below))
    })
}
