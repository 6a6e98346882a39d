//! The format of servers in files: `.mcp.json`, and tables of other configurations.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use loopwright_sandbox::AllowedDomain;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::{
    HttpServer, McpServer, OAuthClient, OAuthGrant, ProtocolChoice, ServerNetwork, ServerSampling,
    ServerSandbox, ServerTransport, StdioServer,
};
use crate::template::Template;
use crate::text;

/// A server in a file, with `command` or `url`.
///
/// Keys of other programs have the same meaning here. Other keys, such as `sandbox`, belong to this
/// crate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ServerEntry {
    /// `stdio`, `http` or `streamable-http`; by default derived from the other keys.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Template>,
    /// The arguments of the program.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<Template>,
    /// The environment variables of the program.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, Template>,
    /// The working folder of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// The URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<Template>,
    /// The headers of requests.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Template>,
    /// The login to the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oauth: Option<OAuthEntry>,
    /// `on`, the default, or `off`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// `off`, the default, `all`, or a list of hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<Value>,
    /// Folders that the program may read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<PathBuf>,
    /// Folders that the program may write.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<PathBuf>,
    /// The memory limit of the program, in megabytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
    /// The timeout of a call without progress reports, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
    /// The timeout of the start, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub startup_timeout: Option<u64>,
    /// The enabled tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Whether requests omit the tools until the model has found them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub defer: Option<bool>,
    /// Whether to trust the server's hints about its tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust_annotations: Option<bool>,
    /// `ask`, the default, `allow` or `deny`: whether the server may use the model of an agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling: Option<String>,
    /// `2025-11-25` or `2026-07-28`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Whether the server is disabled.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
    /// Unknown keys.
    #[serde(flatten)]
    pub others: BTreeMap<String, Value>,
}

/// The login to a server, as a file describes it. Missing values are discovered from the server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct OAuthEntry {
    /// The ID of a client that is registered with the authorization server.
    #[serde(alias = "client_id", skip_serializing_if = "Option::is_none")]
    pub client_id: Option<Template>,
    /// Its secret.
    #[serde(alias = "client_secret", skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<Template>,
    /// The requested scopes: a list, or a string with spaces between them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Value>,
    /// The address of a document that describes the client.
    #[serde(alias = "client_metadata_url", skip_serializing_if = "Option::is_none")]
    pub client_metadata_url: Option<String>,
    /// The port that the browser returns to.
    #[serde(alias = "callback_port", skip_serializing_if = "Option::is_none")]
    pub callback_port: Option<u16>,
    /// `user`, the default, or `client_credentials`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grant: Option<String>,
    /// Unknown keys.
    #[serde(flatten)]
    pub others: BTreeMap<String, Value>,
}

impl OAuthEntry {
    fn to_client(&self) -> Result<OAuthClient, String> {
        let grant = match self.grant.as_deref() {
            None | Some("user" | "authorization_code") => OAuthGrant::User,
            Some("client_credentials")
                if self.client_id.is_some() && self.client_secret.is_some() =>
            {
                OAuthGrant::Client
            }
            Some("client_credentials") => {
                return Err(
                    "`oauth`: grant `client_credentials` needs `clientId` and `clientSecret`"
                        .to_owned(),
                );
            }
            Some(_) => {
                return Err(
                    "`oauth`: unknown value of `grant`; available: user, client_credentials"
                        .to_owned(),
                );
            }
        };
        let scopes = match &self.scopes {
            None => Some(Vec::new()),
            Some(Value::String(text)) => {
                Some(text.split_whitespace().map(ToOwned::to_owned).collect())
            }
            Some(Value::Array(scopes)) => {
                scopes.iter().map(|it| it.as_str().map(ToOwned::to_owned)).collect()
            }
            Some(_) => None,
        };
        Ok(OAuthClient {
            id: self.client_id.clone(),
            secret: self.client_secret.clone(),
            scopes: scopes.ok_or("`oauth`: `scopes` must be a list of strings")?,
            metadata_url: self.client_metadata_url.clone(),
            callback_port: self.callback_port,
            grant,
        })
    }
}

