//! Language models behind providers' HTTP interfaces.
//!
//! - [`Providers`] finds the model that a state asks for: presets and the user's own providers.
//! - [`openai_chat`] is the wire of chat completions, spoken by most of them.
//! - [`Http`] carries requests, [`RetryPolicy`] says which are sent again, and [`sse`] splits what
//!   comes back into events.
//!
//! An answer is whole or an error: a stream that ends early, half a body, or an error inside a
//! successful answer never becomes a short answer.

mod secret;
mod preset;
mod http;
mod retry;
mod error;
mod dialect;
mod choose;
mod provider;

pub mod openai_chat;
pub mod sse;

pub use crate::{
    dialect::{ExchangeText, exchange_text},
    error::ErrorContext,
    http::{Http, Timeouts},
    preset::{MaxTokensField, Provider, Quirks, Wire, presets},
    provider::Providers,
    retry::RetryPolicy,
    secret::{EnvKeys, KeyRef, KeySource, NotAReference, Secret},
};
