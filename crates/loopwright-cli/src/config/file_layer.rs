//! The third and fourth layer: the files.

use std::collections::BTreeMap;

use super::document::Section;
use super::keys::{self, warn_unknown};
use super::layer::Layer;
use super::secret::is_secret_name;
use super::value::SettingValue;
use super::{
    ChatSettings, ConfigError, Limits, ModelFacts, ModelRef, NotifySettings, PermissionSettings,
    PriceFacts, Provider, Rate, RestateSettings, Roots, SandboxSettings, SearchSetting,
    SessionLimits, Setting, Text, Timeouts, Warning,
};

impl Layer {
    /// Reads every key that is known and warns about the others.
    pub(super) fn from_file(
        root: &Section<'_>,
        warnings: &mut Vec<Warning>,
    ) -> Result<Self, ConfigError> {
        warn_unknown(root, keys::TOP, warnings);
        Ok(Self {
            model: root.value("model")?,
            fallback: root.value("fallback")?,
            base_url: root.value("base_url")?,
            system_prompt: root.value("system_prompt")?,
            output_format: root.value("output_format")?,
            stream: root.value("stream")?,
            limits: within(root, "limits", |section| limits(section, warnings))?,
            providers: within(root, "providers", |section| providers(section, warnings))?,
            models: within(root, "models", |section| models(section, warnings))?,
            timeouts: within(root, "timeouts", |section| timeouts(section, warnings))?,
            permissions: within(root, "permissions", |section| permissions(section, warnings))?,
            sandbox: within(root, "sandbox", |section| sandbox(section, warnings))?,
            mcp: within(root, "mcp", each)?,
            capabilities: within(root, "capabilities", each)?,
            chat: within(root, "chat", |section| chat(section, warnings))?,
            aliases: within(root, "aliases", each)?,
            remote_agents: within(root, "remote_agents", each)?,
            web_search: within(root, "web", |section| web_search(section, warnings))?,
            store_url: within(root, "store", |section| store_url(section, warnings))?,
            worker_roots: within(root, "worker", |section| worker_roots(section, warnings))?,
            restate: within(root, "worker", restate)?,
            notify: within(root, "notify", |section| notify(section, warnings))?,
        })
    }
}

