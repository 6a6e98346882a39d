//! Servers of the Model Context Protocol that an agent uses.

use loopwright_permissions::ToolRule;
use serde_json::{Map, Value};

use super::fields::{At, Fields};
use crate::problem::DiagnosticKind;

const KEYS: [&str; 2] = ["mcpServers", "mcp_servers"];

const EXPECTED: &str = "a list of MCP server names, or of `NAME: {command: …}`; `[]` means none";

/// Takes the servers: names of those that are configured, and configurations of those that the definition brings.
pub(super) fn read(fields: &mut Fields<'_>) -> Option<Map<String, Value>> {
    fields.not_null(&KEYS);
    let (at, value) = fields.take(&KEYS)?;
    let mut servers = Map::new();
    let is_fine = match value {
        Value::String(text) => {
            let names = ToolRule::list(&text);
            servers.extend(names.iter().map(|it| (it.to_string(), Value::Null)));
            !servers.is_empty()
        }
        Value::Array(entries) => entries.into_iter().all(|entry| match entry {
            Value::String(name) => add(fields, &at, &mut servers, name, Value::Null),
            Value::Object(named) => {
                named.into_iter().all(|(name, server)| add(fields, &at, &mut servers, name, server))
            }
            _ => false,
        }),
        Value::Object(named) => {
            named.into_iter().all(|(name, server)| add(fields, &at, &mut servers, name, server))
        }
        _ => false,
    };
    if !is_fine {
        fields.error(at, DiagnosticKind::WrongType { expected: EXPECTED });
    }
    // What cannot be read must not stand for all servers.
    Some(servers)
}

fn add(
    fields: &mut Fields<'_>,
    at: &At,
    servers: &mut Map<String, Value>,
    name: String,
    server: Value,
) -> bool {
    if !(server.is_null() || server.is_object()) || name.trim().is_empty() {
        return false;
    }
    if servers.contains_key(&name) {
        let at = At { key: format!("{}.{name}", at.key), line: at.line };
        fields.error(at, DiagnosticKind::Repeated);
        return true;
    }
    servers.insert(name, server);
    true
}
