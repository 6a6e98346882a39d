//! All checks, one after the other.

use std::fs;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use futures::future::join_all;
use loopwright_models::{Providers, SecretRef};
use loopwright_sandbox::{Backend, BackendChoice, BackendSandbox, Sandbox as _, Unavailable};
use loopwright_sessions::stored::FORMAT_VERSION;

use crate::args::{Cli, Transport};
use crate::config::{Config, ConfigSources, Flags, Loaded};
use crate::console;
use crate::load_config;
use crate::model;
use crate::render::count;
use crate::store::StoreLocation;

const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const FAINT: Style = Style::new().dimmed();

/// How long a server on this machine may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// What was looked at, and what was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Check {
    pub(super) area: &'static str,
    /// The provider, if it is about one.
    pub(super) name: String,
    pub(super) outcome: Outcome,
    /// For people.
    pub(super) told: String,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It works.
    Good,
    /// It is not there, and need not be.
    Absent,
    /// It does not work.
    Problem { remedy: String },
}

impl Outcome {
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Absent => "absent",
            Self::Problem { .. } => "problem",
        }
    }

    pub(super) fn remedy(&self) -> Option<&str> {
        match self {
            Self::Problem { remedy } => Some(remedy),
            _ => None,
        }
    }

    pub(super) fn mark(&self) -> (Style, char) {
        match self {
            Self::Good => (GOOD, '✓'),
            Self::Absent => (FAINT, '-'),
            Self::Problem { .. } => (BAD, '✗'),
        }
    }
}

impl Check {
    fn new(area: &'static str, name: &str, outcome: Outcome, told: impl Into<String>) -> Self {
        Self { area, name: name.to_owned(), outcome, told: told.into() }
    }

    pub(super) fn good(area: &'static str, name: &str, told: impl Into<String>) -> Self {
        Self::new(area, name, Outcome::Good, told)
    }

    pub(super) fn absent(area: &'static str, name: &str, told: impl Into<String>) -> Self {
        Self::new(area, name, Outcome::Absent, told)
    }

    pub(super) fn problem(
        area: &'static str,
        name: &str,
        told: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::new(area, name, Outcome::Problem { remedy: remedy.into() }, told)
    }
}

/// Checks everything. Without a configuration that can be read, what depends on one is left out.
pub(super) async fn checkup(cli: &Cli) -> Vec<Check> {
    let mut checks = vec![version()];
    match load(cli) {
        Err(error) => {
            checks.push(Check::problem("config", "", error, "correct the file or the variable"));
            checks.push(sandbox(BackendChoice::Auto).await);
        }
        Ok((sources, loaded)) => {
            checks.extend(configuration(&loaded));
            let config = loaded.config;
            match model::providers(&config, &sources) {
                Err(error) => {
                    let told = error.to_string();
                    checks.push(Check::problem("config", "", told, "correct the file"));
                }
                Ok(providers) => {
                    checks.extend(keys(&providers));
                    checks.extend(servers(&providers).await);
                    checks.push(chosen(&config, &sources).await);
                }
            }
            checks.push(
                sandbox(config.sandbox.backend.as_ref().map(|it| it.value).unwrap_or_default())
                    .await,
            );
            checks.push(sessions(&config, &sources).await);
        }
    }
    checks
}

fn load(cli: &Cli) -> Result<(ConfigSources, Loaded), String> {
    let flags = Flags { workdir: ".".into(), config: cli.config.clone(), ..Flags::default() };
    load_config::load(flags).map_err(|error| console::with_causes(&error).join(": "))
}

