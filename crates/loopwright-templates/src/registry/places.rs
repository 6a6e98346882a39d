//! The search path of definitions.

use std::fmt;
use std::path::{Path, PathBuf};

/// The search path of definitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct DefinitionPaths(Vec<(DefinitionScope, PathBuf)>);

/// The scope of definitions, in ascending order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DefinitionScope {
    /// Definitions of a program or a package.
    Package,
    /// Definitions of the current project.
    Project,
    /// Definitions of the user.
    User,
}

impl DefinitionPaths {
    /// The directories of a project, relative to its root; the last one takes precedence.
    pub const PROJECT: [&str; 2] = [".claude/agents", Self::OWN];

    /// The one of them that belongs to this program.
    pub const OWN: &str = ".loopwright/agents";

    /// Creates an empty search path.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the two directories of a project, `.claude/agents` and `.loopwright/agents`; the second
    /// one takes precedence. Use it only for projects whose authors may define agents.
    pub fn with_project(self, root: impl AsRef<Path>) -> Self {
        let directories = Self::PROJECT.map(|it| root.as_ref().join(it));
        directories
            .into_iter()
            .fold(self, |places, it| places.with_dir(DefinitionScope::Project, it))
    }

    /// Adds a directory of the user.
    pub fn with_user_dir(self, directory: impl Into<PathBuf>) -> Self {
        self.with_dir(DefinitionScope::User, directory)
    }

    /// Adds a directory of a package.
    pub fn with_package_dir(self, directory: impl Into<PathBuf>) -> Self {
        self.with_dir(DefinitionScope::Package, directory)
    }

    /// Adds a directory. Within a scope, later directories take precedence.
    pub fn with_dir(mut self, scope: DefinitionScope, directory: impl Into<PathBuf>) -> Self {
        self.0.push((scope, directory.into()));
        self.0.sort_by_key(|(scope, _)| *scope);
        self
    }

    /// Returns the directories, in ascending order of precedence.
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
