//! The configuration of a server, as data.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use loopwright_sandbox::AllowedDomain;

use crate::template::Template;

/// A server and its settings. Plain data: references to environment variables are not expanded.
///
/// ```
/// use loopwright_mcp::{McpServer, StdioServer};
///
/// let server = McpServer::stdio("git", StdioServer::new("mcp-server-git").with_args(["--repository", "."]));
/// assert_eq!(server.name, "git");
/// assert!(server.sandbox.enabled);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use]
#[non_exhaustive]
pub struct McpServer {
    /// The name, which is part of the names of its tools and permission rules.
    pub name: String,
    /// The connection to the server.
    pub transport: ServerTransport,
    /// The sandbox of a server process.
    pub sandbox: ServerSandbox,
    /// The timeout of the start and the first list of tools.
    pub startup_timeout: Duration,
    /// The timeout of a call without progress reports.
    pub call_timeout: Duration,
    /// The timeout of a call with progress reports.
    pub max_call_time: Duration,
    /// The enabled tools, by their own names; `*` matches any characters. `None` means all.
    pub tools: Option<Vec<String>>,
    /// Whether requests omit the tools until the model has found them. `None` means that this
    /// depends on their number.
    pub defer: Option<bool>,
    /// Whether to trust the server's hints about its tools: that a tool only reads, or can be
    /// repeated.
    pub trust_annotations: bool,
    /// Whether the server may use the models of agents.
    pub sampling: ServerSampling,
    /// The offered protocol revisions.
    pub protocol: ProtocolChoice,
}

/// The connection to a server.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ServerTransport {
    /// A process with line-based standard input and output.
    Stdio(StdioServer),
    /// A URL.
    Http(HttpServer),
}

/// A server that runs as a process.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
#[non_exhaustive]
pub struct StdioServer {
    /// The program.
    pub command: Template,
    /// Its arguments.
    pub args: Vec<Template>,
    /// Its environment variables, in addition to those that every command has.
    pub env: BTreeMap<String, Template>,
    /// Its working folder; `None` means that of the run.
    pub cwd: Option<PathBuf>,
}

/// A server at a URL.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
#[non_exhaustive]
pub struct HttpServer {
    /// The URL.
    pub url: Template,
    /// Headers of every request.
    pub headers: BTreeMap<String, Template>,
    /// The details of the login that the server does not provide.
    pub oauth: OAuthClient,
}

/// A client of OAuth 2.1 that logs in to a server. Missing values are discovered from the server.
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
#[non_exhaustive]
pub struct OAuthClient {
    /// The ID of a client that is registered with the authorization server.
    pub id: Option<Template>,
    /// Its secret.
    pub secret: Option<Template>,
    /// The requested scopes.
    pub scopes: Vec<String>,
    /// The address of a document that describes the client.
    pub metadata_url: Option<String>,
    /// The port that the browser returns to. `None` selects any free port.
    pub callback_port: Option<u16>,
    /// The party that the client acts for.
    pub grant: OAuthGrant,
}

/// The party that a client acts for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OAuthGrant {
    /// A user, who agrees in a browser.
    #[default]
    User,
    /// The client itself, with its ID and secret.
    Client,
}

/// The permissions of a server process, in addition to those of every confined command.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub struct ServerSandbox {
    /// Whether the server is confined. Otherwise it has the permissions of the user.
    pub enabled: bool,
    /// The network access of the server.
    pub network: ServerNetwork,
    /// Folders that the server may read.
    pub read: Vec<PathBuf>,
    /// Folders that the server may write.
    pub write: Vec<PathBuf>,
    /// The memory limit of all its processes together, in bytes.
    pub memory: u64,
}

/// The network access of a confined server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerNetwork {
    /// Only its own processes.
    #[default]
    Off,
    /// Every host that this machine can reach.
    All,
    /// Only its own processes, and these hosts by name, as with
    /// [`Network::Domains`](loopwright_sandbox::Network::Domains).
    Hosts(Vec<AllowedDomain>),
}

/// Whether a server may use the models of agents, at the agents' cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerSampling {
    /// The user decides about each request.
    #[default]
    Ask,
    /// Each request is allowed.
    Allow,
    /// Each request is refused. The handshake tells the server so.
    Deny,
}

/// The offered protocol revisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProtocolChoice {
    /// The newest that the server knows: 2026-07-28, or an earlier one with a handshake.
    #[default]
    Auto,
    /// 2026-07-28, which has no handshake.
    V2026_07_28,
    /// 2025-11-25, or an earlier one that the server selects.
    V2025_11_25,
}

impl McpServer {
    fn new(name: impl Into<String>, transport: ServerTransport) -> Self {
        Self {
            name: name.into(),
            transport,
            sandbox: ServerSandbox::default(),
            startup_timeout: Duration::from_secs(30),
            call_timeout: Duration::from_mins(1),
            max_call_time: Duration::from_mins(30),
            tools: None,
            defer: None,
            trust_annotations: false,
            sampling: ServerSampling::default(),
            protocol: ProtocolChoice::default(),
        }
    }

    /// Creates a server that runs as a process.
    pub fn stdio(name: impl Into<String>, server: StdioServer) -> Self {
        Self::new(name, ServerTransport::Stdio(server))
    }

    /// Creates a server at a URL.
    pub fn http(name: impl Into<String>, server: HttpServer) -> Self {
        Self::new(name, ServerTransport::Http(server))
    }

