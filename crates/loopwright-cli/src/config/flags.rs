//! The strongest layer: options of the command line.

use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Component, PathBuf};
use std::time::Duration;

use loopwright_permissions::{Mode, Rule};

use super::layer::Layer;
use super::{
    BaseUrl, Discovery, Dollars, Limits, ModelName, ModelRefs, NamedServers, Origin, OutputFormat,
    PermissionSettings, RuleList, SessionLimits, Setting, ShadowFile, Strings, Text,
};

/// What was typed; the default is a command line that says nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flags {
    /// Where the run takes place, relative to the current directory.
    pub workdir: PathBuf,
    /// The file to read in place of the user's, relative to the current directory.
    pub config: Option<PathBuf>,
    /// Overrides `model`.
    pub model: Option<ModelName>,
    /// Overrides `fallback`.
    pub fallback: Option<ModelRefs>,
    /// Overrides `base_url`.
    pub base_url: Option<BaseUrl>,
    /// Overrides `system_prompt`.
    pub system_prompt: Option<String>,
    /// Overrides `output_format`.
    pub output_format: Option<OutputFormat>,
    /// Overrides `stream`.
    pub stream: Option<bool>,
    /// Overrides `limits.steps`.
    pub max_steps: Option<NonZeroU32>,
    /// Overrides `limits.tokens`.
    pub max_tokens: Option<NonZeroU64>,
    /// Overrides `limits.seconds`.
    pub max_seconds: Option<Duration>,
    /// Overrides `limits.cost`.
    pub max_cost: Option<Dollars>,
    /// Overrides `limits.session.steps`.
    pub max_session_steps: Option<NonZeroU32>,
    /// Overrides `limits.session.tokens`.
    pub max_session_tokens: Option<NonZeroU64>,
    /// Overrides `limits.session.seconds`.
    pub max_session_seconds: Option<Duration>,
    /// Overrides `limits.session.cost`.
    pub max_session_cost: Option<Dollars>,
    /// Overrides `permissions.mode`.
    pub permission_mode: Option<Mode>,
    /// Adds to `permissions.allow`.
    pub allow: Vec<String>,
    /// Adds to `permissions.ask`.
    pub ask: Vec<String>,
    /// Adds to `permissions.deny`.
    pub deny: Vec<String>,
    /// Adds to `permissions.folders`.
    pub add_dir: Vec<PathBuf>,
    /// Rules that decide nothing, and are reported.
    pub shadow: Option<ShadowFile>,
    /// Overrides `store.url`.
    pub store: Option<Text>,
    /// MCP servers that options name.
    pub mcp_servers: Vec<NamedServers>,
    /// Whether these are the only MCP servers.
    pub only_named_servers: bool,
    /// What is looked for besides.
    pub discovery: Discovery,
}

impl Flags {
    pub(super) fn into_layer(self) -> Layer {
        Layer {
            model: typed(self.model),
            fallback: typed(self.fallback),
            base_url: typed(self.base_url),
            system_prompt: typed(self.system_prompt),
            output_format: typed(self.output_format),
            stream: typed(self.stream),
            limits: Limits {
                steps: typed(self.max_steps),
                tokens: typed(self.max_tokens),
                seconds: typed(self.max_seconds),
                cost: typed(self.max_cost),
                session: SessionLimits {
                    steps: typed(self.max_session_steps),
                    tokens: typed(self.max_session_tokens),
                    seconds: typed(self.max_session_seconds),
                    cost: typed(self.max_session_cost),
                },
            },
            permissions: PermissionSettings {
                mode: typed(self.permission_mode),
                allow: rules(&self.allow),
                ask: rules(&self.ask),
                deny: rules(&self.deny),
                folders: folders(&self.add_dir),
                claude: None,
            },
            store_url: typed(self.store),
            ..Layer::default()
        }
    }
}

/// Each text is a rule, or a list of rules.
fn rules(typed: &[String]) -> Option<Setting<RuleList>> {
    let rules = typed.iter().flat_map(|text| Rule::list(text));
    let rules: Vec<_> = rules.map(|rule| (rule.to_owned(), 0)).collect();
    (!rules.is_empty()).then(|| Setting::new(RuleList(rules), Origin::Flag))
}

/// What is typed is relative to the current directory, whatever directory the run has.
fn folders(typed: &[PathBuf]) -> Option<Setting<Strings>> {
    let missing = |it: &PathBuf| {
        let path = std::path::absolute(it).unwrap_or_else(|_| it.clone());
        path.components().fold(PathBuf::new(), |mut path, part| {
            match part {
                Component::ParentDir => drop(path.pop()),
                part => path.push(part),
            }
            path
        })
    };
    let text = |it: &PathBuf| {
        it.canonicalize().unwrap_or_else(|_| missing(it)).to_string_lossy().into_owned()
    };
    let folders: Vec<String> = typed.iter().map(text).collect();
    (!folders.is_empty()).then(|| Setting::new(Strings(folders), Origin::Flag))
}

fn typed<T>(value: Option<T>) -> Option<Setting<T>> {
    value.map(|value| Setting::new(value, Origin::Flag))
}