/// Reads a table, or gives what an empty one would.
fn within<T: Default>(
    parent: &Section<'_>,
    name: &str,
    read: impl FnOnce(&Section<'_>) -> Result<T, ConfigError>,
) -> Result<T, ConfigError> {
    parent.section(name)?.map_or_else(|| Ok(T::default()), |section| read(&section))
}

/// Reads the values of a table whose names are free.
fn each<T: SettingValue>(
    section: &Section<'_>,
) -> Result<BTreeMap<String, Setting<T>>, ConfigError> {
    let mut all = BTreeMap::new();
    for name in section.names() {
        if let Some(value) = section.value(name)? {
            all.insert(name.to_owned(), value);
        }
    }
    Ok(all)
}

fn limits(section: &Section<'_>, warnings: &mut Vec<Warning>) -> Result<Limits, ConfigError> {
    warn_unknown(section, keys::LIMITS, warnings);
    Ok(Limits {
        steps: section.value("steps")?,
        tokens: section.value("tokens")?,
        seconds: section.value("seconds")?,
        cost: section.value("cost")?,
        session: within(section, "session", |section| session_limits(section, warnings))?,
    })
}

fn session_limits(
    section: &Section<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<SessionLimits, ConfigError> {
    warn_unknown(section, keys::SESSION_LIMITS, warnings);
    Ok(SessionLimits {
        steps: section.value("steps")?,
        tokens: section.value("tokens")?,
        seconds: section.value("seconds")?,
        cost: section.value("cost")?,
    })
}

fn providers(
    section: &Section<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<BTreeMap<String, Provider>, ConfigError> {
    let mut providers = BTreeMap::new();
    for name in section.names() {
        if name.is_empty() || name.contains(|c: char| c == '/' || c.is_whitespace()) {
            return Err(ConfigError::ProviderName { key: section.key(name), path: section.path() });
        }
        let read = within(section, name, |section| provider(section, warnings))?;
        providers.insert(name.to_owned(), read);
    }
    Ok(providers)
}

fn provider(section: &Section<'_>, warnings: &mut Vec<Warning>) -> Result<Provider, ConfigError> {
    warn_unknown(section, keys::PROVIDER, warnings);
    Ok(Provider {
        base_url: section.value("base_url")?,
        key: section.value("key")?,
        wire_api: section.value("wire_api")?,
        model: section.value("model")?,
        headers: within(section, "headers", headers)?,
        rate_limit: within(section, "rate_limit", |section| rate(section, warnings))?,
    })
}

fn rate(section: &Section<'_>, warnings: &mut Vec<Warning>) -> Result<Rate, ConfigError> {
    warn_unknown(section, keys::RATE, warnings);
    Ok(Rate {
        requests_per_minute: section.value("requests_per_minute")?,
        tokens_per_minute: section.value("tokens_per_minute")?,
    })
}

fn timeouts(section: &Section<'_>, warnings: &mut Vec<Warning>) -> Result<Timeouts, ConfigError> {
    warn_unknown(section, keys::TIMEOUTS, warnings);
    Ok(Timeouts {
        connect: section.value("connect")?,
        first_byte: section.value("first_byte")?,
        idle: section.value("idle")?,
        total: section.value("total")?,
    })
}

fn models(
    section: &Section<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<BTreeMap<String, ModelFacts>, ConfigError> {
    let mut models = BTreeMap::new();
    for name in section.names() {
        if ModelRef::from_text(name).is_none() {
            return Err(ConfigError::ModelName { key: section.key(name), path: section.path() });
        }
        let read = within(section, name, |section| model(section, warnings))?;
        models.insert(name.to_owned(), read);
    }
    Ok(models)
}

fn model(section: &Section<'_>, warnings: &mut Vec<Warning>) -> Result<ModelFacts, ConfigError> {
    warn_unknown(section, keys::MODEL, warnings);
    Ok(ModelFacts {
        context_window: section.value("context_window")?,
        max_output: section.value("max_output")?,
        prices: section.section("prices")?.map(|it| prices(section, &it, warnings)).transpose()?,
        capabilities: section.value("capabilities")?,
    })
}

/// Reads prices. Half of them would make a cost that is too low.
fn prices(
    model: &Section<'_>,
    section: &Section<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<PriceFacts, ConfigError> {
    warn_unknown(section, keys::PRICES, warnings);
    let (Some(input), Some(output)) = (section.value("input")?, section.value("output")?) else {
        return Err(ConfigError::WrongValue {
            key: model.key("prices"),
            path: model.path(),
            expected: "a table with `input` and `output`, in US dollars per million tokens",
            example: "prices = { input = 0.50, output = 1.50 }".to_owned(),
        });
    };
    let (cache_read, cache_write) = (section.value("cache_read")?, section.value("cache_write")?);
    Ok(PriceFacts { input, output, cache_read, cache_write })
}

fn headers(section: &Section<'_>) -> Result<BTreeMap<String, Setting<Text>>, ConfigError> {
    let mut headers = BTreeMap::new();
    for name in section.names() {
        let Some(header) = section.value(name)? else { continue };
        if is_secret_name(name) && matches!(header.value, Text::Plain(_)) {
            return Err(section.literal_secret(name));
        }
        headers.insert(name.to_owned(), header);
    }
    Ok(headers)
}

fn permissions(
    section: &Section<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<PermissionSettings, ConfigError> {
    warn_unknown(section, keys::PERMISSIONS, warnings);
    Ok(PermissionSettings {
        mode: section.value("mode")?,
        allow: section.value("allow")?,
        ask: section.value("ask")?,
        deny: section.value("deny")?,
        folders: section.value("folders")?,
        claude: section.value("claude")?,
    })
}

fn sandbox(
    section: &Section<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<SandboxSettings, ConfigError> {
    warn_unknown(section, keys::SANDBOX, warnings);
    Ok(SandboxSettings {
        backend: section.value("backend")?,
        read: section.value("read")?,
        write: section.value("write")?,
        hide: section.value("hide")?,
        allow: section.value("allow")?,
        direct: section.value("direct")?,
        network: section.value("network")?,
        path: section.value("path")?,
        environment: section.value("environment")?,
        memory: section.value("memory")?,
        processes: section.value("processes")?,
        timeout: section.value("timeout")?,
    })
}

fn chat(section: &Section<'_>, warnings: &mut Vec<Warning>) -> Result<ChatSettings, ConfigError> {
    warn_unknown(section, keys::CHAT, warnings);
    Ok(ChatSettings {
        status_line: section.value("status_line")?,
        notifications: section.value("notifications")?,
        plain: section.value("plain")?,
    })
}

fn web_search(
    section: &Section<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<Option<Setting<SearchSetting>>, ConfigError> {
    warn_unknown(section, keys::WEB, warnings);
    section.value("search")
}

fn worker_roots(
    section: &Section<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<Option<Setting<Roots>>, ConfigError> {
    warn_unknown(section, keys::WORKER, warnings);
    section.value("roots")
}

fn restate(section: &Section<'_>) -> Result<RestateSettings, ConfigError> {
    Ok(RestateSettings {
        url: section.value("restate")?,
        service: section.value("restate_service")?,
        identity_key: section.value("restate_identity_key")?,
    })
}

fn notify(
    section: &Section<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<NotifySettings, ConfigError> {
    warn_unknown(section, keys::NOTIFY, warnings);
    Ok(NotifySettings { command: section.value("command")?, webhook: section.value("webhook")? })
}

fn store_url(
    section: &Section<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<Option<Setting<Text>>, ConfigError> {
    warn_unknown(section, keys::STORE, warnings);
    section.value("url")
}