/// The error of a server in a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("MCP server `{server}`: {reason}")]
#[non_exhaustive]
pub struct EntryError {
    /// The name of the server.
    pub server: String,
    /// The problem and its remedy.
    pub reason: String,
}

/// The longest time limit, a year: every clock can add it.
const MAX_SECONDS: u64 = 365 * 24 * 3600;

/// Keys that restrict, which must not be misspelt unnoticed. Other unknown keys are those of other programs.
const RESTRICTING: [&str; 4] = ["sandbox", "network", "tools", "sampling"];

impl ServerEntry {
    /// Converts the entry to the configuration of a server.
    ///
    /// # Errors
    ///
    /// Returns an error if the keys contradict each other, or a value is unknown.
    pub fn to_server(&self, name: &str) -> Result<McpServer, EntryError> {
        let wrong =
            |reason: &str| EntryError { server: text::line(name), reason: reason.to_owned() };
        if name.trim().is_empty() || name.len() > 128 {
            return Err(wrong("the name must have 1 to 128 characters"));
        }
        for key in self.others.keys() {
            let is_meant = |known: &&&str| known.eq_ignore_ascii_case(key);
            if let Some(known) = RESTRICTING.iter().find(is_meant) {
                return Err(wrong(&format!(
                    "unknown key `{}`; did you mean `{known}`?",
                    text::line(key)
                )));
            }
        }
        let mut server = match (self.kind.as_deref(), &self.command, &self.url) {
            (None | Some("stdio"), Some(command), None) => {
                McpServer::stdio(name, self.stdio(command))
            }
            (None | Some("http" | "streamable-http" | "streamableHttp"), None, Some(url)) => {
                let oauth = self.oauth.as_ref().map(OAuthEntry::to_client).transpose();
                let oauth = oauth.map_err(|reason| wrong(&reason))?.unwrap_or_default();
                let (url, headers) = (url.clone(), self.headers.clone());
                McpServer::http(name, HttpServer { url, headers, oauth })
            }
            (Some("sse"), ..) => {
                return Err(wrong("type `sse` is not supported; use type `http` and its URL"));
            }
            (Some(kind @ ("stdio" | "http" | "streamable-http" | "streamableHttp")), ..) => {
                let key = if kind == "stdio" { "command" } else { "url" };
                return Err(wrong(&format!(
                    "type `{kind}` requires `{key}`; do not set both `command` and `url`"
                )));
            }
            (Some(kind), ..) => {
                return Err(wrong(&format!(
                    "unknown type `{}`; available: stdio, http",
                    text::line(kind)
                )));
            }
            (None, ..) => return Err(wrong("write either `command` or `url`")),
        };
        server.sandbox = self.sandbox().map_err(|reason| wrong(&reason))?;
        if let Some(seconds) = self.timeout {
            server.call_timeout = Duration::from_secs(seconds.clamp(1, MAX_SECONDS));
            server.max_call_time = server.max_call_time.max(server.call_timeout);
        }
        if let Some(seconds) = self.startup_timeout {
            server.startup_timeout = Duration::from_secs(seconds.clamp(1, MAX_SECONDS));
        }
        server.tools.clone_from(&self.tools);
        server.defer = self.defer;
        server.trust_annotations = self.trust_annotations.unwrap_or(false);
        server.sampling = match self.sampling.as_deref() {
            None | Some("ask") => ServerSampling::Ask,
            Some("allow") => ServerSampling::Allow,
            Some("deny") => ServerSampling::Deny,
            Some(_) => {
                return Err(wrong("unknown value of `sampling`; available: ask, allow, deny"));
            }
        };
        server.protocol = match self.protocol.as_deref() {
            None => ProtocolChoice::Auto,
            Some("2025-11-25") => ProtocolChoice::V2025_11_25,
            Some("2026-07-28") => ProtocolChoice::V2026_07_28,
            Some(_) => {
                return Err(wrong(
                    "unknown value of `protocol`; available: 2025-11-25, 2026-07-28",
                ));
            }
        };
        Ok(server)
    }

    fn stdio(&self, command: &Template) -> StdioServer {
        StdioServer {
            command: command.clone(),
            args: self.args.clone(),
            env: self.env.clone(),
            cwd: self.cwd.clone(),
        }
    }

