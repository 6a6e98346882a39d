//! What agents do, told to the world outside.
//!
//! A [`Broadcasting`] listens to runs and makes a [`EncodedEnvelope`] of whatever its [`BroadcastConfig`] wants
//! told: an [envelope](BroadcastEnvelope) of `type`, `session_id`, `execution_id`, `timestamp` and
//! `payload`, encoded once however many listen. Each listener has a bounded queue of its own, so that one
//! that is slow, fails, panics or never comes back costs a run nothing.
//!
//! | listener | how |
//! |---|---|
//! | a program that embeds the agent | [`Broadcasting::subscribe`] |
//! | a transport of one's own, on a thread of its own | [`Broadcasting::attach_transport`] |
//! | lines of JSON in a file or pipe | [`JsonLines`] |
//! | people | [`ConsoleObserver`], which tells more than what is broadcast |
//!
//! What a full queue forgets first, and what it never forgets, is told at [`Subscription`].

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
