//! Arguments of `loopwright policy`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use super::agent::PermissionArgs;

/// Arguments of `policy`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct PolicyArgs {
    /// Use the rules that apply in this directory
    #[arg(short = 'C', long, global = true, value_name = "DIR", value_hint = ValueHint::DirPath, default_value = ".")]
    pub workdir: PathBuf,
    /// The command to run.
    #[command(subcommand)]
    pub command: PolicyCommand,
}

/// The commands of `policy`.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum PolicyCommand {
    /// Show the rules in force, highest precedence first
    Show(ShowArgs),
    /// Explain the decision about a call
    Explain(ExplainArgs),
    /// Find rules that never match, or that match more or fewer calls than they seem to
    Lint(LintArgs),
    /// Check decisions against a table of calls; exit with code 3 if any differs
    Test(TestArgs),
}

/// Arguments of `policy show`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ShowArgs {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Rules to add.
    #[command(flatten)]
    pub permissions: PermissionArgs,
}

/// Arguments of `policy explain`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ExplainArgs {
    /// The shell command or, with --tool, the arguments of the call as JSON
    #[arg(value_name = "COMMAND")]
    pub call: String,
    /// Explain a call to this tool
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Rules to add.
    #[command(flatten)]
    pub permissions: PermissionArgs,
}

/// Arguments of `policy lint`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct LintArgs {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `policy test`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct TestArgs {
    /// The table: one JSON object per line, with `command` (or `tool` and `arguments`) and `expect`
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Rules to add.
    #[command(flatten)]
    pub permissions: PermissionArgs,
}

/// Arguments of `trust`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct TrustArgs {
    /// Trust the project in this directory
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath, default_value = ".")]
    pub workdir: PathBuf,
    /// Trust without confirmation
    #[arg(short, long, conflicts_with = "revoke")]
    pub yes: bool,
    /// Stop trusting the project
    #[arg(long)]
    pub revoke: bool,
}