    fn sandbox(&self) -> Result<ServerSandbox, String> {
        let defaults = ServerSandbox::default();
        Ok(ServerSandbox {
            enabled: match self.sandbox.as_deref() {
                None | Some("on") => true,
                Some("off") => false,
                Some(_) => return Err("unknown value of `sandbox`; available: on, off".to_owned()),
            },
            network: network(self.network.as_ref())?,
            read: self.read.clone(),
            write: self.write.clone(),
            memory: self
                .memory_mb
                .map_or(defaults.memory, |megabytes| megabytes.saturating_mul(1 << 20)),
        })
    }
}

fn network(value: Option<&Value>) -> Result<ServerNetwork, String> {
    let unknown = || "unknown value of `network`; available: off, all, a list of hosts".to_owned();
    match value {
        None => Ok(ServerNetwork::Off),
        Some(Value::String(word)) if word == "off" => Ok(ServerNetwork::Off),
        Some(Value::String(word)) if word == "all" => Ok(ServerNetwork::All),
        Some(Value::Array(hosts)) if hosts.is_empty() => Ok(ServerNetwork::Off),
        Some(Value::Array(hosts)) => {
            let host = |host: &Value| {
                let text = host.as_str().ok_or_else(unknown)?;
                text.parse::<AllowedDomain>().map_err(|error| format!("`network`: {error}"))
            };
            Ok(ServerNetwork::Hosts(hosts.iter().map(host).collect::<Result<_, _>>()?))
        }
        Some(_) => Err(unknown()),
    }
}

/// A file `.mcp.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct McpFile {
    /// The servers by name. An invalid server does not affect the others.
    #[serde(rename = "mcpServers", default)]
    pub servers: BTreeMap<String, Value>,
    /// Other keys of the file.
    #[serde(flatten)]
    pub others: BTreeMap<String, Value>,
}

impl McpFile {
    /// Parses a file.
    ///
    /// # Errors
    ///
    /// Returns an error if it is not JSON, or `mcpServers` is not an object.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        // Some editors write a mark of the encoding at the start.
        serde_json::from_str(text.strip_prefix('\u{feff}').unwrap_or(text))
    }

    /// Returns the enabled servers, or the error of each invalid one.
    pub fn servers(&self) -> impl Iterator<Item = Result<McpServer, EntryError>> {
        self.servers.iter().filter_map(|(name, value)| read_entry(name, value.clone()))
    }
}

/// Parses one server. Returns `None` for a disabled server.
pub fn read_entry(name: &str, value: Value) -> Option<Result<McpServer, EntryError>> {
    match serde_json::from_value::<ServerEntry>(value) {
        Ok(entry) if entry.disabled => None,
        Ok(entry) => Some(entry.to_server(name)),
        Err(error) => {
            // The text of the error may hold a value, and so a secret.
            let problem = error.to_string();
            let problem = problem.split(['`', '"']).next().unwrap_or_default().trim_end();
            let reason = format!(
                "invalid value ({}); see the documentation on MCP servers",
                text::line(problem)
            );
            Some(Err(EntryError { server: text::line(name), reason }))
        }
    }
}

