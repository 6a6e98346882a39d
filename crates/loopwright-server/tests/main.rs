//! The server over HTTP, in process.

#![expect(clippy::unwrap_used, reason = "the lints spare tests, but not what they share")]

mod api;
mod attacks;
mod events;
#[cfg(feature = "listen")]
mod listening;
#[cfg(feature = "mcp")]
mod mcp;
mod openapi;
mod projections;
mod world;
