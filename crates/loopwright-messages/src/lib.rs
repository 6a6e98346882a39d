//! Conversations as data: messages, turns, transcripts, prompts and model responses.
//!
//! The central type is [`Transcript`], a persistent sequence of [`Turn`]s. A turn is an input, a
//! reply, or a [`ToolExchange`]: a reply that called tools, with exactly one result for each call.
//! No operation can create, cut, store or restore a transcript with a call that has lost its
//! result.
//!
//! All types are plain values: no clock, no I/O, no provider.

mod ids;
mod usage;
mod part;
mod picture;
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
    picture::{Picture, PictureError, PictureFormat},
    prompt::{CacheBreak, Prompt, Selected, Selection, ToolCallFormat},
    sections::{SectionName, Sections},
    tool::{ToolCall, ToolResult, ToolSpec, ToolSpecs},
    transcript::{Mark, Transcript, Turns},
    turn::{ToolExchange, Turn, TurnBody, TurnError, TurnMeta},
    usage::{Cost, Usage},
};
