//! What can be said about the configuration.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueHint};

use super::values::{BaseUrlParser, StoreParser, parsed};
use super::{LimitArgs, help};
use crate::config::{BaseUrl, Flags, ModelRef, ModelRefs, Text};

/// What can be done with the configuration.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum ConfigCommand {
    /// Show each setting with its value and its source
    #[command(after_help = help::CONFIG)]
    Show(Box<ShowArgs>),
}

/// For which command line the configuration is shown.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ShowArgs {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// As in this directory
    #[arg(short = 'C', long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    workdir: Option<PathBuf>,
    /// As with this model
    #[arg(short, long, value_name = "PROVIDER/NAME", value_parser = parsed::<ModelRef>)]
    model: Option<ModelRef>,
    /// As with these models where that one cannot answer
    #[arg(long, value_name = "PROVIDER/NAME,…", value_parser = parsed::<ModelRefs>)]
    fallback: Option<ModelRefs>,
    /// As with this address
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url, value_parser = BaseUrlParser)]
    base_url: Option<BaseUrl>,
    /// As with this place for sessions
    #[arg(long, value_name = "URL", value_parser = StoreParser)]
    store: Option<Text>,
    /// As with these limits.
    #[command(flatten)]
    limits: LimitArgs,
}

impl ShowArgs {
    /// What the configuration should know of the command line.
    pub fn flags(&self, config: Option<&Path>) -> Flags {
        let limits = &self.limits;
        Flags {
            workdir: self.workdir.clone().unwrap_or_else(|| ".".into()),
            config: config.map(Path::to_path_buf),
            model: self.model.clone(),
            fallback: self.fallback.clone(),
            base_url: self.base_url.clone(),
            store: self.store.clone(),
            max_steps: limits.max_steps,
            max_tokens: limits.max_tokens,
            max_seconds: limits.max_seconds,
            max_cost: limits.max_cost,
            ..Flags::default()
        }
    }
}
