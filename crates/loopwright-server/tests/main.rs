//! The server over HTTP, in process.

#![expect(clippy::unwrap_used, reason = "the lints spare tests, but not what they share")]

mod a2a;
mod api;
mod attacks;
mod client_tools;
#[cfg(feature = "page")]
mod decisions;
mod events;
#[cfg(feature = "files")]
mod files;
mod limits;
#[cfg(feature = "listen")]
mod listening;
#[cfg(feature = "mcp")]
mod mcp;
mod openapi;
#[cfg(feature = "page")]
mod page;
mod projections;
mod queued;
mod remote_agent;
mod stopping;
mod world;
