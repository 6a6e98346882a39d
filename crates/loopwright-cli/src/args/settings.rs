//! Arguments of `loopwright config`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueHint};

use super::agent::LimitArgs;
use super::help;
use super::values::{BaseUrlParser, StoreParser, parsed};
use crate::config::{BaseUrl, Flags, ModelName, ModelRefs, Text};

/// The commands of `config`.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum ConfigCommand {
    /// Show each setting with its value and source
    #[command(after_help = help::CONFIG)]
    Show(Box<ShowArgs>),
}

/// Arguments of `config show`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ShowArgs {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Show the settings that apply in this directory
    #[arg(short = 'C', long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    workdir: Option<PathBuf>,
    /// Show the settings in effect with this model
    #[arg(short, long, value_name = "PROVIDER/NAME", value_parser = parsed::<ModelName>)]
    model: Option<ModelName>,
    /// Show the settings in effect with these fallback models
    #[arg(long, value_name = "PROVIDER/NAME,…", value_parser = parsed::<ModelRefs>)]
    fallback: Option<ModelRefs>,
    /// Show the settings in effect with this base URL
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url, value_parser = BaseUrlParser)]
    base_url: Option<BaseUrl>,
    /// Show the settings in effect with this session store
    #[arg(long, value_name = "URL", value_parser = StoreParser)]
    store: Option<Text>,
    /// The limits.
    #[command(flatten)]
    limits: LimitArgs,
}

impl ShowArgs {
    /// Returns the command-line layer of the configuration.
    pub fn flags(&self, config: Option<&Path>) -> Flags {
        Flags {
            workdir: self.workdir.clone().unwrap_or_else(|| ".".into()),
            config: config.map(Path::to_path_buf),
            model: self.model.clone(),
            fallback: self.fallback.clone(),
            base_url: self.base_url.clone(),
            store: self.store.clone(),
            ..self.limits.flags()
        }
    }
}
