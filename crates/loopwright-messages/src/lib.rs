//! Conversations as data: messages, turns, transcripts, prompts and what a model answers.
//!
//! The heart is [`Transcript`], a persistent sequence of [`Turn`]s. A turn is an input, a reply, or
//! an [`ToolExchange`]: a reply that called tools together with exactly one result for each call. No
//! transcript can be built, cut, stored or restored in which a call has lost its result.
//!
//! Everything here is a value: no clock, no I/O, no provider.

mod ids;
mod usage;
mod part;
mod tool;
mod message;
mod encoded;
mod turn;
mod transcript;
mod sections;
mod prompt;
mod inference;
mod privileged;

pub mod shared;

pub use crate::{
    encoded::EncodedCache,
    ids::{AgentId, ExecutionId},
    inference::{
        FinishReason, InferenceOptions, InferenceRequest, InferenceResponse, InferenceSettings,
        ReasoningEffort, RequestPrefix, ResponseFormat, ToolChoice,
    },
    message::{Message, ModelOrigin, Role},
    part::{Content, Media, MediaSource, Part, ProviderPayload},
    prompt::{CacheBreak, Prompt, Selected, Selection, ToolCallFormat},
    sections::{SectionName, Sections},
    tool::{ToolCall, ToolResult, ToolSpec, ToolSpecs},
    transcript::{Mark, Transcript, Turns},
    turn::{ToolExchange, Turn, TurnBody, TurnError, TurnMeta},
    usage::{Cost, Usage},
};
