//! Language models behind providers' HTTP interfaces.
//!
//! - [`Providers`] finds the model that a state asks for: presets and the user's own providers.
//! - [`RemoteModel`] asks one model, on one of the [`Wire`]s that providers speak.
//! - [`Encoder`] writes requests and [`AnswerDecoder`] reads answers, without a network.
//! - [`Http`] carries requests, [`RetryPolicy`] says which are sent again, and [`sse`] splits what
//!   comes back into events.
//!
//! An answer is whole or an error: a stream that ends early, half a body, or an error inside a
//! successful answer never becomes a short answer.

mod secret;
mod quirks;
mod error;
mod http;
mod retry;

pub mod sse;
mod lines;
mod lenient;
mod json;
mod dialect;
mod call_ids;

mod wire;
mod decoder;
mod encoder;
mod openai_chat;

mod remote;
mod preset;
mod provider;
mod choose;

pub use crate::{
    decoder::AnswerDecoder,
    dialect::{ExchangeText, exchange_text},
    encoder::Encoder,
    error::ErrorContext,
    http::{Http, Timeouts},
    preset::{Provider, presets},
    provider::Providers,
    quirks::{MaxTokensField, Quirks},
    remote::RemoteModel,
    retry::RetryPolicy,
    secret::{EnvKeys, KeyRef, KeySource, NotAReference, Secret},
    wire::{UnknownWire, Wire},
};
