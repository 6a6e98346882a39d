//! What can be asked of skills.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use super::agents::{ListArgs, ShowArgs, ValidateArgs};

/// Something to do with the skills there are.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct SkillsArgs {
    /// Look from this directory, in the project that it is in
    #[arg(short = 'C', long, global = true, value_name = "DIR", value_hint = ValueHint::DirPath, default_value = ".")]
    pub workdir: PathBuf,
    /// What to do.
    #[command(subcommand)]
    pub command: SkillsCommand,
}

/// What can be done with the skills there are.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum SkillsCommand {
    /// List the skills of the project and of the user
    List(ListArgs),
    /// Show what a skill says
    Show(ShowArgs),
    /// Check skills: all that are found, or those in these directories
    Validate(ValidateArgs),
}
