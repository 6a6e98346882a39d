//! Arguments of `loopwright agents`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

/// Arguments of `agents`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct AgentsArgs {
    /// Search the project in this directory
    #[arg(short = 'C', long, global = true, value_name = "DIR", value_hint = ValueHint::DirPath, default_value = ".")]
    pub workdir: PathBuf,
    /// The command to run.
    #[command(subcommand)]
    pub command: AgentsCommand,
}

/// The commands of `agents`.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum AgentsCommand {
    /// List the agents of the project and the user
    List(ListArgs),
    /// Show the definition of an agent, without secrets
    Show(ShowArgs),
    /// Check agent definition files
    Validate(ValidateArgs),
    /// Create an agent definition file and print its path
    New(NewArgs),
}

/// Arguments of `agents list` and `skills list`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ListArgs {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `agents show` and `skills show`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ShowArgs {
    /// The name of the agent or skill
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `agents validate` and `skills validate`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ValidateArgs {
    /// The paths to check [default: all files of the project and the user]
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `agents new`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct NewArgs {
    /// The agent's name: lowercase letters, digits, `-` and `_`
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Describe when to use the agent
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,
    /// Set the instructions of the agent
    #[arg(long, value_name = "TEXT")]
    pub prompt: Option<String>,
    /// Define the agent for all projects of this user
    #[arg(long)]
    pub user: bool,
    /// Replace an existing definition
    #[arg(long)]
    pub overwrite: bool,
}
