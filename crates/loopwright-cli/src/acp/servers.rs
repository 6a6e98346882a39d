//! MCP servers that the editor names for a session.

use std::collections::BTreeMap;

use loopwright_mcp::{EntryError, McpServer, read_entry};
use serde_json::{Map, Value};

use super::error::RpcError;

/// A server that an editor names, or why it cannot be used.
pub(super) type NamedServer = Result<McpServer, EntryError>;

/// Reads the servers of the parameters of a session. They are the user's own, who set up the editor.
///
/// # Errors
///
/// Returns an error if they are not in the form of the protocol.
pub(super) fn named(params: &Value) -> Result<Vec<NamedServer>, RpcError> {
    let servers = match &params["mcpServers"] {
        Value::Null => &[],
        Value::Array(servers) => servers.as_slice(),
        _ => return Err(RpcError::invalid_params("`mcpServers` must be a list")),
    };
    servers.iter().filter_map(|server| read(server).transpose()).collect()
}

fn read(server: &Value) -> Result<Option<NamedServer>, RpcError> {
    let name = server["name"].as_str();
    let name = name.ok_or_else(|| RpcError::invalid_params("an MCP server lacks `name`"))?;
    let mut entry = Map::new();
    for key in ["type", "command", "args", "url"] {
        if let Some(value) = server.get(key) {
            entry.insert(key.to_owned(), value.clone());
        }
    }
    for key in ["env", "headers"] {
        let Some(pairs) = server.get(key).filter(|it| !it.is_null()) else { continue };
        let pair = |pair: &Value| {
            Some((pair["name"].as_str()?.to_owned(), pair["value"].as_str()?.to_owned()))
        };
        let pairs: Option<BTreeMap<String, String>> =
            pairs.as_array().and_then(|pairs| pairs.iter().map(pair).collect());
        let pairs = pairs.ok_or_else(|| {
            let message = format!("`{key}` of an MCP server must be a list of names and values");
            RpcError::invalid_params(message)
        })?;
        entry.insert(
            key.to_owned(),
            pairs.into_iter().map(|(name, it)| (name, Value::String(it))).collect(),
        );
    }
    Ok(read_entry(name, Value::Object(entry)))
}

#[cfg(test)]
mod tests {
    use loopwright_mcp::{ServerTransport, Template};
    use serde_json::json;

    use super::*;

    #[test]
    fn servers_of_the_protocol_are_read_with_their_variables_and_headers() {
        let servers = named(&json!({"mcpServers": [
            {"name": "git", "command": "/bin/mcp-git", "args": ["-r", "."], "env": [{"name": "A", "value": "1"}]},
            {"type": "http", "name": "docs", "url": "https://docs.example/mcp", "headers": [{"name": "X-Key", "value": "k"}]},
            {"type": "sse", "name": "old", "url": "https://old.example/sse", "headers": []},
        ]}));
        let servers = servers.unwrap();
        let Ok(McpServer { transport: ServerTransport::Stdio(git), .. }) = &servers[0] else {
            panic!("{servers:?}")
        };
        assert_eq!(git.command, Template::new("/bin/mcp-git"));
        assert_eq!(git.args, [Template::new("-r"), Template::new(".")]);
        assert_eq!(git.env, BTreeMap::from([("A".to_owned(), Template::new("1"))]));
        let Ok(McpServer { transport: ServerTransport::Http(docs), .. }) = &servers[1] else {
            panic!("{servers:?}")
        };
        assert_eq!(docs.headers, BTreeMap::from([("X-Key".to_owned(), Template::new("k"))]));
        assert!(servers[2].is_err(), "{servers:?}");
    }

    #[test]
    fn servers_in_another_form_are_refused() {
        for servers in [
            json!({}),
            json!([{"command": "x"}]),
            json!([{"name": "x", "command": "x", "env": {"A": "1"}}]),
        ] {
            assert!(named(&json!({"mcpServers": servers})).is_err(), "{servers}");
        }
        assert_eq!(named(&json!({})), Ok(Vec::new()));
    }
}
