//! The folders in which a worker may work, regardless of the database.
//!
//! Any process that can write to the database can name any folder. So a worker works only below folders that its user
//! allowed, and never in one that holds more than a project.

use std::path::{Path, PathBuf};

use loopwright_sandbox::BroadFolder;
use loopwright_sessions::SessionHeader;

use crate::project::real_dir;
use crate::session::SessionsError;

/// The folders below which a worker may work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WorkerRoots {
    /// Without links.
    roots: Vec<PathBuf>,
    home: Option<PathBuf>,
}

impl WorkerRoots {
    /// Takes folders, which have to exist.
    ///
    /// # Errors
    ///
    /// Returns an error if one of them is not a folder that can be reached.
    pub(crate) fn new<'a>(
        roots: impl IntoIterator<Item = &'a Path>,
        home: Option<&Path>,
    ) -> Result<Self, SessionsError> {
        let real = |path: &Path| {
            let unusable = |source| SessionsError::WorkerRoot { path: path.to_owned(), source };
            real_dir(path).map_err(unusable)
        };
        let roots = roots.into_iter().map(real).collect::<Result<_, _>>()?;
        Ok(Self { roots, home: home.and_then(|it| it.canonicalize().ok()) })
    }

    /// Names them, with commas between them.
    pub(crate) fn names(&self) -> String {
        self.roots.iter().map(|it| it.display().to_string()).collect::<Vec<_>>().join(", ")
    }

    /// Checks the folder that a session works in.
    ///
    /// # Errors
    ///
    /// Returns an error if it is in none of the folders, or holds more than a project.
    pub(crate) fn check(&self, header: &SessionHeader, folder: &Path) -> Result<(), SessionsError> {
        let (id, path) = (|| header.id.clone(), || folder.to_owned());
        // A link leads to where it is worked.
        let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        if self.is_broad(&real) {
            return Err(SessionsError::Broad { id: id(), path: path() });
        }
        if self.roots.iter().any(|root| real.starts_with(root)) {
            return Ok(());
        }
        Err(SessionsError::OutsideRoots { id: id(), path: path(), roots: self.names() })
    }

    /// Returns `true` if a folder, without links, holds more than a project, or what the user keeps for programs.
    pub(crate) fn is_broad(&self, folder: &Path) -> bool {
        BroadFolder::of(folder, self.home.as_deref()).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homes_folders_of_the_system_and_hidden_folders_of_the_home_are_broad() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let roots = WorkerRoots::new([home.as_path()], Some(&home)).unwrap();
        let refused = ["/", "/etc", "/etc/cron.d", "/home", "/proc/self", "/tmp", "/usr", "/var"];
        for folder in refused {
            assert!(roots.is_broad(Path::new(folder)), "{folder}");
        }
        assert!(roots.is_broad(&home));
        assert!(roots.is_broad(home.parent().unwrap()));
        assert!(roots.is_broad(&home.join(".ssh")));
        assert!(roots.is_broad(&home.join(".config/loopwright/agents")));
        assert!(!roots.is_broad(&home.join("project")));
        assert!(!roots.is_broad(&home.join("project/.hidden")));
        assert!(!roots.is_broad(Path::new("/srv/project")));
    }

    #[test]
    fn a_root_is_a_folder() {
        let error = WorkerRoots::new([Path::new("/nowhere at all")], None).unwrap_err();
        assert!(error.to_string().contains("/nowhere at all"), "{error}");
    }
}
