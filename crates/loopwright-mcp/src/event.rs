//! Events of connections for listeners of a run.

use loopwright_core::CustomEvent;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A call has used a server for the first time since its connection was opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct McpServerConnected {
    /// The name of the server.
    pub server: String,
    /// The revision of the protocol.
    pub protocol: String,
    /// The name and version of the server's program, as it reports them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub implementation: Option<String>,
    /// Whether the server runs confined, without a network.
    pub is_confined: bool,
}

impl CustomEvent for McpServerConnected {
    const NAME: &'static str = "mcp_server_connected";
}

/// A server has reported the progress of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct McpProgress {
    /// The name of the server.
    pub server: String,
    /// The name of the tool for the model.
    pub tool: String,
    /// The ID of the call, if the model set one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// The progress of the call.
    pub progress: f64,
    /// The total of `progress`, if the server knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// The server's message about the state of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl McpProgress {
    /// Reports the progress of a call of a [`ToolServer`](crate::ToolServer) to its client.
    pub fn new(tool: &str, progress: f64, message: impl Into<String>) -> Self {
        Self {
            server: String::new(),
            tool: tool.to_owned(),
            call_id: None,
            progress,
            total: None,
            message: Some(message.into()),
        }
    }

    /// Sets the value of `progress` at the end of the call.
    #[must_use]
    pub fn with_total(self, total: f64) -> Self {
        Self { total: Some(total), ..self }
    }
}

/// A server has sent a log message while a call waited for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct McpLog {
    /// The name of the server.
    pub server: String,
    /// The level, such as `info` or `warning`.
    pub level: String,
    /// The message, sanitized and truncated.
    pub message: String,
}

impl CustomEvent for McpLog {
    const NAME: &'static str = "mcp_log";
}

impl CustomEvent for McpProgress {
    const NAME: &'static str = "mcp_progress";
}

/// A message of a tool to the log of the client that calls a [`ToolServer`](crate::ToolServer).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct McpToolLog {
    /// The severity of the message.
    pub level: McpLogLevel,
    /// The part of the program that the message comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logger: Option<String>,
    /// The message: a text, or any other value.
    pub data: Value,
}

/// The severity of a message, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are those of syslog")]
pub enum McpLogLevel {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl McpToolLog {
    /// Creates a message of this severity.
    pub fn new(level: McpLogLevel, data: impl Into<Value>) -> Self {
        Self { level, logger: None, data: data.into() }
    }

    /// Sets the part of the program that the message comes from.
    #[must_use]
    pub fn with_logger(self, logger: impl Into<String>) -> Self {
        Self { logger: Some(logger.into()), ..self }
    }
}

impl CustomEvent for McpToolLog {
    const NAME: &'static str = "mcp_tool_log";
}
