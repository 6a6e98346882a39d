//! `loopwright config show`: each setting, its value and its source.

use std::fmt::Display;
use std::time::Duration;

use clap::ValueEnum as _;
use loopwright_models as models;
use loopwright_permissions::{Decision, Mode};
use loopwright_sandbox::{BackendChoice, Limits};
use serde_json::{Value, json};

use crate::args::Cli;
use crate::args::settings::{ConfigCommand, ShowArgs};
use crate::config::{
    Config, ConfigSources, Dollars, ModelFacts, ModelRefs, Origin, OutputFormat, Provider, Setting,
};
use crate::config::{MAX_TIMEOUT, STEPS, SandboxSettings, TIME, TOKENS};
use crate::console;
use crate::exit::ExitCode;
use crate::load_config::load_and_warn;
use crate::render::single_line;
use crate::report::SCHEMA_VERSION;
use crate::store::StoreLocation;
use crate::table::table_with_head;

/// The most characters of a value in the table.
const WIDEST: usize = 72;

/// Shows what was asked for.
pub fn settings(cli: &Cli, command: &ConfigCommand) -> ExitCode {
    let ConfigCommand::Show(args) = command;
    let (sources, config) = match load_and_warn(args.flags(cli.config.as_deref())) {
        Ok(loaded) => loaded,
        Err(error) => return console::fail(&error, ExitCode::Config),
    };
    show(args, &config, &rows(&config, &sources))
}

fn show(args: &ShowArgs, config: &Config, rows: &[Row]) -> ExitCode {
    if args.json {
        let settings: Vec<Value> = rows.iter().map(Row::in_json).collect();
        return console::print_json(&json!({
            "schema_version": SCHEMA_VERSION,
            "workdir": config.workdir.display().to_string(),
            "settings": settings,
        }));
    }
    let head = ["SETTING", "VALUE", "SOURCE"];
    let cells = |row: &Row| {
        let value = row.value.as_deref().map_or("-".to_owned(), |it| single_line(it, WIDEST));
        vec![row.key.clone(), value, row.origin.to_string()]
    };
    let text = table_with_head(head, rows.iter().map(cells));
    console::print(text.as_bytes())
}

/// A setting in effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// Its name, as in a file.
    pub(crate) key: String,
    /// The value. `None` means that it is unset and has no default.
    pub(crate) value: Option<String>,
    /// The layer that set the value.
    pub(crate) origin: Origin,
}

impl Row {
    fn in_json(&self) -> Value {
        let (by, place) = match &self.origin {
            Origin::Flag => ("flag", None),
            Origin::Env(variable) => ("environment", Some((*variable).to_owned())),
            Origin::Project(path) => ("project", Some(path.display().to_string())),
            Origin::User(path) => ("user", Some(path.display().to_string())),
            Origin::Session => ("session", None),
            Origin::Default => ("default", None),
        };
        json!({ "key": self.key, "value": self.value, "origin": by, "origin_place": place })
    }
}

/// Collects rows.
#[derive(Default)]
struct Rows(Vec<Row>);

impl Rows {
    /// Adds a setting that always has a value, from a source or the program.
    fn add<T>(
        &mut self,
        key: impl Into<String>,
        setting: Option<&Setting<T>>,
        default: Option<String>,
        shown: impl Fn(&T) -> String,
    ) {
        let (value, origin) = match setting {
            Some(setting) => (Some(shown(&setting.value)), setting.origin.clone()),
            None => (default, Origin::Default),
        };
        self.0.push(Row { key: key.into(), value, origin });
    }

    /// Adds a setting of a table that exists only if the user wrote it.
    fn set<T: Display>(&mut self, key: String, setting: Option<&Setting<T>>) {
        if setting.is_some() {
            self.add(key, setting, None, T::to_string);
        }
    }
}

