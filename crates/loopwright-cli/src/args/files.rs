//! Arguments of `loopwright files`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

/// A file tool and its arguments.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum FilesCommand {
    /// Show a file, or part of a file, with line numbers
    Read(ReadArgs),
    /// Write a new file
    Write(WriteArgs),
    /// Replace text in a file
    Edit(EditArgs),
    /// List a directory
    List(ListArgs),
    /// Find files by name
    Search(SearchArgs),
    /// Find lines in files by regular expression
    Grep(GrepArgs),
}

/// The working directory of the tool.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct Place {
    /// Work in this directory and access nothing outside it
    #[arg(short = 'C', long, value_name = "DIR", value_hint = ValueHint::DirPath, default_value = ".")]
    pub workdir: PathBuf,
}

/// Arguments of `files read`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ReadArgs {
    /// The working directory of the tool.
    #[command(flatten)]
    pub place: Place,
    /// The file
    #[arg(value_name = "PATH")]
    pub path: String,
    /// Skip N lines
    #[arg(long, value_name = "N")]
    pub offset: Option<i64>,
    /// Show at most N lines [default: 200]
    #[arg(long, value_name = "N")]
    pub limit: Option<i64>,
    /// Show at most N bytes [default: 32768]
    #[arg(long, value_name = "N")]
    pub max_bytes: Option<i64>,
    /// Continue from this token, printed at the end of the previous page
    #[arg(long, value_name = "TOKEN")]
    pub continue_from: Option<String>,
}

/// Arguments of `files write`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct WriteArgs {
    /// The working directory of the tool.
    #[command(flatten)]
    pub place: Place,
    /// The file
    #[arg(value_name = "PATH")]
    pub path: String,
    /// The whole content of the file
    #[arg(value_name = "CONTENT", allow_hyphen_values = true)]
    pub content: String,
    /// Replace an existing file
    #[arg(long)]
    pub overwrite: bool,
    /// Create missing parent directories
    #[arg(long)]
    pub create_dirs: bool,
}

/// Arguments of `files edit`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct EditArgs {
    /// The working directory of the tool.
    #[command(flatten)]
    pub place: Place,
    /// The file
    #[arg(value_name = "PATH")]
    pub path: String,
    /// The text to replace
    #[arg(value_name = "OLD", allow_hyphen_values = true)]
    pub old: String,
    /// The replacement text
    #[arg(value_name = "NEW", allow_hyphen_values = true)]
    pub new: String,
    /// Replace every occurrence
    #[arg(long)]
    pub replace_all: bool,
}

/// Arguments of `files list`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ListArgs {
    /// The working directory of the tool.
    #[command(flatten)]
    pub place: Place,
    /// The directory
    #[arg(value_name = "PATH", default_value = ".")]
    pub path: String,
    /// Skip N entries
    #[arg(long, value_name = "N")]
    pub offset: Option<i64>,
}

/// Arguments of `files search`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct SearchArgs {
    /// The working directory of the tool.
    #[command(flatten)]
    pub place: Place,
    /// Globs, paths, names or parts of names to find
    #[arg(value_name = "PATTERN", required = true)]
    pub patterns: Vec<String>,
    /// Also find files that .gitignore excludes
    #[arg(long)]
    pub include_ignored: bool,
}

/// Arguments of `files grep`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct GrepArgs {
    /// The working directory of the tool.
    #[command(flatten)]
    pub place: Place,
    /// The regular expression
    #[arg(value_name = "PATTERN", allow_hyphen_values = true)]
    pub pattern: String,
    /// The directory or file to search
    #[arg(value_name = "PATH")]
    pub path: Option<String>,
    /// Search only files whose names match this glob
    #[arg(long, value_name = "GLOB")]
    pub glob: Option<String>,
    /// Show N lines before and after each match
    #[arg(long, value_name = "N")]
    pub context: Option<i64>,
    /// Also search files that .gitignore excludes
    #[arg(long)]
    pub include_ignored: bool,
}