fn version() -> Check {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let told = format!("loopwright {} on {os} {} {arch}", env!("CARGO_PKG_VERSION"), kernel.trim());
    Check::good("version", "", told.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn configuration(loaded: &Loaded) -> Vec<Check> {
    let warnings = loaded.warnings.iter();
    let odd = warnings.map(|it| Check::problem("config", "", it.to_string(), "correct the file"));
    let checks: Vec<Check> = odd.collect();
    if checks.is_empty() {
        let told = "readable; `loopwright config show` shows each setting and its source";
        return vec![Check::good("config", "", told)];
    }
    checks
}

/// Says which keys are there, and in one line which are not. No key is shown.
fn keys(providers: &Providers) -> Vec<Check> {
    let mut checks: Vec<Check> = Vec::new();
    let mut missing: Vec<&str> = Vec::new();
    for name in providers.names() {
        let Ok(provider) = providers.provider(name) else { continue };
        let Some(variable) = provider.key.as_ref().map(SecretRef::variable) else { continue };
        if providers.has_key(name) {
            checks.push(Check::good("keys", name, format!("{name}: {variable} is set")));
        } else if provider.key_required && !missing.contains(&variable) {
            missing.push(variable);
        }
    }
    if let Some(told) = not_set(&missing) {
        checks.push(Check::absent("keys", "", told));
    }
    checks
}

/// Names the first few of the variables that are not set.
fn not_set(missing: &[&str]) -> Option<String> {
    const NAMED: usize = 3;
    let (named, others) = missing.split_at(missing.len().min(NAMED));
    let named = named.join(", ");
    match others.len() {
        0 if named.is_empty() => None,
        0 => Some(format!("not set: {named}")),
        others => Some(format!("not set: {named} and {others} more (see `loopwright models`)")),
    }
}

/// Asks the servers on this machine for their models, all at once.
async fn servers(providers: &Providers) -> Vec<Check> {
    let is_local = |name: &&str| providers.provider(name).is_ok_and(|it| it.local);
    let asked = providers.names().filter(is_local).map(|name| async move {
        let answer = tokio::time::timeout(PATIENCE, providers.models(name)).await;
        if let Ok(Ok(models)) = answer {
            let models = count(models.len() as u64, "model");
            return Check::good("servers", name, format!("{name} serves {models}"));
        }
        let place = providers.base_url(name).map(|url| format!(" at {url}"));
        let told = format!("{name} does not respond{}", place.unwrap_or_default());
        Check::absent("servers", name, told)
    });
    join_all(asked).await
}

/// Finds the model that would be used.
async fn chosen(config: &Config, sources: &ConfigSources) -> Check {
    match model::choose(config, sources, &Transport::Live).await {
        Ok(chosen) => {
            let parts = [&chosen.llm.provider, &chosen.llm.model].into_iter().flatten();
            let name = parts.map(|it| &**it).collect::<Vec<_>>().join("/");
            Check::good("model", "", format!("{name} would be used"))
        }
        Err(error) => {
            let remedy = "run `loopwright demo` to see an agent without a model";
            Check::problem("model", "", error.summary(), remedy)
        }
    }
}

/// Finds what commands are run with: the backend that is configured, or the strongest that works.
async fn sandbox(driver: BackendChoice) -> Check {
    let backends = match driver {
        BackendChoice::Auto => vec![Backend::Namespaces, Backend::Bubblewrap],
        BackendChoice::Only(backend) => vec![backend],
    };
    let mut unavailable: Option<Unavailable> = None;
    for backend in backends {
        match BackendSandbox::new(backend).probe().await {
            Ok(guarantees) => {
                let missing = guarantees.missing();
                let missing = missing.iter().map(|it| it.name()).collect::<Vec<_>>().join(", ");
                let told = match missing.as_str() {
                    "" => format!("commands run in {backend}"),
                    missing => {
                        format!("commands run in {backend}, which does not enforce: {missing}")
                    }
                };
                return Check::good("sandbox", "", told);
            }
            Err(error) => unavailable = unavailable.or(Some(error)),
        }
    }
    match unavailable {
        Some(unavailable) => {
            let told = format!("commands are disabled: {}", unavailable.reason);
            Check::problem("sandbox", "", told, unavailable.remedy)
        }
        None => Check::problem("sandbox", "", "commands are disabled", "configure another backend"),
    }
}

/// Opens the place where sessions are kept, if there is one.
async fn sessions(config: &Config, sources: &ConfigSources) -> Check {
    let place = match StoreLocation::of(config, sources) {
        Ok(place) => place,
        Err(error) => {
            let told = console::with_causes(&error).join(": ");
            return Check::problem("sessions", "", told, "choose a session store with `--store`");
        }
    };
    if !place.is_there() && !matches!(place, StoreLocation::Postgres(_)) {
        return Check::absent(
            "sessions",
            "",
            format!("none yet; sessions will be stored in {place}"),
        );
    }
    match place.open().await {
        Ok(_) => {
            Check::good("sessions", "", format!("{place} can be opened; format {FORMAT_VERSION}"))
        }
        Err(error) => {
            let told = console::with_causes(&error).join(": ");
            Check::problem("sessions", "", told, "run `loopwright sessions check`")
        }
    }
}
