//! The payloads of envelopes, by type.

use std::sync::Arc;

use loopwright_core::{ContinuationDecision, StopReason, messages::Usage};
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::status::BroadcastStatus;

/// What an envelope carries.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Payload<'a> {
    Status {
        status: BroadcastStatus,
        previous_status: BroadcastStatus,
    },
    Ended {
        status: BroadcastStatus,
        previous_status: BroadcastStatus,
        error_message: Option<&'a str>,
        last_response: Option<&'a str>,
    },
    StepStarted {
        step_number: u32,
        message_count: usize,
        available_tools: &'a [Arc<str>],
    },
    StepCompleted {
        step_number: u32,
        has_tool_calls: bool,
        errors: usize,
        finish_reason: Option<&'a str>,
        usage: Tokens,
        duration_ms: u64,
    },
    ToolStarted {
        tool_name: &'a str,
        tool_call_id: &'a str,
        #[serde(flatten)]
        arguments: ToolArguments,
    },
    ToolCompleted {
        tool_name: &'a str,
        tool_call_id: &'a str,
        success: bool,
        error: Option<String>,
        duration_ms: u64,
        result_summary: Option<String>,
    },
    Chunk {
        content: &'a str,
        is_complete: bool,
        chunk_index: u64,
    },
    Continuation {
        step_number: u32,
        should_continue: bool,
        should_stop: bool,
        stop_reason: Option<StopReason>,
        resolved_by: &'a str,
        evaluations: Vec<Voice<'a>>,
    },
    Custom {
        name: &'a str,
        data: Value,
    },
    Dropped {
        count: u64,
    },
}

/// What a tool is given: as a whole, or in a few words.
#[derive(Debug, Serialize)]
pub(crate) enum ToolArguments {
    #[serde(rename = "args")]
    Whole(Ordered),
    #[serde(rename = "args_summary")]
    Summary(String),
}

/// Fields in the order in which a model wrote them, or what is no object.
#[derive(Debug)]
pub(crate) enum Ordered {
    Fields(Vec<(String, Value)>),
    Other(Value),
}

impl Serialize for Ordered {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Fields(fields) => {
                serializer.collect_map(fields.iter().map(|(name, value)| (name, value)))
            }
            Self::Other(value) => value.serialize(serializer),
        }
    }
}

/// Tokens, whatever the provider's own words for them are.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Tokens {
    #[serde(flatten)]
    usage: Usage,
    total: u64,
}

impl From<Usage> for Tokens {
    fn from(usage: Usage) -> Self {
        Self { usage, total: usage.total() }
    }
}

/// What one voice said about another step.
#[derive(Debug, Serialize)]
pub(crate) struct Voice<'a> {
    pub(crate) criterion: &'a str,
    pub(crate) decision: ContinuationDecision,
    pub(crate) reason: String,
    pub(crate) stop_reason: Option<StopReason>,
}
