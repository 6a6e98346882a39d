//! Arguments of `loopwright skills`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use super::agents::{ListArgs, ShowArgs, ValidateArgs};

/// Arguments of `skills`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct SkillsArgs {
    /// Search the project in this directory
    #[arg(short = 'C', long, global = true, value_name = "DIR", value_hint = ValueHint::DirPath, default_value = ".")]
    pub workdir: PathBuf,
    /// The command to run.
    #[command(subcommand)]
    pub command: SkillsCommand,
}

/// The commands of `skills`.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum SkillsCommand {
    /// List the skills of the project and the user
    List(ListArgs),
    /// Show the text of a skill
    Show(ShowArgs),
    /// Check skills
    Validate(ValidateArgs),
}
