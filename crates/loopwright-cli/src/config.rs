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
mod capabilities;
mod chat;
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
mod mcp;
mod model_facts;
mod model_name;
mod model_ref;
mod model_refs;
mod notify;
mod origin;
mod output_format;
mod permissions;
mod provider;
mod remote_agents;
mod file_layer;
mod user_only;
mod restate;
mod roots;
mod sandbox;
mod secret;
mod sources;
mod timeouts;
mod value;
mod warning;
mod web;

pub use base_url::BaseUrl;
pub use capabilities::{CapabilitySetting, CapabilitySettings};
pub use chat::ChatSettings;
pub use dollars::Dollars;
pub use error::ConfigError;
pub(crate) use files::{permission_files, read_text};
pub use flags::Flags;
pub use key::{KEYS, Key};
pub(crate) use keys::closest;
pub use limits::{Limits, STEPS, SessionLimits, TIME, TOKENS};
pub use mcp::{McpLayers, McpTable};
pub use model_facts::{Capabilities, DollarsPerMillion, ModelFacts, PriceFacts};
pub use model_name::ModelName;
pub(crate) use model_name::{SHORT, misspelt, short_models};
pub use model_ref::ModelRef;
pub use model_refs::ModelRefs;
pub use notify::{CommandLine, NotifySettings};
pub use origin::{Origin, Setting};
pub use output_format::OutputFormat;
pub use permissions::{PermissionLayers, PermissionSettings, RuleList, ShadowFile};
pub use provider::{Provider, Rate};
pub use remote_agents::RemoteAgentTable;
pub use restate::RestateSettings;
pub use roots::Roots;
pub use sandbox::{Bytes, MAX_TIMEOUT, NetworkSetting, SandboxSettings, Strings};
pub(crate) use sandbox::{bytes, in_home};
pub use secret::{SecretRef, Text};
pub use sources::{ConfigSources, Discovery, NamedServers};
pub use timeouts::Timeouts;
pub use user_only::Reason;
pub use value::{Mismatch, SettingValue};
pub use warning::Warning;
pub use web::SearchSetting;

use document::Document;
use files::{Found, UserFile};
use layer::Layer;

/// What is in effect; a key that is not set and has no default is `None`.
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
    /// The user's file.
    pub user_file: Option<Arc<Path>>,
    /// The project's file with its text, which the user may trust.
    pub project_file: Option<ProjectFile>,
    /// Permission rules.
    pub permissions: PermissionLayers,
    /// Servers of the Model Context Protocol.
    pub mcp: McpLayers,
    /// What the commands that are run may do.
    pub sandbox: SandboxSettings,
    /// What agents are composed of, and with which settings.
    pub capabilities: CapabilitySettings,
    /// How a chat looks at a terminal.
    pub chat: ChatSettings,
    /// What names of models in definitions stand for.
    pub aliases: BTreeMap<String, Setting<ModelRef>>,
    /// Agents on other servers.
    pub remote_agents: BTreeMap<String, Setting<RemoteAgentTable>>,
    /// The service that searches the web.
    pub web_search: Option<Setting<SearchSetting>>,
    /// Where sessions are kept.
    pub store_url: Option<Setting<Text>>,
    /// Below which folders a worker may work.
    pub worker_roots: Option<Setting<Roots>>,
    /// Where Restate runs, which delivers jobs in place of the queue.
    pub restate: RestateSettings,
    /// What is told when a run waits for the user.
    pub notify: NotifySettings,
}

/// A project's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectFile {
    /// The path.
    pub path: Arc<Path>,
    /// The text.
    pub text: Arc<str>,
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
        let mut environment = Layer::from_environment(sources)?;
        let (mut project, project_file) = match sources.discovery {
            Discovery::Files => project_layer(&workdir, &user_file, &mut warnings)?,
            Discovery::Nothing => (Layer::default(), None),
        };
        let (mut user, user_file) = user_layer(&user_file, &mut warnings)?;
        project.limits = project.limits.of_project(&user.limits);
        project.sandbox = project.sandbox.of_project(&user.sandbox, &Machine::of_machine());
        let shadow = flags.shadow.clone();
        let mut flags = flags.into_layer();
        let mut typed = std::mem::take(&mut flags.permissions);
        typed.mode = typed.mode.or(environment.permissions.mode.take());
        let permissions = PermissionLayers {
            shadow,
            typed,
            project: std::mem::take(&mut project.permissions),
            user: std::mem::take(&mut user.permissions),
        };
        let mcp = McpLayers {
            user: std::mem::take(&mut user.mcp),
            project: std::mem::take(&mut project.mcp),
        };
        let mut layer = flags.or(environment).or(project).or(user);
        let model =
            model_name::resolved(layer.model.take(), &layer.aliases, &layer.providers, sources)?;
        let config = Self {
            model,
            user_file,
            project_file,
            permissions,
            mcp,
            ..Self::with_defaults(layer, workdir)
        };
        Ok(Loaded { config, warnings })
    }

    fn with_defaults(layer: Layer, workdir: PathBuf) -> Self {
        Self {
            workdir,
            model: None,
            fallback: layer.fallback,
            base_url: layer.base_url,
            system_prompt: layer.system_prompt,
            output_format: layer.output_format.unwrap_or(default(OutputFormat::Text)),
            stream: layer.stream.unwrap_or(default(true)),
            limits: layer.limits,
            providers: layer.providers,
            models: layer.models,
            timeouts: layer.timeouts,
            user_file: None,
            project_file: None,
            permissions: PermissionLayers::default(),
            mcp: McpLayers::default(),
            sandbox: layer.sandbox,
            capabilities: layer.capabilities,
            chat: layer.chat,
            aliases: layer.aliases,
            remote_agents: layer.remote_agents,
            web_search: layer.web_search,
            store_url: layer.store_url,
            worker_roots: layer.worker_roots,
            restate: layer.restate,
            notify: layer.notify,
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
) -> Result<(Layer, Option<ProjectFile>), ConfigError> {
    let found = files::project(workdir, warnings)?.filter(|found| !user_file.is_named(&found.path));
    let Some(Found { path, text }) = found else { return Ok((Layer::default(), None)) };
    let path: Arc<Path> = path.into();
    let document = Document::parse(&text, path.clone(), Origin::Project(path.clone()))?;
    user_only::check(&document.root(), user_file.path())?;
    Ok((layer(&document, &text, warnings)?, Some(ProjectFile { path, text: text.into() })))
}

fn user_layer(
    user_file: &UserFile,
    warnings: &mut Vec<Warning>,
) -> Result<(Layer, Option<Arc<Path>>), ConfigError> {
    let Some(Found { path, text }) = user_file.read()? else { return Ok((Layer::default(), None)) };
    let path: Arc<Path> = path.into();
    let document = Document::parse(&text, path.clone(), Origin::User(path.clone()))?;
    Ok((layer(&document, &text, warnings)?, Some(path)))
}

fn layer(
    document: &Document,
    text: &str,
    warnings: &mut Vec<Warning>,
) -> Result<Layer, ConfigError> {
    let mut layer = Layer::from_file(&document.root(), warnings)?;
    layer.permissions.locate(text);
    Ok(layer)
}

#[cfg(test)]
mod tests;
