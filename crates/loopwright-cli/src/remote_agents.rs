//! Agents on other servers that the user has configured.

use loopwright_capabilities::remote_agent::{RemoteAgent, UseRemoteAgent};
use loopwright_models::Secret;

use crate::config::{Config, ConfigSources};
use crate::console;

/// Returns the configured agents. Warns about those whose token is missing, and leaves them out.
pub(crate) fn capability(config: &Config, sources: &ConfigSources) -> UseRemoteAgent {
    let agents = config.remote_agents.iter().filter_map(|(name, setting)| {
        let table = &setting.value;
        let agent = RemoteAgent::new(name, &table.description, &table.url).ok()?;
        let agent = agent.with_protocol(table.protocol);
        let agent = if table.private { agent.with_private_addresses() } else { agent };
        let Some(token) = &table.token else { return Some(agent) };
        let variable = token.variable();
        let value = sources.environment.get(variable).and_then(|it| it.to_str());
        let Some(value) = value.filter(|it| !it.is_empty()) else {
            console::warn(&format!("remote agent `{name}` is not available; set {variable}"));
            return None;
        };
        Some(agent.with_token(Secret::new(value)))
    });
    UseRemoteAgent::new(agents)
}
