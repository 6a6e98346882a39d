//! What is wrong with a file that defines an agent, by line and key.

use std::fmt;
use std::path::PathBuf;

use loopwright_capabilities::front_matter::TextError;

/// Something about a file that its author should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The line, counted from one, if it is about one.
    pub line: Option<usize>,
    /// The key as it is written, with the keys around it: `budget.maxSteps`.
    pub key: Option<String>,
    /// What is the matter.
    pub kind: DiagnosticKind,
}

/// What is the matter with a file, or with a key of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DiagnosticKind {
    /// It cannot be read.
    #[error("the file cannot be read: {0}")]
    Unreadable(String),
    /// Its name does not end as any format does.
    #[error("unknown file name extension; available: {known}")]
    UnknownFormat {
        /// The ends of names that are known.
        known: String,
    },
    /// It does not begin with front matter.
    #[error("no front matter; start the file with `---`, `name:`, `description:` and `---`")]
    NoFrontMatter,
    /// It breaks the rules of its format.
    #[error("invalid {format}: {problem}")]
    Syntax {
        /// The format.
        format: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// A key is not there, or says nothing.
    #[error("is missing; {remedy}")]
    Missing {
        /// What to write.
        remedy: &'static str,
    },
    /// A value is of the wrong kind.
    #[error("must be {expected}")]
    WrongType {
        /// What it has to be.
        expected: &'static str,
    },
    /// A name cannot name an agent.
    #[error(
        "must be 1 to 64 characters of a-z, 0-9, `-` and `_`, starting with a letter or a digit, not `{}`",
        .0.escape_debug()
    )]
    BadName(String),
    /// A value is of the right kind and still does not fit.
    #[error("is invalid: {0}")]
    InvalidValue(String),
    /// A key is there again.
    #[error("occurs more than once; keep one")]
    Repeated,
    /// Two keys say the same thing.
    #[error("duplicates `{other}`; keep one")]
    ConflictingKeys {
        /// The other key.
        other: &'static str,
    },
    /// A key that nothing knows. It is ignored.
    #[error("is ignored: unknown key")]
    UnknownKey,
    /// A key of another program that does nothing here yet. It is ignored.
    #[error("is ignored: not supported")]
    Unsupported,
    /// A key that must not be in a definition. It is ignored.
    #[error("is ignored: keys and addresses belong to the configuration of the provider")]
    ForbiddenKey,
    /// A key could send the user's key elsewhere, or change what is asked. Only the user's own file may have it.
    #[error(
        "is allowed only in your own agents, because it controls what is sent with your key; remove it, write \
         a header under `providers.NAME.headers` of your configuration, or keep the file among your own agents"
    )]
    UsersOnly,
    /// A key says what is said better elsewhere in the file. It is ignored.
    #[error("is ignored: the text below the front matter is the prompt")]
    BodyOverrides,
    /// The YAML could only be read with quotes around its values.
    #[error("a value with a colon needs quotes; it was read as a quoted value")]
    Quoted,
    /// The file holds more than one document.
    #[error("only the first document is read: text after the next `---` is ignored")]
    MoreDocuments,
    /// A tool of another program that has no counterpart here. It is left out of what is allowed.
    #[error("skips `{0}`: this tool of another program is not supported")]
    ForeignTool(String),
    /// A restriction that is not supported yet. The agent does not run without it.
    #[error("requires {restriction}, which is not supported: the agent does not run; {remedy}")]
    UnsupportedRestriction {
        /// The restriction as the file writes it.
        restriction: String,
        /// The change that lets the agent run.
        remedy: String,
    },
    /// An unknown key that looks like one that restricts the agent.
    #[error("is unknown and may restrict the agent; write `{meant}`, or remove it")]
    Misspelled {
        /// The known key.
        meant: &'static str,
    },
    /// A model by a name that stands for nothing here.
    #[error(
        "does not select a model: `{0}` is a model name of another program; write `provider/model`"
    )]
    ForeignModel(String),
    /// Another file defines an agent of the same name and comes first.
    #[error("the file is skipped: {} defines an agent of the same name", .by.display())]
    Shadowed {
        /// The file that counts.
        by: PathBuf,
    },
    /// A directory is a link, which is not followed.
    #[error("the directory is skipped: links are not followed")]
    Link,
    /// A directory is too deep.
    #[error("the directory is skipped: it is more than {0} levels down")]
    TooDeep(usize),
    /// There are more entries than are looked at.
    #[error("only the first {0} entries are read")]
    TooMany(usize),
    /// A file is longer than what of it is used.
    #[error("the file is truncated: only the first {0} bytes are read")]
    Truncated(usize),
}

impl DiagnosticKind {
    /// Makes a problem of the file as a whole.
    pub fn of_file(self) -> Diagnostic {
        Diagnostic { line: None, key: None, kind: self }
    }
}

impl From<TextError> for Diagnostic {
    fn from(error: TextError) -> Self {
        DiagnosticKind::Unreadable(error.to_string()).of_file()
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if let Some(key) = &self.key {
            write!(f, "`{key}` ")?;
        }
        self.kind.fmt(f)
    }
}

/// Why there is no agent of a file: everything that is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}", .path.display(), joined(.problems))]
pub struct DefinitionFileError {
    /// The file.
    pub path: PathBuf,
    /// The name of the agent in the file; `None` if it cannot be read.
    pub name: Option<String>,
    /// What is wrong, in the order of the file as far as that is known.
    pub problems: Vec<Diagnostic>,
}

fn joined(problems: &[Diagnostic]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Something about a file, or a directory of files, that does not keep an agent from being defined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionWarning {
    /// The file or directory.
    pub path: PathBuf,
    /// What is the matter with it.
    pub problem: Diagnostic,
}

impl fmt::Display for DefinitionWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.problem)
    }
}
