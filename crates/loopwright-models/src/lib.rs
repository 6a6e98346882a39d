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
mod record;
mod replay;
mod http;
mod signer;
mod retry;

pub mod sse;
mod lines;
#[cfg(feature = "bedrock")]
mod event_stream;
mod lenient;
mod json;
mod object;
mod tool_input;
mod result_text;
mod function_tool;
mod dialect;
mod call_ids;
mod claude;

mod continuation;
mod wire;
mod decoder;
mod encoder;
mod openai_chat;
mod anthropic;
#[cfg(feature = "bedrock")]
mod bedrock;
mod openai_responses;
mod cohere;
mod gemini;
mod ollama;

mod price;
mod model_info;
mod account;
mod rate;
mod watched;

mod remote;
mod address;
mod least;
mod preset;
mod fallback;
mod provider;
mod choose;

pub use crate::{
    address::AddressVar,
    decoder::AnswerDecoder,
    dialect::{ExchangeText, exchange_text},
    encoder::Encoder,
    error::ErrorContext,
    fallback::Fallback,
    http::{Http, Timeouts},
    model_info::{Capability, ModelCatalog, ModelInfo},
    preset::{Provider, presets},
    price::{LongPrices, Price, Prices},
    provider::Providers,
    quirks::{CallIds, MaxTokensField, Quirks, RoleOrder, SeedField},
    rate::Rate,
    remote::RemoteModel,
    replay::{RecordingError, ReplayMiss},
    retry::RetryPolicy,
    secret::{EnvKeys, KeyRef, KeySource, NotAReference, Secret},
    wire::{UnknownWire, Wire},
};
