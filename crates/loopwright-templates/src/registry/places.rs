//! Where definitions are looked for.

use std::fmt;
use std::path::{Path, PathBuf};

/// Where definitions are looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct DefinitionPaths(Vec<(DefinitionScope, PathBuf)>);

/// Whose definitions they are; what comes later counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DefinitionScope {
    /// Those that come with a program or a package.
    Package,
    /// Those of the project that is worked on.
    Project,
    /// Those of the user.
    User,
}

impl DefinitionPaths {
    /// The directories of a project, from its root, of which the last counts.
    pub const PROJECT: [&str; 2] = [".claude/agents", Self::OWN];

    /// The one of them that is no other program's.
    pub const OWN: &str = ".loopwright/agents";

    /// Looks nowhere.
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks in the two directories of a project, `.claude/agents` and `.loopwright/agents`, of which
    /// the second counts. Give it only projects whose authors may say what agents do.
    pub fn project(self, root: impl AsRef<Path>) -> Self {
        let directories = Self::PROJECT.map(|it| root.as_ref().join(it));
        directories
            .into_iter()
            .fold(self, |places, it| places.with_dir(DefinitionScope::Project, it))
    }

    /// Looks in a directory of the user.
    pub fn user(self, directory: impl Into<PathBuf>) -> Self {
        self.with_dir(DefinitionScope::User, directory)
    }

    /// Looks in a directory of a package.
    pub fn package(self, directory: impl Into<PathBuf>) -> Self {
        self.with_dir(DefinitionScope::Package, directory)
    }

    /// Looks in a directory. Within a scope, what was added later counts.
    pub fn with_dir(mut self, scope: DefinitionScope, directory: impl Into<PathBuf>) -> Self {
        self.0.push((scope, directory.into()));
        self.0.sort_by_key(|(scope, _)| *scope);
        self
    }

    /// Returns the directories; what comes later counts.
    pub fn iter(&self) -> impl Iterator<Item = (DefinitionScope, &Path)> {
        self.0.iter().map(|(scope, directory)| (*scope, directory.as_path()))
    }
}

impl fmt::Display for DefinitionScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Package => "package",
            Self::User => "user",
            Self::Project => "project",
        })
    }
}
