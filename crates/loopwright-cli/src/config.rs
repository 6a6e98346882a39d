//! The configuration of a run: one value per key, each with the layer that decided it.
//!
//! Layers, strongest first: [`Flags`], the environment, the project file `loopwright.toml`, the user's
//! `loopwright/config.toml`, built-in defaults. Every key is decided on its own, so a project that sets
//! `limits.steps` leaves the user's `limits.cost` alone. A project file belongs to the author of the
//! repository: it may not say where prompts and keys go (see [`ConfigError::Refused`]).

use loopwright_sandbox::Limits as Machine;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod base_url;
mod document;
mod dollars;
mod environment;
mod error;
mod files;
mod flags;
mod key;
mod keys;
mod layer;
mod limits;
mod model_facts;
mod model_ref;
mod model_refs;
mod origin;
mod output_format;
mod provider;
mod reading;
mod refusal;
mod roots;
mod sandbox;
mod secret;
mod sources;
mod timeouts;
mod value;
mod warning;

pub use base_url::BaseUrl;
pub use dollars::Dollars;
pub use error::ConfigError;
pub use flags::Flags;
pub use key::{KEYS, Key};
pub use limits::{Limits, STEPS, SessionLimits, TIME, TOKENS};
pub use model_facts::{Capabilities, DollarsPerMillion, ModelFacts, PriceFacts};
pub use model_ref::ModelRef;
pub use model_refs::ModelRefs;
pub use origin::{Origin, Setting};
pub use output_format::OutputFormat;
pub use provider::{Provider, Rate};
pub use refusal::Reason;
pub use roots::Roots;
pub(crate) use sandbox::bytes;
pub use sandbox::{Bytes, MAX_TIMEOUT, SandboxSettings, Strings};
pub use secret::{SecretRef, Text};
pub use sources::ConfigSources;
pub use timeouts::Timeouts;
pub use value::{Mismatch, SettingValue};
pub use warning::Warning;

use document::Document;
use files::{Found, UserFile};
use layer::Layer;

/// What is in effect; a key that no one set and that has no default is `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The directory of the run, absolute and without links.
    pub workdir: PathBuf,
    /// The model to talk to.
    pub model: Option<Setting<ModelRef>>,
    /// The models to ask, in this order, when that one cannot answer.
    pub fallback: Option<Setting<ModelRefs>>,
    /// Where the provider of the model is reached, whatever its table or preset says.
    pub base_url: Option<Setting<BaseUrl>>,
    /// The system prompt.
    pub system_prompt: Option<Setting<String>>,
    /// What standard output carries.
    pub output_format: Setting<OutputFormat>,
    /// Whether answers are asked for piece by piece.
    pub stream: Setting<bool>,
    /// How much the run may use up.
    pub limits: Limits,
    /// The providers that are configured, by name; presets are not among them.
    pub providers: BTreeMap<String, Provider>,
    /// What the user knows of models, by `provider/name`.
    pub models: BTreeMap<String, ModelFacts>,
    /// How long to wait for a provider.
    pub timeouts: Timeouts,
    /// What the commands that are run may do.
    pub sandbox: SandboxSettings,
    /// Where sessions are kept.
    pub store_url: Option<Setting<Text>>,
    /// Below which folders a worker may work.
    pub worker_roots: Option<Setting<Roots>>,
}

/// A configuration, and what the user should hear about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// What is in effect.
    pub config: Config,
    /// What was ignored, in the order of the files and of the alphabet.
    pub warnings: Vec<Warning>,
}

impl Config {
    /// Finds and reads every layer.
    pub fn load(flags: Flags, sources: &ConfigSources) -> Result<Loaded, ConfigError> {
        let workdir = files::workdir(&flags.workdir, sources)?;
        let user_file = UserFile::locate(flags.config.as_deref(), sources);
        let mut warnings = Vec::new();
        let environment = Layer::from_environment(sources)?;
        let mut project = project_layer(&workdir, &user_file, &mut warnings)?;
        let user = user_layer(&user_file, &mut warnings)?;
        project.limits = project.limits.of_project(&user.limits);
        project.sandbox = project.sandbox.of_project(&user.sandbox, &Machine::of_machine());
        let layer = flags.into_layer().or(environment).or(project).or(user);
        Ok(Loaded { config: Self::with_defaults(layer, workdir), warnings })
    }

    fn with_defaults(layer: Layer, workdir: PathBuf) -> Self {
        Self {
            workdir,
            model: layer.model,
            fallback: layer.fallback,
            base_url: layer.base_url,
            system_prompt: layer.system_prompt,
            output_format: layer.output_format.unwrap_or(default(OutputFormat::Text)),
            stream: layer.stream.unwrap_or(default(true)),
            limits: layer.limits,
            providers: layer.providers,
            models: layer.models,
            timeouts: layer.timeouts,
            sandbox: layer.sandbox,
            store_url: layer.store_url,
            worker_roots: layer.worker_roots,
        }
    }
}

fn default<T>(value: T) -> Setting<T> {
    Setting::new(value, Origin::Default)
}

fn project_layer(
    workdir: &Path,
    user_file: &UserFile,
    warnings: &mut Vec<Warning>,
) -> Result<Layer, ConfigError> {
    let found = files::project(workdir, warnings)?.filter(|found| !user_file.is_named(&found.path));
    let Some(Found { path, text }) = found else { return Ok(Layer::default()) };
    let path: Arc<Path> = path.into();
    let document = Document::parse(&text, path.clone(), Origin::Project(path))?;
    refusal::check(&document.root(), user_file.path())?;
    Layer::from_file(&document.root(), warnings)
}

fn user_layer(user_file: &UserFile, warnings: &mut Vec<Warning>) -> Result<Layer, ConfigError> {
    let Some(Found { path, text }) = user_file.read()? else { return Ok(Layer::default()) };
    let path: Arc<Path> = path.into();
    let document = Document::parse(&text, path.clone(), Origin::User(path))?;
    Layer::from_file(&document.root(), warnings)
}

#[cfg(test)]
mod tests;
