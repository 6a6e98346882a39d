//! The directory that an agent works in.

use std::path::PathBuf;

use loopwright_capabilities::files::WorkspaceRoot;

use super::{StartError, Startup};
use crate::exit::ExitCode;
use crate::permissions::RunPermissions;
use crate::store::{StoreLocation, state_directory};
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
        Ok(self.without_own(added.iter().fold(workdir, WorkspaceRoot::with_folder)))
    }

    /// Keeps an agent from what this program keeps for its user, where it lies in a folder that the agent
    /// uses.
    fn without_own(&self, workdir: WorkspaceRoot) -> WorkspaceRoot {
        let mut own: Vec<PathBuf> = state_directory(&self.sources).into_iter().collect();
        own.extend(self.sources.home.as_ref().map(|home| home.join(".config/loopwright")));
        match StoreLocation::of(&self.config, &self.sources) {
            Ok(StoreLocation::Files(directory)) => own.push(directory),
            Ok(StoreLocation::Sqlite(file)) => {
                own.extend(["", "-wal", "-shm", "-acknowledged"].map(|end| {
                    let mut name = file.clone().into_os_string();
                    name.push(end);
                    name.into()
                }));
            }
            _ => {}
        }
        own.iter().fold(workdir, |workdir, path| {
            let real = path.canonicalize().unwrap_or_else(|_| path.clone());
            let roots: Vec<_> = std::iter::once(workdir.path()).chain(workdir.folders()).collect();
            let below = roots.into_iter().filter_map(|it| real.strip_prefix(it).ok()?.to_str());
            let below: Vec<_> = below.filter(|it| !it.is_empty()).map(str::to_owned).collect();
            below.iter().fold(workdir, |workdir, below| workdir.protect(below))
        })
    }
}
