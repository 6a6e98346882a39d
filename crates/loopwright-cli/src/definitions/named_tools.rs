//! Tools that definitions name, as far as an agent of a run has them.

use loopwright_agent::{AgentDefinition, NameList};
use loopwright_mcp::server_part;

use super::Defined;
use crate::console;
use crate::mcp_servers::KnownServer;
use crate::render::sanitize_terminal;

/// Tools that a definition may name without the capability that brings them, as files of other programs
/// do.
const BROUGHT: [(&str, &str); 3] = [
    ("load_skill", "use_skills"),
    ("spawn_subagent", "use_subagents"),
    ("todo_write", "use_task_planning"),
];

/// Tools that a definition may name and that agents have only where a permission rule names them.
pub(crate) const OF_RULES: [&str; 2] = ["web_fetch", "web_search"];

/// Why such a tool is absent.
const NO_RULE: &str = "no allow rule matches the tool, which requires one in every mode";

/// Returns the tools that a definition names and that no known server or permission rule brings, each with the reason.
pub(super) fn absent_tools(
    definition: &AgentDefinition,
    servers: &[KnownServer],
    offers: impl Fn(&str) -> bool,
) -> Vec<(String, String)> {
    let named = definition.tools.iter().flat_map(NameList::iter);
    let absent = named.filter_map(|name| {
        let reason = if let Some(rest) = name.strip_prefix("mcp__") {
            let server = rest.split("__").next().unwrap_or(rest);
            let is_known = servers.iter().any(|it| server_part(&it.name) == server);
            let brought = definition.mcp_servers.iter().flat_map(|it| it.keys());
            let is_brought = brought.into_iter().any(|it| server_part(it) == server);
            (!is_known && !is_brought).then(|| format!("no MCP server `{server}` is configured"))
        } else {
            let is_absent = OF_RULES.contains(&name) && !offers(name);
            is_absent.then(|| NO_RULE.to_owned())
        }?;
        Some((name.to_owned(), reason))
    });
    absent.collect()
}

/// Removes tools that a definition names and that are absent.
pub(super) fn without(
    mut definition: AgentDefinition,
    absent: &[(String, String)],
) -> AgentDefinition {
    let is_there = |name: &&str| !absent.iter().any(|(it, _)| it == name);
    definition.tools = definition.tools.map(|tools| tools.iter().filter(is_there).collect());
    definition
}

/// Adds the capabilities that bring the tools which a definition names.
pub(crate) fn completed(definition: &AgentDefinition) -> AgentDefinition {
    let is_named = |tool: &str| definition.tools.as_ref().is_some_and(|it| it.contains(tool));
    let brought =
        BROUGHT.iter().filter(|(tool, _)| is_named(tool)).map(|(_, capability)| *capability);
    let capabilities = definition.capabilities.iter().chain(brought).collect();
    AgentDefinition { capabilities, ..definition.clone() }
}

/// Denies an agent the tools of the servers that it does not use.
pub(super) fn limited(mut definition: AgentDefinition, servers: &[KnownServer]) -> AgentDefinition {
    let named = definition.mcp_servers.as_ref();
    let is_denied = |server: &&KnownServer| match named {
        Some(named) => !named.keys().any(|it| server_part(it) == server_part(&server.name)),
        None => server.is_brought,
    };
    let denied = servers.iter().filter(is_denied);
    let denied: Vec<String> = denied.map(|it| format!("mcp__{}", server_part(&it.name))).collect();
    if !denied.is_empty() {
        let rules = &mut definition.call_rules;
        rules.deny = rules.deny.iter().map(ToOwned::to_owned).chain(denied).collect();
        if rules.agent.is_empty() {
            rules.agent.clone_from(&definition.name);
        }
    }
    definition
}

impl Defined {
    /// Warns of the tools that a definition names and that its agent does not have in this run.
    pub(crate) fn tell_absent(&self, definition: &AgentDefinition, offers: impl Fn(&str) -> bool) {
        for (name, reason) in absent_tools(definition, &self.servers, offers) {
            console::warn(&format!(
                "agent `{}` runs without the tool `{}`: {reason}",
                definition.name,
                sanitize_terminal(&name)
            ));
        }
    }
}
