//! Servers of the Model Context Protocol.

use std::collections::BTreeMap;
use std::fmt;

use loopwright_mcp::ServerEntry;
use toml::Value;

use super::Setting;
use super::value::{Mismatch, SettingValue};

/// The tables `[mcp.NAME]` of the files. Those of a project count only if the project is trusted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct McpLayers {
    /// Of the user's own file.
    pub user: BTreeMap<String, Setting<McpTable>>,
    /// Of the project's file.
    pub project: BTreeMap<String, Setting<McpTable>>,
}

/// One table `[mcp.NAME]`.
#[derive(Clone, Debug, PartialEq)]
pub struct McpTable(pub ServerEntry);

impl SettingValue for McpTable {
    const EXPECTED: &'static str = "a table with `command` or `url`, and no unknown keys";
    const EXAMPLE: &'static str = "{ command = \"uvx\", args = [\"mcp-server-git\"] }";

    fn from_text(_: &str) -> Option<Self> {
        None
    }

    fn from_toml(value: &Value) -> Result<Self, Mismatch> {
        if !value.is_table() {
            return Err(Mismatch::Type);
        }
        let value = serde_json::to_value(value).map_err(|_| Mismatch::Value)?;
        let entry: ServerEntry = serde_json::from_value(value).map_err(|_| Mismatch::Value)?;
        // The file is our own, so every key that is not known is a mistake.
        let is_good = entry.others.is_empty() && entry.to_server("name").is_ok();
        if is_good { Ok(Self(entry)) } else { Err(Mismatch::Value) }
    }
}

/// Shows the command or the address, and never the value of a variable.
impl fmt::Display for McpTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(server) = self.0.to_server("name") else { return Ok(()) };
        f.write_str(&server.describe().join("; "))
    }
}
