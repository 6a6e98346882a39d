//! Servers of the Model Context Protocol as sources of tools, and a server that offers tools to its clients.

mod backoff;
mod cache;
mod call;
mod capability;
mod catalog;
mod changes;
mod client;
mod completion;
mod config;
mod connection;
mod content;
mod credentials;
mod discovery;
mod elicitation;
mod entry;
mod error;
mod event;
mod handler;
mod held;
mod http;
mod in_order;
mod input;
mod launch;
mod listeners;
mod log;
mod login;
mod names;
mod programs;
mod repair;
mod request;
mod resource_tool;
mod resources;
mod sampling;
mod search;
mod server;
mod source;
mod stdio;
mod template;
mod text;
mod tool;
mod tools;
mod watch;

#[cfg(feature = "http-server")]
pub use crate::server::HttpToolServer;
pub use crate::{
    capability::UseMcp,
    catalog::{Catalog, CatalogDiff, CatalogStore, FileCatalogs},
    client::{McpClient, ServerHealth, ServerStatus},
    completion::CompletionTarget,
    config::{
        HttpServer, McpServer, OAuthClient, OAuthGrant, ProtocolChoice, ServerNetwork,
        ServerSampling, ServerSandbox, ServerTransport, StdioServer,
    },
    connection::ConnectionInfo,
    credentials::LoginFolder,
    elicitation::{AnswerElicitations, Elicitation, ElicitationReply},
    entry::{EntryError, McpFile, OAuthEntry, ServerEntry, read_entry},
    error::McpError,
    event::{McpLog, McpLogLevel, McpProgress, McpServerConnected, McpToolLog},
    launch::McpHost,
    log::ServerLog,
    login::{Login, LoginOptions},
    names::{MAX_TOOL_NAME, server_part, tool_names},
    programs::Missing,
    resources::{ListedPrompt, ListedResource, PromptArgument},
    server::{
        ClientReplies, ClientRequests, Completion, PromptCall, PromptReply, ResourceBody,
        ResourceData, ServeError, ServedArgument, ServedContent, ServedPrompt, ServedResource,
        ServedTemplate, ServerChanges, ToolServer,
    },
    source::McpToolSource,
    template::{Template, TemplateError},
    text::clean,
    tools::{ListedTool, Listing, ToolHints},
    watch::ResourceWatch,
};