/// Returns every setting. Those of providers and models are there if set.
pub(crate) fn rows(config: &Config, sources: &ConfigSources) -> Vec<Row> {
    let mut rows = Rows::default();
    let found = Some("the first usable model".to_owned());
    rows.add("model", config.model.as_ref(), found, ToString::to_string);
    rows.add("fallback", config.fallback.as_ref(), None, fallback);
    rows.add("base_url", config.base_url.as_ref(), None, ToString::to_string);
    rows.add("system_prompt", config.system_prompt.as_ref(), None, Clone::clone);
    rows.add("output_format", Some(&config.output_format), None, |it| format_name(*it));
    rows.add("stream", Some(&config.stream), None, ToString::to_string);
    let limits = &config.limits;
    rows.add("limits.steps", limits.steps.as_ref(), Some(STEPS.to_string()), ToString::to_string);
    rows.add(
        "limits.tokens",
        limits.tokens.as_ref(),
        Some(TOKENS.to_string()),
        ToString::to_string,
    );
    rows.add("limits.seconds", limits.seconds.as_ref(), Some(seconds(&TIME)), seconds);
    let dollars = |it: &Dollars| it.amount().to_string();
    rows.add("limits.cost", limits.cost.as_ref(), None, dollars);
    let session = &limits.session;
    rows.add("limits.session.steps", session.steps.as_ref(), None, ToString::to_string);
    rows.add("limits.session.tokens", session.tokens.as_ref(), None, ToString::to_string);
    rows.add("limits.session.seconds", session.seconds.as_ref(), None, seconds);
    rows.add("limits.session.cost", session.cost.as_ref(), None, dollars);
    let (own, set) = (models::Timeouts::default(), &config.timeouts);
    rows.add("timeouts.connect", set.connect.as_ref(), Some(seconds(&own.connect)), seconds);
    rows.add(
        "timeouts.first_byte",
        set.first_byte.as_ref(),
        Some(seconds(&own.first_byte)),
        seconds,
    );
    rows.add("timeouts.idle", set.idle.as_ref(), Some(seconds(&own.idle)), seconds);
    rows.add("timeouts.total", set.total.as_ref(), own.total.as_ref().map(seconds), seconds);
    let permissions = &config.permissions;
    let mode = Some(Mode::Auto.to_string());
    rows.add("permissions.mode", permissions.mode(), mode, ToString::to_string);
    for decision in [Decision::Allow, Decision::Ask, Decision::Deny] {
        let rules = permissions.rules(decision);
        rows.add(format!("permissions.{decision}"), rules.as_ref(), None, ToString::to_string);
    }
    rows.add("permissions.folders", permissions.folders().as_ref(), None, |it| it.0.join(", "));
    rows.add("permissions.claude", permissions.user.claude.as_ref(), None, ToString::to_string);
    let auto = Some(backend(BackendChoice::Auto));
    rows.add("sandbox.backend", config.sandbox.backend.as_ref(), auto, |it| backend(*it));
    sandbox_rows(&mut rows, &config.sandbox);
    let place = StoreLocation::of(&Config { store_url: None, ..config.clone() }, sources).ok();
    let place = place.map(|it| format!("sqlite:{it}"));
    rows.add("store.url", config.store_url.as_ref(), place, ToString::to_string);
    rows.add("worker.roots", config.worker_roots.as_ref(), None, |it| {
        it.iter().map(|it| it.display().to_string()).collect::<Vec<_>>().join(", ")
    });
    rows.add("worker.restate", config.restate.url.as_ref(), None, ToString::to_string);
    let service = Some("Loopwright".to_owned());
    rows.add(
        "worker.restate_service",
        config.restate.service.as_ref(),
        service,
        ToString::to_string,
    );
    let identity_key = config.restate.identity_key.as_ref();
    rows.add("worker.restate_identity_key", identity_key, None, ToString::to_string);
    rows.add("notify.command", config.notify.command.as_ref(), None, |it| {
        let (program, arguments) = it.words();
        std::iter::once(program)
            .chain(arguments.iter().map(String::as_str))
            .collect::<Vec<_>>()
            .join(" ")
    });
    rows.add("notify.webhook", config.notify.webhook.as_ref(), None, ToString::to_string);
    let chat = &config.chat;
    rows.add("chat.status_line", chat.status_line.as_ref(), None, Clone::clone);
    let notifies = Some(true.to_string());
    rows.add("chat.notifications", chat.notifications.as_ref(), notifies, ToString::to_string);
    let is_plain = Some(false.to_string());
    rows.add("chat.plain", chat.plain.as_ref(), is_plain, ToString::to_string);
    rows.add("web.search", config.web_search.as_ref(), None, ToString::to_string);
    named_rows(&mut rows, config);
    rows.0
}

