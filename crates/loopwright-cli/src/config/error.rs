//! Errors of the configuration.

use std::io;
use std::path::{Path, PathBuf};

use super::Origin;
use super::user_only::Reason;

/// A configuration that cannot be used; every message says what to do, none repeats a value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The directory of the run is not one: a mistake of the command line.
    #[error(
        "cannot use {path} as the working directory; choose an existing directory with `--workdir`"
    )]
    Workdir {
        /// The directory as it was understood.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// A file was named on the command line, but there is none.
    #[error("{path} does not exist; correct or omit `--config`")]
    Missing {
        /// The file as it was understood.
        path: PathBuf,
    },
    /// A file is there, but cannot be read.
    #[error("cannot read {path}; make it a readable text file, or remove it")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// A file is not TOML.
    #[error("{path}, line {line}, column {column}: {problem}; correct this line")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The character in the line, from 1.
        column: usize,
        /// What the parser says; never a part of the file.
        problem: String,
    },
    /// A key has a value of another type.
    #[error("`{key}` in {path} must be {expected}, not {found}; write, for example, `{example}`")]
    WrongType {
        /// The key with the tables that it is in.
        key: String,
        /// The file.
        path: PathBuf,
        /// The type or types that are allowed.
        expected: &'static str,
        /// The TOML type that is there.
        found: &'static str,
        /// A line that is valid.
        example: String,
    },
    /// A key has a value of the right type, but one that is not allowed.
    #[error("`{key}` in {path} must be {expected}; write, for example, `{example}`")]
    WrongValue {
        /// The key with the tables that it is in.
        key: String,
        /// The file.
        path: PathBuf,
        /// The values that are allowed.
        expected: &'static str,
        /// A line that is valid.
        example: String,
    },
    /// An environment variable has a value that is not allowed.
    #[error(
        "environment variable `{name}` must be {expected}; set it to, for example, `{example}`, or unset it"
    )]
    Variable {
        /// The variable.
        name: &'static str,
        /// The values that are allowed.
        expected: &'static str,
        /// A value that is valid.
        example: &'static str,
    },
    /// An environment variable selects the mode in which every call runs. Programs inherit variables, so that the user may
    /// not have typed it for this run.
    #[error(
        "environment variable `{name}` cannot select the mode `unconfined`, because every program inherits it; unset it, and pass `--permission-mode unconfined`"
    )]
    Unconfined {
        /// The variable.
        name: &'static str,
    },
    /// A secret stands in a file.
    #[error(
        "`{key}` in {path} must not contain a secret; put the secret into an environment variable and write a reference, such as `{example}`"
    )]
    LiteralSecret {
        /// The key with the tables that it is in.
        key: String,
        /// The file.
        path: PathBuf,
        /// A line that is valid.
        example: String,
    },
    /// A project file sets what only the user may decide.
    #[error("`{key}` is not allowed in the project file {path}, because {reason}; {remedy}", remedy = destination(user_file.as_deref()))]
    Refused {
        /// The key with the tables that it is in.
        key: String,
        /// The project file.
        path: PathBuf,
        /// What a hostile repository could do with it.
        reason: Reason,
        /// The file where the key belongs, if it is known.
        user_file: Option<PathBuf>,
    },
    /// What is said of a model does not say of which.
    #[error(
        "`{key}` in {path} is not a model name; write `PROVIDER/NAME`, such as `[models.\"openai/gpt-5-mini\"]`"
    )]
    ModelName {
        /// The key of the table.
        key: String,
        /// The file.
        path: PathBuf,
    },
    /// The model is a short name that stands for none.
    #[error("unknown model name in the {origin};{} write `PROVIDER/NAME`, or define the name in the table `aliases`", suggested(suggestion.as_deref()))]
    UnknownModel {
        /// What names it.
        origin: Origin,
        /// The known name that is closest.
        suggestion: Option<String>,
    },
    /// A provider has a name that no model can refer to.
    #[error(
        "`{key}` in {path} is not a valid provider name: it must be non-empty and contain no slashes or spaces, because models are named `PROVIDER/NAME`; rename the provider"
    )]
    ProviderName {
        /// The key of the table.
        key: String,
        /// The file.
        path: PathBuf,
    },
}

fn suggested(name: Option<&str>) -> String {
    name.map(|it| format!(" did you mean `{it}`?")).unwrap_or_default()
}

fn destination(user_file: Option<&Path>) -> String {
    match user_file {
        Some(path) => format!("move it to your user file {}", path.display()),
        None => "move it to a user file and pass that file with `--config`".to_owned(),
    }
}
