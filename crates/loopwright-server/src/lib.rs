//! Agents over HTTP: a server, and its parts for applications that have routes of their own.
//!
//! [`Server`] serves the sessions of a store: its [router](Server::router) can be served as it is
//! or merged into that of an application. A run belongs to its session and not to a connection:
//! messages are jobs in the store's queue, which a worker of this or another process runs, and any
//! number of clients can follow. Sessions belong to [principals](Principal).
//!
//! [`events`] is a single route: the events of a session as server-sent events. It has no access
//! control, so put your own layer around it.
//!
//! ```
//! use std::sync::Arc;
//!
//! use axum::{Router, routing::get};
//! use loopwright_server::{EventStreams, events};
//! use loopwright_sessions::MemoryStore;
//!
//! let streams = EventStreams::new(Arc::new(MemoryStore::default()));
//! let app: Router = Router::new().route("/sessions/{session}/events", get(events)).with_state(streams);
//! ```

mod access;
mod agents;
mod audit;
mod cursor;
mod events;
mod extract;
mod guard;
mod limits;
#[cfg(feature = "listen")]
mod listen;
#[cfg(feature = "mcp")]
mod mcp_mount;
mod metrics;
mod openapi;
#[cfg(feature = "oidc")]
mod oidc;
mod operation;
#[cfg(feature = "page")]
mod page;
mod principal;
mod problem;
mod projections;
mod ran;
mod rate;
mod router;
mod routes;
mod server;
mod tokens;
mod views;

#[cfg(feature = "listen")]
pub use crate::listen::{ConnectionLimits, listen};
#[cfg(feature = "oidc")]
pub use crate::oidc::{InvalidIssuer, OidcIssuer};
#[cfg(feature = "files")]
pub use crate::routes::files::{DiffView, FileDiff, FileList, FileView};
pub use crate::{
    access::AccessControl,
    agents::{AgentInfo, AgentsError, KeptRules, RuleScope, ServedAgents},
    audit::AuditEntry,
    cursor::{InvalidCursor, LastEventId},
    events::{EventStreams, events},
    limits::PrincipalLimits,
    openapi::document as openapi_document,
    principal::{Principal, Role},
    problem::{PROBLEM_JSON, Problem},
    ran::RanWith,
    routes::{
        agents::AgentList,
        messages::{EndView, MessageBody, MessageMode},
        pending::{DecisionBody, KeepBody},
        sessions::{ForkBody, NewSessionBody, RewindBody},
        usage::PrincipalUsage,
    },
    server::{NoJobQueue, Server, ServerBuilder},
    tokens::{NewToken, TokenError, TokenFile, TokenKind, TokenRecord, random_token},
    views::{
        CallView, MessagePage, MessageView, PendingKind, PendingList, PendingView, RunList,
        RunView, SessionPage, SessionSummary, SessionView, UsageView,
    },
};
