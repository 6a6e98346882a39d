//! Broadcasting of agents' events to other programs.
//!
//! A [`Broadcasting`] listens to runs and creates an [`EncodedEnvelope`] from each event that its
//! [`BroadcastConfig`] selects: an [envelope](BroadcastEnvelope) of `type`, `session_id`,
//! `execution_id`, `timestamp` and `payload`, encoded once for all listeners. Each listener has its
//! own bounded queue, so that a listener that is slow, fails, panics or hangs does not affect a
//! run.
//!
//! | listener | how |
//! |---|---|
//! | a program that embeds the agent | [`Broadcasting::subscribe`] |
//! | your own transport, on its own thread | [`Broadcasting::attach_transport`] |
//! | lines of JSON in a file or pipe | [`JsonLines`] |
//! | people | [`ConsoleObserver`], which shows more than the broadcast events |
//!
//! [`Subscription`] documents the order in which a full queue drops envelopes.

pub mod text;

mod redact;
mod config;
mod status;
mod payload;
mod frame;
mod arguments;
mod broadcaster;
mod queue;
mod broadcasting;
mod transport;
mod worker;
mod outlet;
mod lines;
mod console;

pub use crate::{
    broadcaster::Broadcaster,
    broadcasting::{Broadcasting, CAPACITY, Subscription},
    config::BroadcastConfig,
    console::{ConsoleObserver, ConsoleOptions},
    frame::{BroadcastEnvelope, EncodedEnvelope, envelope_types},
    lines::JsonLines,
    outlet::{DeliveryStats, TransportHandle},
    redact::Redactor,
    status::BroadcastStatus,
    transport::{BroadcastTransport, deliver},
};
