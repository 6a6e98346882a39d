//! What is wrong with a skill's file.

use std::fmt;
use std::path::PathBuf;

/// Something about a skill's file that its author should know. Nothing of it fails an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillWarning {
    /// The file.
    pub path: PathBuf,
    /// What is the matter with it.
    pub problem: SkillProblem,
}

impl fmt::Display for SkillWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.problem)
    }
}

/// What is the matter with a skill's file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SkillProblem {
    /// It cannot be read, so there is no such skill.
    #[error("the skill is skipped: the file cannot be read: {0}")]
    Unreadable(String),
    /// Its directory is a link that leads out of the project.
    #[error("the skill is skipped: its directory is a link that leads out of the project")]
    Outside,
    /// The front matter is no YAML. The skill is left out, because what it forbids is not known.
    #[error("the skill is skipped: its front matter is not valid YAML: {0}")]
    BadFrontMatter(String),
    /// A key that restricts the skill has a value of the wrong kind. The skill is left out.
    #[error("the skill is skipped: `{key}` must be {expected}")]
    BadRestriction {
        /// The key.
        key: &'static str,
        /// What it has to be.
        expected: &'static str,
    },
    /// A skill of that name comes before it, which counts.
    #[error("the skill is skipped: `{}` has the same name and takes precedence", .by.display())]
    Shadowed {
        /// The file that counts.
        by: PathBuf,
    },
    /// There is no front matter; the name is that of the directory.
    #[error("no front matter; start the file with `---`, `name:` and `description:`")]
    NoFrontMatter,
    /// The YAML could only be read with quotes around its values.
    #[error("a value with a colon needs quotes; it was read as a quoted value")]
    Quoted,
    /// A key has a value of the wrong kind, which is ignored.
    #[error("`{key}` is ignored: it must be {expected}")]
    WrongType {
        /// The key.
        key: &'static str,
        /// What it has to be.
        expected: &'static str,
    },
    /// The name is not as the format wants it.
    #[error(
        "invalid name `{0}`; write 1 to 64 characters of a-z, 0-9 and single hyphens in between"
    )]
    BadName(String),
    /// The name is not that of the directory.
    #[error("name `{name}` must equal the directory name `{directory}`")]
    NameMismatch {
        /// The name.
        name: String,
        /// The directory's.
        directory: String,
    },
    /// There is no description, so models are not told of the skill.
    #[error("no description; models do not see this skill")]
    NoDescription,
    /// A text is longer than the format wants it.
    #[error("`{key}` has {length} characters; at most {most} are allowed")]
    TooLong {
        /// The key.
        key: &'static str,
        /// Its length.
        length: usize,
        /// The longest that is allowed.
        most: usize,
    },
    /// The model is a name that another program gives its own. The agent's model stays.
    #[error(
        "`model` does not select a model: `{0}` is a model name of another program; write `provider/model`"
    )]
    ForeignModel(String),
    /// An agent is named, and the skill is carried out in the conversation that loads it.
    #[error("`agent` is ignored: it requires `context: fork`")]
    AgentWithoutFork,
    /// A directory has more entries than are looked at.
    #[error("only the first {0} entries of the directory are read")]
    TooMany(usize),
}

impl SkillProblem {
    /// Returns `true` if there is no such skill because of it.
    pub fn is_fatal(&self) -> bool {
        matches!(
            self,
            Self::Unreadable(_)
                | Self::BadFrontMatter(_)
                | Self::BadRestriction { .. }
                | Self::Shadowed { .. }
        )
    }
}
