//! Language models behind providers' HTTP interfaces.
//!
//! - [`Providers`] finds the model that a state selects: presets and the user's own providers.
//! - [`RemoteModel`] calls one model, on one of the [`WireApi`]s of the providers.
//! - [`RequestEncoder`] writes requests and [`ResponseDecoder`] reads responses, without a network.
//! - [`wire_protocol`] contains the trait for your own wire.
//! - [`Http`] sends requests, [`RetryPolicy`] decides which are sent again, and [`sse`] splits
//!   responses into events.
//!
//! A response is complete or an error: a stream that ends early, half a body, or an error inside a
//! successful response never becomes a short response.

mod secret;
mod quirks;
mod error;
mod record;
mod replay;
mod http;
mod web;
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
mod unseen;
mod result_text;
mod function_tool;
mod dialect;
mod call_ids;
mod claude;

mod prefix_reuse;
mod wire;
mod decoder;
mod protocols;
pub mod wire_protocol;
mod reader;
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
mod cost_tracker;
mod rate;
mod content_probe;

mod remote;
mod address;
mod least;
mod preset;
mod fallback;
mod provider;
mod choose;

pub use crate::{
    address::BaseUrlVar,
    decoder::ResponseDecoder,
    dialect::{ReActText, react_text},
    encoder::RequestEncoder,
    error::ErrorContext,
    fallback::FallbackModel,
    http::{Dial, Http, Timeouts, is_loopback},
    model_info::{ModelCapability, ModelCatalog, ModelInfo},
    preset::{ProviderConfig, presets},
    price::{LongContextPrices, Price, Prices},
    provider::Providers,
    quirks::{CallIds, MaxTokensField, Quirks, RoleOrder, SeedField},
    rate::RateLimit,
    remote::RemoteModel,
    replay::{RecordingError, ReplayMiss},
    retry::RetryPolicy,
    secret::{EnvVars, InvalidSecretRef, Secret, SecretRef, VarSource},
    web::{WebBody, WebClient, WebError, WebResponse},
    wire::{UnknownWire, WireApi},
};
