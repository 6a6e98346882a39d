//! Problems of agent files, by line and key.

use std::fmt;
use std::path::PathBuf;

use loopwright_capabilities::front_matter::TextError;

/// A diagnostic about a file, for its author.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The line, counted from one, if there is one.
    pub line: Option<usize>,
    /// The key as written, with its parent keys: `budget.maxSteps`.
    pub key: Option<String>,
    /// The problem.
    pub kind: DiagnosticKind,
}

/// A problem of a file, or of one of its keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DiagnosticKind {
    /// The file cannot be read.
    #[error("the file cannot be read: {0}")]
    Unreadable(String),
    /// The file name extension is unknown.
    #[error("unknown file name extension; available: {known}")]
    UnknownFormat {
        /// The known extensions.
        known: String,
    },
    /// The front matter is missing.
    #[error("no front matter; start the file with `---`, `name:`, `description:` and `---`")]
    NoFrontMatter,
    /// The file violates its format.
    #[error("invalid {format}: {problem}")]
    Syntax {
        /// The format.
        format: &'static str,
        /// The problem.
        problem: String,
    },
    /// A key is missing or empty.
    #[error("is missing; {remedy}")]
    Missing {
        /// The remedy.
        remedy: &'static str,
    },
    /// A value has the wrong type.
    #[error("must be {expected}")]
    WrongType {
        /// The expected value.
        expected: &'static str,
    },
    /// The name is not a valid agent name.
    #[error(
        "must be 1 to 64 characters of a-z, 0-9, `-` and `_`, starting with a letter or a digit, not `{}`",
        .0.escape_debug()
    )]
    BadName(String),
    /// A value has the right type but is invalid.
    #[error("is invalid: {0}")]
    InvalidValue(String),
    /// A key is repeated.
    #[error("occurs more than once; keep one")]
    Repeated,
    /// Two keys have the same meaning.
    #[error("duplicates `{other}`; keep one")]
    ConflictingKeys {
        /// The other key.
        other: &'static str,
    },
    /// A key is unknown. It is ignored.
    #[error("is ignored: unknown key")]
    UnknownKey,
    /// A key of another program is not supported. It is ignored.
    #[error("is ignored: not supported")]
    Unsupported,
    /// A key is not allowed in a definition. It is ignored.
    #[error("is ignored: keys and addresses belong in the provider's configuration")]
    ForbiddenKey,
    /// A key could send the user's API key elsewhere, or change the request. Only the user's own
    /// files may contain it.
    #[error(
        "is allowed only in your own agents, because it controls what is sent with your key; remove the key, set the header under `providers.NAME.headers` in your configuration, or move the file to your own agents"
    )]
    UsersOnly,
    /// A key is overridden by another part of the file. It is ignored.
    #[error("is ignored: the text below the front matter is the prompt")]
    BodyOverrides,
    /// The YAML could be parsed only with quotes around its values.
    #[error("a value with a colon needs quotes; it was read as a quoted value")]
    Quoted,
    /// The file contains more than one document.
    #[error("only the first document is read: text after the next `---` is ignored")]
    MoreDocuments,
    /// A tool of another program has no counterpart here. It is omitted from the allowed tools.
    #[error("skips `{0}`: this tool belongs to another program and is not supported")]
    ForeignTool(String),
    /// A restriction is not supported. The agent does not run without it.
    #[error("requires {restriction}, which is not supported: the agent does not run; {remedy}")]
    UnsupportedRestriction {
        /// The restriction as written in the file.
        restriction: String,
        /// The change that lets the agent run.
        remedy: String,
    },
    /// An unknown key looks like a restriction of the agent.
    #[error("is unknown and may restrict the agent; write `{meant}`, or remove it")]
    Misspelled {
        /// The known key.
        meant: &'static str,
    },
    /// A model name is unknown.
    #[error(
        "does not select a model: `{0}` is a model name from another program; write `provider/model`"
    )]
    ForeignModel(String),
    /// Another file defines an agent of the same name and takes precedence.
    #[error("the file is skipped: {} defines an agent of the same name", .by.display())]
    Shadowed {
        /// The file that takes precedence.
        by: PathBuf,
    },
    /// A directory is a link, which is not followed.
    #[error("the directory is skipped: links are not followed")]
    Link,
    /// A directory is nested too deeply.
    #[error("the directory is skipped: the folders are nested more than {0} levels deep")]
    TooDeep(usize),
    /// There are more entries than are read.
    #[error("only the first {0} entries are read")]
    TooMany(usize),
    /// An import of instructions is not followed.
    #[error("is not imported: {0}")]
    NotImported(String),
    /// A file is longer than the part of it that is used.
    #[error("the file is truncated: only the first {0} bytes are read")]
    Truncated(usize),
}

impl DiagnosticKind {
    /// Creates a diagnostic about the whole file.
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

/// The error of an agent file, with all its problems.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}", .path.display(), joined(.problems))]
pub struct DefinitionFileError {
    /// The file.
    pub path: PathBuf,
    /// The name of the agent. `None` means that it cannot be read.
    pub name: Option<String>,
    /// The problems, in the order of the file as far as it is known.
    pub problems: Vec<Diagnostic>,
}

fn joined(problems: &[Diagnostic]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// A warning about a file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionWarning {
    /// The file or directory.
    pub path: PathBuf,
    /// The problem.
    pub problem: Diagnostic,
}

impl fmt::Display for DefinitionWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.problem)
    }
}