    /// Sets the sandbox of the process.
    pub fn with_sandbox(mut self, sandbox: ServerSandbox) -> Self {
        self.sandbox = sandbox;
        self
    }

    /// Sets the timeout of the start.
    pub fn with_startup_timeout(mut self, timeout: Duration) -> Self {
        self.startup_timeout = timeout;
        self
    }

    /// Sets the timeout of a call without progress reports.
    pub fn with_call_timeout(mut self, timeout: Duration) -> Self {
        self.call_timeout = timeout;
        self
    }

    /// Sets the timeout of a call with progress reports.
    pub fn with_max_call_time(mut self, timeout: Duration) -> Self {
        self.max_call_time = timeout;
        self
    }

    /// Sets the enabled tools, by their own names; `*` matches any characters.
    pub fn with_tools<T: Into<String>>(mut self, tools: impl IntoIterator<Item = T>) -> Self {
        self.tools = Some(tools.into_iter().map(Into::into).collect());
        self
    }

    /// Sets whether requests omit the tools until the model has found them.
    pub fn with_defer(mut self, defer: bool) -> Self {
        self.defer = Some(defer);
        self
    }

    /// Trusts the server's hints about its tools: that a tool only reads, or can be repeated.
    pub fn with_trusted_annotations(mut self) -> Self {
        self.trust_annotations = true;
        self
    }

    /// Sets whether the server may use the models of agents.
    pub fn with_sampling(mut self, sampling: ServerSampling) -> Self {
        self.sampling = sampling;
        self
    }

    /// Sets the offered protocol revisions.
    pub fn with_protocol(mut self, protocol: ProtocolChoice) -> Self {
        self.protocol = protocol;
        self
    }

    /// Returns `true` if the server has no more permissions than a confined command without
    /// network.
    pub fn is_confined(&self) -> bool {
        matches!(self.transport, ServerTransport::Stdio(_))
            && self.sandbox.enabled
            && self.sandbox.network == ServerNetwork::Off
    }

    /// Returns `true` if the tool is enabled.
    pub fn uses(&self, tool: &str) -> bool {
        let Some(patterns) = &self.tools else { return true };
        patterns.iter().any(|pattern| matches(pattern, tool))
    }
}

/// Returns `true` if a name fits a pattern in which `*` stands for any characters.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

impl StdioServer {
    /// Creates a server from a program without arguments.
    pub fn new(command: impl Into<String>) -> Self {
        let command = Template::new(command);
        Self { command, args: Vec::new(), env: BTreeMap::new(), cwd: None }
    }

    /// Adds arguments.
    pub fn with_args<T: Into<String>>(mut self, args: impl IntoIterator<Item = T>) -> Self {
        self.args.extend(args.into_iter().map(Template::new));
        self
    }

    /// Sets an environment variable.
    pub fn with_env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), Template::new(value));
        self
    }

    /// Sets the working folder.
    pub fn with_cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }
}

impl HttpServer {
    /// Creates a server at this URL.
    pub fn new(url: impl Into<String>) -> Self {
        let (headers, oauth) = (BTreeMap::new(), OAuthClient::default());
        Self { url: Template::new(url), headers, oauth }
    }

    /// Sets a header.
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), Template::new(value));
        self
    }
}

impl HttpServer {
    /// Sets the details of the login.
    pub fn with_oauth(mut self, oauth: OAuthClient) -> Self {
        self.oauth = oauth;
        self
    }
}

impl OAuthClient {
    /// Creates a client that acts on its own.
    pub fn of_client(id: impl Into<String>, secret: impl Into<String>) -> Self {
        let (id, secret) = (Some(Template::new(id)), Some(Template::new(secret)));
        Self { id, secret, grant: OAuthGrant::Client, ..Self::default() }
    }
}

impl Default for ServerSandbox {
    fn default() -> Self {
        Self {
            enabled: true,
            network: ServerNetwork::Off,
            read: Vec::new(),
            write: Vec::new(),
            memory: 1 << 30,
        }
    }
}

impl ServerSandbox {
    /// Creates settings without a sandbox.
    pub fn off() -> Self {
        Self { enabled: false, ..Self::default() }
    }

    /// Sets the network access.
    pub fn with_network(mut self, network: ServerNetwork) -> Self {
        self.network = network;
        self
    }

    /// Adds a folder that the server may read.
    pub fn with_read(mut self, path: impl Into<PathBuf>) -> Self {
        self.read.push(path.into());
        self
    }

    /// Adds a folder that the server may write.
    pub fn with_write(mut self, path: impl Into<PathBuf>) -> Self {
        self.write.push(path.into());
        self
    }

    /// Sets the memory limit of all its processes together, in bytes.
    pub fn with_memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        let cases = [
            ("read", "read", true),
            ("read", "read_file", false),
            ("read_*", "read_file", true),
            ("*_file", "read_file", true),
            ("r*d*f*e", "read_file", true),
            ("*", "", true),
            ("a*a", "a", false),
            ("", "a", false),
            ("*x*", "abc", false),
        ];
        for (pattern, name, fits) in cases {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn only_a_confined_process_without_network_counts_as_confined() {
        let stdio = || McpServer::stdio("s", StdioServer::new("s"));
        assert!(stdio().is_confined());
        assert!(!stdio().with_sandbox(ServerSandbox::off()).is_confined());
        let network = ServerSandbox::default().with_network(ServerNetwork::All);
        assert!(!stdio().with_sandbox(network).is_confined());
        assert!(!McpServer::http("s", HttpServer::new("http://localhost/mcp")).is_confined());
    }
}
