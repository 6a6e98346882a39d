//! Arguments about servers of the Model Context Protocol.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use clap_complete::engine::ArgValueCompleter;

use super::agent::PermissionArgs;
use super::values::{StoreParser, parsed};
use crate::completions;
use crate::config::{ModelName, Text};

/// Arguments of `mcp`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct McpArgs {
    /// Use the servers configured for this directory
    #[arg(short = 'C', long, global = true, value_name = "DIR", value_hint = ValueHint::DirPath, default_value = ".")]
    pub workdir: PathBuf,
    /// The command to run.
    #[command(subcommand)]
    pub command: McpCommand,
}

/// The commands of `mcp`.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum McpCommand {
    /// List the configured servers, without starting them
    List(McpListArgs),
    /// Start a server and show its tools, how they have changed, and its log
    Show(McpShowArgs),
    /// Start servers and report which of them work; exit with code 1 if any fails
    Test(McpTestArgs),
    /// Call a tool of a server and print its result as JSON; exit with code 1 if the tool fails
    Call(McpCallArgs),
    /// Add a server for yourself or for the project
    Add(McpAddArgs),
    /// Remove a server that was added with `mcp add`
    Remove(McpRemoveArgs),
    /// Approve the current tools of a server
    Approve(McpApproveArgs),
    /// Log in to a remote server through a browser
    Login(McpLoginArgs),
    /// Delete the stored login for a server
    Logout(McpLogoutArgs),
    /// Serve agents, sessions and skills, or tools, to an MCP client over standard input and output
    Serve(Box<McpServeArgs>),
}

/// Arguments of `mcp serve`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct McpServeArgs {
    /// Serve these tools instead of agents; no model is needed
    #[arg(long, value_name = "KIND,…", value_enum, value_delimiter = ',', conflicts_with_all = ["agents", "model"])]
    pub tools: Vec<ServedTools>,
    /// Serve only this agent; repeatable [default: all agents]
    #[arg(long = "agent", value_name = "NAME", add = ArgValueCompleter::new(completions::agents))]
    pub agents: Vec<String>,
    /// Use this model from this provider
    #[arg(short, long, value_name = "PROVIDER/NAME", value_parser = parsed::<ModelName>)]
    pub model: Option<ModelName>,
    /// Use this session store [default: sessions.db in ~/.local/state/loopwright]
    #[arg(long, value_name = "URL", value_parser = StoreParser)]
    pub store: Option<Text>,
    /// The permissions of calls.
    #[command(flatten)]
    pub permissions: PermissionArgs,
}

/// Tools that can be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ServedTools {
    /// The file tools
    Files,
    /// Commands in the sandbox
    Bash,
}

/// Arguments of `mcp list`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct McpListArgs {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `mcp show`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct McpShowArgs {
    /// The name of the server
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `mcp test`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct McpTestArgs {
    /// The names of the servers [default: all]
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
}

/// Arguments of `mcp call`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct McpCallArgs {
    /// The name of the server
    #[arg(value_name = "NAME")]
    pub name: String,
    /// The name of the tool on the server
    #[arg(value_name = "TOOL")]
    pub tool: String,
    /// The arguments of the tool, as one JSON object
    #[arg(value_name = "ARGUMENTS", default_value = "{}")]
    pub arguments: String,
}

/// Arguments of `mcp add`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct McpAddArgs {
    /// The name of the server
    #[arg(value_name = "NAME")]
    pub name: String,
    /// The URL of the server, its socket as unix:PATH, or the command that starts the server, with its arguments
    #[arg(
        value_name = "URL|COMMAND",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub target: Vec<String>,
    /// Add the server to the .mcp.json file of the project, for all users of the project
    #[arg(long)]
    pub project: bool,
    /// Set an environment variable for the command; '${NAME}' in the value refers to one of your own variables
    #[arg(short, long, value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// Send this header to the URL; '${NAME}' in the value refers to an environment variable
    #[arg(long, value_name = "NAME: VALUE")]
    pub header: Vec<String>,
    /// Run the command in the sandbox, or with your own permissions [default: on]
    #[arg(long, value_name = "WHICH")]
    pub sandbox: Option<SandboxArg>,
    /// Let the command reach this host; `all` allows every host
    #[arg(long, value_name = "HOST")]
    pub network: Vec<String>,
    /// Let the command read this path
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub read: Vec<PathBuf>,
    /// Let the command write to this path
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub write: Vec<PathBuf>,
    /// Use only this tool of the server; `*` matches any characters; repeatable
    #[arg(long = "tool", value_name = "NAME")]
    pub tools: Vec<String>,
    /// Stop a call after this many seconds without a progress report [default: 60]
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<u64>,
    /// Choose whether the server may use the models of your agents [default: ask]
    #[arg(long, value_name = "WHICH")]
    pub sampling: Option<SamplingArg>,
}

impl McpArgs {
    /// Returns the arguments of `mcp add`, or `None` for other commands.
    pub(super) fn added(&self) -> Option<&McpAddArgs> {
        match &self.command {
            McpCommand::Add(added) => Some(added),
            _ => None,
        }
    }
}

impl McpAddArgs {
    /// Returns the URL of the server, or `None` if it is a command.
    pub(crate) fn url(&self) -> Option<&str> {
        let first = self.target.first()?;
        let is_url = ["https://", "http://", "unix:"].iter().any(|it| first.starts_with(it));
        is_url.then_some(first)
    }
}

/// Whether a server may use the models of agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SamplingArg {
    /// The user decides about each request.
    Ask,
    /// Each request is answered.
    Allow,
    /// Each request is refused.
    Deny,
}

/// Whether a command is confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SandboxArg {
    /// The command is confined.
    On,
    /// The command has your permissions.
    Off,
}

/// Arguments of `mcp remove`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct McpRemoveArgs {
    /// The name of the server
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Remove the server from the .mcp.json file of the project
    #[arg(long)]
    pub project: bool,
}

/// Arguments of `mcp login`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct McpLoginArgs {
    /// The name of the server
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Use this client ID, which you have registered in advance
    #[arg(long, value_name = "ID")]
    pub client_id: Option<String>,
    /// Read the secret of that client from this environment variable
    #[arg(long, value_name = "VARIABLE", requires = "client_id")]
    pub client_secret_env: Option<String>,
    /// Request this scope in addition to those that the server names; repeatable
    #[arg(long = "scope", value_name = "SCOPE")]
    pub scopes: Vec<String>,
}

/// Arguments of `mcp logout`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct McpLogoutArgs {
    /// The name of the server
    #[arg(value_name = "NAME")]
    pub name: String,
}

/// Arguments of `mcp approve`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct McpApproveArgs {
    /// The name of the server
    #[arg(value_name = "NAME")]
    pub name: String,
}