/// Adds what has a name that the user chose.
fn named_rows(rows: &mut Rows, config: &Config) {
    for (name, model) in &config.aliases {
        rows.add(format!("aliases.{name}"), Some(model), None, ToString::to_string);
    }
    for (name, server) in config.mcp.user.iter().chain(&config.mcp.project) {
        rows.add(format!("mcp.{name}"), Some(server), None, ToString::to_string);
    }
    for (name, agent) in &config.remote_agents {
        rows.add(format!("remote_agents.{name}"), Some(agent), None, ToString::to_string);
    }
    for (name, capability) in &config.capabilities {
        rows.add(format!("capabilities.{name}"), Some(capability), None, ToString::to_string);
    }
    for (name, provider) in &config.providers {
        provider_rows(rows, name, provider);
    }
    for (name, facts) in &config.models {
        model_rows(rows, name, facts);
    }
}

fn sandbox_rows(rows: &mut Rows, set: &SandboxSettings) {
    let lists = [
        ("read", &set.read),
        ("write", &set.write),
        ("hide", &set.hide),
        ("allow", &set.allow),
        ("direct", &set.direct),
        ("path", &set.path),
        ("environment", &set.environment),
    ];
    for (name, list) in lists {
        rows.add(format!("sandbox.{name}"), list.as_ref(), None, |it| it.0.join(", "));
    }
    let loopback = Some("loopback".to_owned());
    rows.add("sandbox.network", set.network.as_ref(), loopback, ToString::to_string);
    let half = Some("half of the machine's memory".to_owned());
    rows.add("sandbox.memory", set.memory.as_ref(), half, ToString::to_string);
    let processes = Some(Limits::for_memory(0).processes.to_string());
    rows.add("sandbox.processes", set.processes.as_ref(), processes, ToString::to_string);
    rows.add("sandbox.timeout", set.timeout.as_ref(), Some(seconds(&MAX_TIMEOUT)), seconds);
}

fn provider_rows(rows: &mut Rows, name: &str, provider: &Provider) {
    let key = |key: &str| format!("providers.{name}.{key}");
    rows.set(key("base_url"), provider.base_url.as_ref());
    rows.set(key("key"), provider.key.as_ref());
    rows.set(key("wire_api"), provider.wire_api.as_ref());
    rows.set(key("model"), provider.model.as_ref());
    for (header, value) in &provider.headers {
        rows.set(key(&format!("headers.{header}")), Some(value));
    }
    rows.set(
        key("rate_limit.requests_per_minute"),
        provider.rate_limit.requests_per_minute.as_ref(),
    );
    rows.set(key("rate_limit.tokens_per_minute"), provider.rate_limit.tokens_per_minute.as_ref());
}

fn model_rows(rows: &mut Rows, name: &str, facts: &ModelFacts) {
    let key = |key: &str| format!("models.\"{name}\".{key}");
    rows.set(key("context_window"), facts.context_window.as_ref());
    rows.set(key("max_output"), facts.max_output.as_ref());
    if let Some(prices) = &facts.prices {
        let all = [
            ("input", Some(&prices.input)),
            ("output", Some(&prices.output)),
            ("cache_read", prices.cache_read.as_ref()),
            ("cache_write", prices.cache_write.as_ref()),
        ];
        for (name, price) in all.into_iter().filter(|(_, price)| price.is_some()) {
            let key = key(&format!("prices.{name}"));
            rows.add(key, price, None, |it| it.amount().to_string());
        }
    }
    if let Some(capabilities) = &facts.capabilities {
        let names = |it: &crate::config::Capabilities| {
            it.0.iter().map(|it| it.name()).collect::<Vec<_>>().join(", ")
        };
        rows.add(key("capabilities"), Some(capabilities), None, names);
    }
}

fn fallback(models: &ModelRefs) -> String {
    models.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn format_name(format: OutputFormat) -> String {
    format.to_possible_value().map(|it| it.get_name().to_owned()).unwrap_or_default()
}

fn seconds(duration: &Duration) -> String {
    duration.as_secs_f64().to_string()
}

fn backend(driver: BackendChoice) -> String {
    match driver {
        BackendChoice::Auto => "auto".to_owned(),
        BackendChoice::Only(backend) => backend.name().to_owned(),
    }
}
