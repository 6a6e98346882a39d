//! Agents over HTTP: parts of a server, to be mounted wherever they are wanted.
//!
//! [`events`] tells what a session's agent does as server-sent events. Nothing here knows who may see
//! what: put a layer of your own around it.
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

mod cursor;
mod events;

pub use crate::{
    cursor::{InvalidCursor, LastEventId},
    events::{EventStreams, events},
};
