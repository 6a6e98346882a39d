//! What can be asked of definitions of agents.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

/// Something to do with the agents that are defined.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct AgentsArgs {
    /// Look from this directory, in the project that it is in
    #[arg(short = 'C', long, global = true, value_name = "DIR", value_hint = ValueHint::DirPath, default_value = ".")]
    pub workdir: PathBuf,
    /// What to do.
    #[command(subcommand)]
    pub command: AgentsCommand,
}

/// What can be done with the agents that are defined.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum AgentsCommand {
    /// List the agents of the project and of the user
    List(ListArgs),
    /// Show how an agent is defined, without what may be a secret
    Show(ShowArgs),
    /// Check files that define agents: all that are found, or these
    Validate(ValidateArgs),
    /// Begin the file of a new agent, and print its path
    New(NewArgs),
}

/// How agents or skills are listed.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ListArgs {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Which agent or skill is shown.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ShowArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Which files are checked.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ValidateArgs {
    /// The files; without any, all that are found
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// What a new agent is.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct NewArgs {
    /// The agent's name: small letters, digits, `-` and `_`
    #[arg(value_name = "NAME")]
    pub name: String,
    /// When to use the agent
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,
    /// What the agent is told
    #[arg(long, value_name = "TEXT")]
    pub prompt: Option<String>,
    /// Keep it for all projects of this user
    #[arg(long)]
    pub user: bool,
    /// Replace a definition that is there
    #[arg(long)]
    pub overwrite: bool,
}
