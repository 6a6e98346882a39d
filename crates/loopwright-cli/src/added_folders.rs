//! Folders that the tools of a run use besides its working directory.

use std::path::{Path, PathBuf};

use loopwright_permissions::Policy;
use loopwright_sandbox::{BroadFolder, key_paths};

use crate::config::{Config, ConfigSources};
use crate::own_paths::{OwnPaths, without_links};

/// The folders that a policy adds, and those that cannot be added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AddedFolders {
    /// The paths without links.
    pub(crate) usable: Vec<PathBuf>,
    /// Those of settings that cannot be used, which are reported.
    pub(crate) ignored: Vec<AddedFolderError>,
    /// The first of those that were typed.
    pub(crate) refused: Option<AddedFolderError>,
}

/// Why a folder cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AddedFolderError {
    #[error("the folder {} cannot be added: {reason}", path.display())]
    Unusable { path: PathBuf, reason: String },
    #[error(
        "the folder {} was not added: it is broader than a single project; add a folder inside it",
        path.display()
    )]
    Broad { path: PathBuf },
    #[error(
        "the folder {} was not added: Loopwright keeps its settings and sessions there",
        path.display()
    )]
    Own { path: PathBuf },
    #[error("the folder {} was not added: it contains keys or credentials, which agents cannot read", path.display())]
    Keys { path: PathBuf },
}

impl AddedFolders {
    /// Looks at the folders of a policy.
    pub(crate) fn of(policy: &Policy, config: &Config, sources: &ConfigSources) -> Self {
        let typed = config.permissions.typed.folders.as_ref();
        let is_typed = |path: &Path| {
            typed.is_some_and(|it| it.value.0.iter().any(|typed| Path::new(typed) == path))
        };
        let mut found = Self::default();
        for path in policy.folders().into_iter().map(PathBuf::from) {
            match usable(&path, config, sources) {
                Ok(real) if real == config.workdir || found.usable.contains(&real) => {}
                Ok(real) => found.usable.push(real),
                Err(error) if is_typed(&path) => found.refused = found.refused.or(Some(error)),
                Err(error) => found.ignored.push(error),
            }
        }
        found
    }
}

/// Returns the path of a folder without links, if it can be added.
pub(crate) fn usable(
    path: &Path,
    config: &Config,
    sources: &ConfigSources,
) -> Result<PathBuf, AddedFolderError> {
    let unusable = |reason: String| AddedFolderError::Unusable { path: path.into(), reason };
    let real = path.canonicalize().map_err(|error| unusable(error.to_string()))?;
    if !real.is_dir() {
        return Err(unusable("not a directory".to_owned()));
    }
    if OwnPaths::of(config, sources).contain(&real) {
        return Err(AddedFolderError::Own { path: path.into() });
    }
    let home = sources.home.as_ref().and_then(|it| it.canonicalize().ok());
    // What is inside a system folder or a hidden folder of the home can be added: it was named.
    if BroadFolder::of(&real, home.as_deref()) == Some(BroadFolder::Several) {
        return Err(AddedFolderError::Broad { path: path.into() });
    }
    if key_paths(home.as_deref()).any(|it| real.starts_with(without_links(&it))) {
        return Err(AddedFolderError::Keys { path: path.into() });
    }
    Ok(real)
}
