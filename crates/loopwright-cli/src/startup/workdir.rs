//! The directory that an agent works in.

use loopwright_capabilities::files::WorkspaceRoot;

use super::{StartError, Startup};
use crate::own_paths::OwnPaths;
use crate::permissions::RunPermissions;
use crate::tools;

impl Startup {
    /// Returns the directory that agents work in, with the folders that they use besides it, and without what this
    /// program keeps for its user.
    pub(crate) fn workdir(
        &self,
        permissions: &RunPermissions,
    ) -> Result<WorkspaceRoot, StartError> {
        let workdir = tools::workdir(&self.config.workdir).map_err(StartError::usage)?;
        let added = permissions.added_folders()?;
        let workdir = added.iter().fold(workdir, WorkspaceRoot::with_folder);
        let own = OwnPaths::of(&self.config, &self.sources).with_settings(permissions.hook_files());
        own.keep_from(workdir).map_err(StartError::usage)
    }
}