impl McpServer {
    /// Returns lines that describe the permissions of the server, for the user's decision to trust
    /// it. They do not contain values of variables and headers.
    pub fn describe(&self) -> Vec<String> {
        let mut lines = Vec::new();
        match &self.transport {
            ServerTransport::Stdio(stdio) => {
                let words = std::iter::once(&stdio.command).chain(&stdio.args);
                let words: Vec<&str> = words.map(Template::as_str).collect();
                lines.push(format!("runs: {}", text::clean(&words.join(" ")).replace('\n', "\\n")));
                if !stdio.env.is_empty() {
                    let names: Vec<&str> = stdio.env.keys().map(String::as_str).collect();
                    lines.push(format!("environment: {}", text::line(&names.join(", "))));
                }
                lines.extend(self.describe_sandbox());
            }
            ServerTransport::Http(http) => {
                lines.push(format!(
                    "connects to: {}",
                    text::line(&without_login(http.url.as_str()))
                ));
                if !http.headers.is_empty() {
                    let names: Vec<&str> = http.headers.keys().map(String::as_str).collect();
                    lines.push(format!("headers: {}", text::line(&names.join(", "))));
                }
                if http.oauth.grant == OAuthGrant::Client {
                    lines.push("logs in without a user, with a client secret".to_owned());
                }
            }
        }
        let mut variables: Vec<&str> = self.templates().flat_map(Template::variables).collect();
        variables.sort_unstable();
        variables.dedup();
        if !variables.is_empty() {
            lines.push(format!("receives the values of: {}", variables.join(", ")));
        }
        if self.sampling == ServerSampling::Allow {
            lines.push("uses your models, at your cost, without asking".to_owned());
        }
        if self.trust_annotations {
            lines
                .push("the server's own annotations decide which calls may be repeated".to_owned());
        }
        lines
    }

    fn describe_sandbox(&self) -> Vec<String> {
        let sandbox = &self.sandbox;
        if !sandbox.enabled {
            return vec!["sandbox: off; the server has your permissions".to_owned()];
        }
        let paths = |paths: &[PathBuf]| {
            let shown = paths.iter().map(|path| text::line(&path.to_string_lossy()));
            shown.collect::<Vec<_>>().join(", ")
        };
        let mut parts = vec!["sandbox: on".to_owned(), "writes to the working folder".to_owned()];
        if !sandbox.write.is_empty() {
            parts.push(format!("writes {}", paths(&sandbox.write)));
        }
        if !sandbox.read.is_empty() {
            parts.push(format!("reads {}", paths(&sandbox.read)));
        }
        parts.push(match &sandbox.network {
            ServerNetwork::Off => "no network".to_owned(),
            ServerNetwork::All => "network: every host".to_owned(),
            ServerNetwork::Hosts(hosts) => {
                let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
                format!("network: {}", text::line(&hosts.join(", ")))
            }
        });
        vec![parts.join(", ")]
    }

    fn templates(&self) -> Box<dyn Iterator<Item = &Template> + '_> {
        match &self.transport {
            ServerTransport::Stdio(stdio) => {
                let words = std::iter::once(&stdio.command).chain(&stdio.args);
                Box::new(words.chain(stdio.env.values()))
            }
            ServerTransport::Http(http) => {
                let login = http.oauth.id.iter().chain(&http.oauth.secret);
                Box::new(std::iter::once(&http.url).chain(http.headers.values()).chain(login))
            }
        }
    }
}

