//! Servers of the Model Context Protocol as tool sources, and tools as a server of it.

mod backoff;
mod capability;
mod catalog;
mod client;
mod config;
mod connection;
mod content;
mod elicitation;
mod entry;
mod error;
mod event;
mod handler;
mod http;
mod input;
mod launch;
mod log;
mod login;
mod names;
mod resource_tool;
mod resources;
mod search;
mod server;
mod source;
mod stdio;
mod template;
mod text;
mod tool;
mod tools;

#[cfg(feature = "http-server")]
pub use crate::server::HttpToolServer;
pub use crate::{
    capability::UseMcp,
    catalog::{Catalog, CatalogDiff, CatalogStore, FileCatalogs},
    client::{McpClient, ServerHealth, ServerStatus},
    config::{
        HttpServer, McpServer, ProtocolChoice, ServerNetwork, ServerSandbox, ServerTransport,
        StdioServer,
    },
    connection::ConnectionInfo,
    elicitation::{AnswerElicitations, Elicitation, ElicitationReply},
    entry::{EntryError, McpFile, ServerEntry, read_entry},
    error::McpError,
    event::{McpLogLevel, McpProgress, McpServerConnected, McpToolLog},
    launch::McpHost,
    log::ServerLog,
    login::{Login, LoginFolder, LoginOptions},
    names::{MAX_TOOL_NAME, server_part, tool_names},
    resources::{ListedPrompt, ListedResource, PromptArgument},
    server::{
        ClientReplies, ClientRequests, Completion, CompletionTarget, PromptCall, PromptReply,
        ResourceBody, ResourceData, ServeError, ServedArgument, ServedContent, ServedPrompt,
        ServedResource, ServedTemplate, ServerChanges, ToolServer,
    },
    source::McpToolSource,
    template::{Template, TemplateError},
    text::clean,
    tools::{ListedTool, Listing, ToolHints},
};
