//! Servers of the Model Context Protocol as tool sources.

mod backoff;
mod client;
mod config;
mod connection;
mod content;
mod error;
mod event;
mod handler;
mod http;
mod launch;
mod log;
mod names;
mod source;
mod stdio;
mod template;
mod text;
mod tool;
mod tools;

pub use crate::{
    client::{McpClient, ServerHealth, ServerStatus},
    config::{
        HttpServer, McpServer, ProtocolChoice, ServerNetwork, ServerSandbox, ServerTransport,
        StdioServer,
    },
    connection::ConnectionInfo,
    error::McpError,
    event::{McpProgress, McpServerConnected},
    launch::McpHost,
    log::ServerLog,
    names::{MAX_TOOL_NAME, server_part, tool_names},
    source::McpToolSource,
    template::{Template, TemplateError},
    text::clean,
    tools::{ListedTool, Listing, ToolHints},
};
