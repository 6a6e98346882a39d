//! Warnings about skill files.

use std::fmt;
use std::path::PathBuf;

/// A warning about a skill file, for its author. Warnings do not fail an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillWarning {
    /// The file.
    pub path: PathBuf,
    /// The problem.
    pub problem: SkillProblem,
}

impl fmt::Display for SkillWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.problem)
    }
}

/// A problem of a skill file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SkillProblem {
    /// The file cannot be read, so the skill is skipped.
    #[error("the skill is skipped: the file cannot be read: {0}")]
    Unreadable(String),
    /// The directory is a link that leads outside the project.
    #[error("the skill is skipped: its directory is a link that leads outside the project")]
    Outside,
    /// The front matter is not YAML. The skill is skipped, because its restrictions are unknown.
    #[error("the skill is skipped: its front matter is not valid YAML: {0}")]
    BadFrontMatter(String),
    /// A restricting key has a value of the wrong type. The skill is skipped.
    #[error("the skill is skipped: `{key}` must be {expected}")]
    BadRestriction {
        /// The key.
        key: &'static str,
        /// The expected value.
        expected: &'static str,
    },
    /// Another skill of the same name takes precedence.
    #[error("the skill is skipped: `{}` has the same name and takes precedence", .by.display())]
    Shadowed {
        /// The file that takes precedence.
        by: PathBuf,
    },
    /// The front matter is missing; the name is that of the directory.
    #[error("no front matter; start the file with `---`, `name:` and `description:`")]
    NoFrontMatter,
    /// The YAML could be parsed only with quotes around its values.
    #[error("a value with a colon needs quotes; it was read as a quoted value")]
    Quoted,
    /// A key has a value of the wrong type, which is ignored.
    #[error("`{key}` is ignored: it must be {expected}")]
    WrongType {
        /// The key.
        key: &'static str,
        /// The expected value.
        expected: &'static str,
    },
    /// A key of another program is not supported. It is ignored.
    #[error("`{key}` is ignored: not supported")]
    Unsupported {
        /// The key.
        key: &'static str,
    },
    /// A restricting key of another program is not supported. The skill is skipped.
    #[error("the skill is skipped: the restriction `{key}` is not supported; use `allowed-tools`")]
    UnsupportedRestriction {
        /// The key.
        key: &'static str,
    },
    /// The name violates the format.
    #[error(
        "invalid name `{0}`; use 1 to 64 characters: a-z, 0-9, and single hyphens between them"
    )]
    BadName(String),
    /// The name differs from that of the directory.
    #[error("the name `{name}` must match the directory name `{directory}`")]
    NameMismatch {
        /// The name.
        name: String,
        /// The name of the directory.
        directory: String,
    },
    /// The description is missing, so models do not see the skill.
    #[error("no description; models do not see this skill")]
    NoDescription,
    /// A text is longer than the format allows.
    #[error("`{key}` has {length} characters; at most {most} are allowed")]
    TooLong {
        /// The key.
        key: &'static str,
        /// The size.
        length: usize,
        /// The maximum length.
        most: usize,
    },
    /// The model is an alias of another program. The agent's model stays.
    #[error(
        "`model` does not select a model: `{0}` is a model name from another program; write `provider/model`"
    )]
    ForeignModel(String),
    /// The skill names an agent, but runs in the conversation that loads it.
    #[error("`agent` is ignored: it requires `context: fork`")]
    AgentWithoutFork,
    /// A directory has more entries than are read.
    #[error("only the first {0} entries of the directory are read")]
    TooMany(usize),
}

impl SkillProblem {
    /// Returns `true` if the skill is skipped because of it.
    pub fn is_fatal(&self) -> bool {
        matches!(
            self,
            Self::Unreadable(_)
                | Self::BadFrontMatter(_)
                | Self::BadRestriction { .. }
                | Self::UnsupportedRestriction { .. }
                | Self::Shadowed { .. }
        )
    }
}
