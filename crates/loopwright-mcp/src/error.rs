//! Errors of servers.

use std::time::Duration;

use loopwright_sandbox::SandboxError;

use crate::programs::Missing;
use crate::template::TemplateError;

/// An error of a server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// The configuration refers to a variable that is not set.
    #[error("MCP server `{server}` cannot be used: {source}")]
    Configuration {
        /// The server.
        server: String,
        /// The cause.
        source: TemplateError,
    },
    /// A value of the configuration is invalid.
    #[error("MCP server `{server}` cannot be used: {reason}")]
    Invalid {
        /// The server.
        server: String,
        /// The problem and its remedy.
        reason: String,
    },
    /// The process could not be started in its sandbox.
    #[error("MCP server `{server}` was not started: {source}")]
    Start {
        /// The server.
        server: String,
        /// The cause.
        source: Box<SandboxError>,
    },
    /// The user can start the program of the server, but its sandbox does not show it.
    #[error("MCP server `{server}` was not started: {missing}; {}", remedy(missing))]
    Program {
        /// The server.
        server: String,
        /// The reason.
        missing: Missing,
    },
    /// The handshake failed.
    #[error("MCP server `{server}` did not finish starting: {reason}")]
    Handshake {
        /// The server.
        server: String,
        /// The reason.
        reason: String,
    },
    /// The server requires a login.
    #[error("MCP server `{server}` requires a login; run `loopwright mcp login {server}`")]
    LoginRequired {
        /// The server.
        server: String,
        /// The challenge of the server.
        challenge: Option<String>,
    },
    /// A login failed.
    #[error("login to MCP server `{server}` failed: {reason}")]
    Login {
        /// The server.
        server: String,
        /// The reason.
        reason: String,
    },
    /// The server has failed recently.
    #[error("MCP server `{server}` is not available: {reason}; next attempt in {} s", .wait.as_secs().max(1))]
    BackingOff {
        /// The server.
        server: String,
        /// The time until the next attempt.
        wait: Duration,
        /// The last error.
        reason: String,
    },
    /// A request timed out.
    #[error("MCP server `{server}` did not respond to `{method}` within {} s", .after.as_secs_f32())]
    Timeout {
        /// The server.
        server: String,
        /// The method of the request.
        method: &'static str,
        /// The timeout.
        after: Duration,
    },
    /// The server refused a request.
    #[error("MCP server `{server}` refused `{method}`: {message}")]
    Refused {
        /// The server.
        server: String,
        /// The method of the request.
        method: &'static str,
        /// The message of the server.
        message: String,
    },
    /// The connection was lost, or the server violated the protocol.
    #[error("connection to MCP server `{server}` failed: {reason}")]
    Connection {
        /// The server.
        server: String,
        /// The reason.
        reason: String,
    },
    /// The tool has changed since it was approved.
    #[error(
        "tool `{tool}` of MCP server `{server}` has changed since it was approved; use another tool, and ask the user to review the change with `loopwright mcp show {server}`"
    )]
    NotApproved {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
    },
    /// The server has no tool of this name, or its configuration excludes the tool.
    #[error("unknown tool `{tool}` of MCP server `{server}`; available: {available}")]
    UnknownTool {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
        /// The available tools.
        available: String,
    },
    /// The server was closed.
    #[error("MCP server `{server}` is closed")]
    Closed {
        /// The server.
        server: String,
    },
}

fn remedy(missing: &Missing) -> &'static str {
    match missing {
        Missing::NotInPath(_) => "use the path of the program as the command",
        _ => "add to `read` the folders that the program needs (`mcp add --read FOLDER`)",
    }
}
