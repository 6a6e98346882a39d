//! What can be said about a file tool that is used by hand.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

/// A file tool, and what a model would pass to it.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum FilesCommand {
    /// Show a file with line numbers, or a part of it
    Read(ReadArgs),
    /// Write a new file
    Write(WriteArgs),
    /// Replace text in a file
    Edit(EditArgs),
    /// List a directory
    List(ListArgs),
    /// Find files by name
    Search(SearchArgs),
    /// Find lines of files by a regular expression
    Grep(GrepArgs),
}

/// Where the tool works.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct Place {
    /// Work in this directory and touch nothing outside it
    #[arg(short = 'C', long, value_name = "DIR", value_hint = ValueHint::DirPath, default_value = ".")]
    pub workdir: PathBuf,
}

/// What `files read` reads.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ReadArgs {
    /// Where the tool works.
    #[command(flatten)]
    pub place: Place,
    /// The file
    #[arg(value_name = "PATH")]
    pub path: String,
    /// Skip this many lines
    #[arg(long, value_name = "N")]
    pub offset: Option<i64>,
    /// Show this many lines [default: 200]
    #[arg(long, value_name = "N")]
    pub limit: Option<i64>,
    /// Show this many bytes [default: 32768]
    #[arg(long, value_name = "N")]
    pub max_bytes: Option<i64>,
    /// Go on where an earlier page ended
    #[arg(long, value_name = "TOKEN")]
    pub continue_from: Option<String>,
}

/// What `files write` writes.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct WriteArgs {
    /// Where the tool works.
    #[command(flatten)]
    pub place: Place,
    /// The file
    #[arg(value_name = "PATH")]
    pub path: String,
    /// All that it is to hold
    #[arg(value_name = "CONTENT", allow_hyphen_values = true)]
    pub content: String,
    /// Replace a file that exists
    #[arg(long)]
    pub overwrite: bool,
    /// Make the directories that it is in
    #[arg(long)]
    pub create_dirs: bool,
}

/// What `files edit` replaces.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct EditArgs {
    /// Where the tool works.
    #[command(flatten)]
    pub place: Place,
    /// The file
    #[arg(value_name = "PATH")]
    pub path: String,
    /// The text to replace
    #[arg(value_name = "OLD", allow_hyphen_values = true)]
    pub old: String,
    /// What takes its place
    #[arg(value_name = "NEW", allow_hyphen_values = true)]
    pub new: String,
    /// Replace every occurrence
    #[arg(long)]
    pub replace_all: bool,
}

/// What `files list` lists.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ListArgs {
    /// Where the tool works.
    #[command(flatten)]
    pub place: Place,
    /// The directory
    #[arg(value_name = "PATH", default_value = ".")]
    pub path: String,
    /// Skip this many entries
    #[arg(long, value_name = "N")]
    pub offset: Option<i64>,
}

/// What `files search` looks for.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct SearchArgs {
    /// Where the tool works.
    #[command(flatten)]
    pub place: Place,
    /// Globs, paths, names or parts of names
    #[arg(value_name = "PATTERN", required = true)]
    pub patterns: Vec<String>,
    /// Find files too that .gitignore leaves out
    #[arg(long)]
    pub include_ignored: bool,
}

/// What `files grep` looks for.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct GrepArgs {
    /// Where the tool works.
    #[command(flatten)]
    pub place: Place,
    /// The regular expression
    #[arg(value_name = "PATTERN", allow_hyphen_values = true)]
    pub pattern: String,
    /// The directory or file to look in
    #[arg(value_name = "PATH")]
    pub path: Option<String>,
    /// Look only in files whose names fit
    #[arg(long, value_name = "GLOB")]
    pub glob: Option<String>,
    /// Show lines before and after
    #[arg(long, value_name = "N")]
    pub context: Option<i64>,
    /// Look into files too that .gitignore leaves out
    #[arg(long)]
    pub include_ignored: bool,
}