/// Returns an address without the name and password of a user.
fn without_login(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    match authority.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://…@{host}{path}"),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"{"mcpServers": {
        "files": {"type": "stdio", "command": "npx", "args": ["-y", "server", "${HOME:-/}"], "env": {"KEY": "${API_KEY}"}},
        "web": {"type": "http", "url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}, "oauth": {}},
        "old": {"type": "sse", "url": "https://example.com/sse"},
        "both": {"command": "a", "url": "b"},
        "off": {"command": "a", "disabled": true},
        "broken": {"command": {"secret": "s3cr3t"}},
        "typo": {"command": "a", "Sandbox": "off"}
    }}"#;

    #[test]
    fn every_server_of_a_file_is_read_or_has_its_own_error() {
        let file = McpFile::parse(FILE).unwrap();
        let (good, bad): (Vec<_>, Vec<_>) = file.servers().partition(Result::is_ok);
        let names: Vec<String> = good.into_iter().map(|it| it.unwrap().name).collect();
        assert_eq!(names, ["files", "web"]);
        let errors: Vec<String> = bad.into_iter().map(|it| it.unwrap_err().to_string()).collect();
        assert_eq!(errors.len(), 4, "{errors:?}");
        for (error, expected) in errors.iter().zip([
            "`both`: type",
            "`broken`: invalid value",
            "`old`: type `sse`",
            "did you mean `sandbox`?",
        ]) {
            let expected = if expected.starts_with("`both`") {
                "write either `command` or `url`"
            } else {
                expected
            };
            assert!(error.contains(expected) && !error.contains("s3cr3t"), "{error}");
        }
    }

    #[test]
    fn a_file_may_begin_with_the_mark_of_its_encoding() {
        assert_eq!(
            McpFile::parse(&format!("\u{feff}{FILE}")).unwrap(),
            McpFile::parse(FILE).unwrap()
        );
    }

    #[test]
    fn a_description_shows_no_login_of_an_address() {
        for (url, shown) in [
            ("https://user:s3cret@example.com/mcp?a=b@c", "https://…@example.com/mcp?a=b@c"),
            ("https://us@er:s3cret@example.com", "https://…@example.com"),
            ("https://example.com/@mcp", "https://example.com/@mcp"),
            ("${URL}", "${URL}"),
        ] {
            let server = McpServer::http("s", HttpServer::new(url));
            assert_eq!(server.describe()[0], format!("connects to: {shown}"));
        }
    }

    #[test]
    fn keys_of_this_crate_are_read() {
        let entry = serde_json::json!({
            "command": "a", "sandbox": "on", "network": ["api.github.com"], "read": ["/opt"], "memory_mb": 256,
            "timeout": 5, "startup_timeout": u64::MAX, "tools": ["x*"], "defer": true, "protocol": "2025-11-25",
        });
        let server = read_entry("s", entry).unwrap().unwrap();
        assert_eq!(
            server.sandbox.network,
            ServerNetwork::Hosts(vec!["api.github.com".parse().unwrap()])
        );
        assert_eq!((server.sandbox.memory, server.call_timeout.as_secs()), (256 << 20, 5));
        assert_eq!(server.startup_timeout.as_secs(), MAX_SECONDS);
        assert_eq!((server.defer, server.protocol), (Some(true), ProtocolChoice::V2025_11_25));
        assert!(server.uses("xy") && !server.uses("y"));
    }

    #[test]
    fn what_a_file_says_of_logins_is_read() {
        let of = |oauth: Value| {
            let entry = serde_json::json!({ "url": "https://example.com/mcp", "oauth": oauth });
            let server = read_entry("s", entry).unwrap().map_err(|error| error.reason)?;
            let ServerTransport::Http(http) = server.transport else { panic!("not http") };
            Ok(http.oauth)
        };
        let of_user = serde_json::json!({
            "clientId": "${ID}", "scopes": "read write", "callbackPort": 8123, "authServerMetadataUrl": "https://x",
        });
        let expected = OAuthClient {
            id: Some(Template::new("${ID}")),
            scopes: vec!["read".to_owned(), "write".to_owned()],
            callback_port: Some(8123),
            ..OAuthClient::default()
        };
        assert_eq!(of(of_user), Ok(expected));
        let of_client = serde_json::json!({
            "client_id": "a", "client_secret": "${SECRET}", "grant": "client_credentials",
        });
        assert_eq!(of(of_client), Ok(OAuthClient::of_client("a", "${SECRET}")));
        for (wrong, expected) in [
            (
                serde_json::json!({ "grant": "client_credentials" }),
                "needs `clientId` and `clientSecret`",
            ),
            (serde_json::json!({ "grant": "password" }), "unknown value of `grant`"),
            (serde_json::json!({ "scopes": [1] }), "must be a list of strings"),
        ] {
            let error: String = of(wrong).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_host_that_is_none_is_refused_with_what_to_write() {
        let entry = serde_json::json!({ "command": "a", "network": ["https://api.github.com"] });
        let told = "`network`: `https://api.github.com` is not a host name; write `example.com`, \
                    `*.example.com` or `example.com:8443`";
        assert!(read_entry("s", entry).unwrap().unwrap_err().to_string().contains(told));
    }

    #[test]
    fn a_description_names_what_a_server_receives_and_never_a_value() {
        let file = McpFile::parse(FILE).unwrap();
        let lines: Vec<String> = file.servers().flatten().flat_map(|it| it.describe()).collect();
        let text = lines.join("\n");
        for expected in [
            "runs: npx -y server ${HOME:-/}",
            "environment: KEY",
            "no network",
            "receives the values of: API_KEY, HOME",
            "headers: Authorization",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert!(!text.contains("Bearer"));
    }
}
