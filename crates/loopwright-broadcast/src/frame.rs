//! An envelope, encoded.

use std::sync::Arc;

use loopwright_core::{
    CustomEventData, Timestamp,
    messages::{AgentId, ExecutionId},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    payload::Payload,
    queue::{DropPriority, Queued},
    status::BroadcastStatus,
};

/// The types of envelopes.
pub mod envelope_types {
    /// The status of an execution has changed.
    pub const STATUS: &str = "agent.status";
    /// A step starts.
    pub const STEP_STARTED: &str = "agent.step.started";
    /// A step has ended.
    pub const STEP_COMPLETED: &str = "agent.step.completed";
    /// A tool starts.
    pub const TOOL_STARTED: &str = "agent.tool.started";
    /// A tool has ended.
    pub const TOOL_COMPLETED: &str = "agent.tool.completed";
    /// A fragment of a response, or its end.
    pub const STREAM_CHUNK: &str = "agent.stream.chunk";
    /// The loop decided whether to take another step.
    pub const CONTINUATION: &str = "agent.continuation";
    /// An event that a capability or a program defines; the payload has its name.
    pub const EVENT: &str = "agent.event";
    /// This listener was too slow, and envelopes before this one were dropped.
    pub const DROPPED: &str = "agent.dropped";
}

/// An envelope as its readers see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BroadcastEnvelope {
    /// The type: one of [`envelope_types`], or a later addition.
    #[serde(rename = "type")]
    pub kind: String,
    /// The session, or the agent's own ID without a session.
    pub session_id: String,
    /// The execution.
    pub execution_id: String,
    /// The agent that this one works for; only envelopes of sub-agents have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_agent_id: Option<String>,
    /// The time, in UTC, to the millisecond.
    pub timestamp: Timestamp,
    /// The payload.
    pub payload: Value,
}

impl BroadcastEnvelope {
    /// Returns the status in this envelope; `None` for other types.
    pub fn status(&self) -> Option<BroadcastStatus> {
        let status = self.payload.get("status").filter(|_| self.kind == envelope_types::STATUS)?;
        BroadcastStatus::deserialize(status).ok()
    }

    /// Returns the custom event in this envelope; `None` for other types. Texts of the event may be
    /// cut, and secrets are redacted.
    pub fn custom_event(&self) -> Option<CustomEventData> {
        let is_event = self.kind == envelope_types::EVENT;
        let name = self.payload.get("name").filter(|_| is_event)?.as_str()?;
        Some(CustomEventData::from_value(name, self.payload.get("data")?.clone()))
    }

    /// Returns `true` if the agent itself, and not a sub-agent, takes no further step on its own:
    /// it has ended, or waits for a decision.
    pub fn is_idle_or_terminal(&self) -> bool {
        let is_own = self.parent_agent_id.is_none();
        is_own && self.status().is_some_and(|it| it != BroadcastStatus::Processing)
    }
}

/// Whose envelopes they are.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) session: Arc<str>,
    pub(crate) channel: Arc<str>,
    pub(crate) execution: ExecutionId,
    pub(crate) parent: Option<AgentId>,
}

impl Origin {
    pub(crate) fn new(session: Arc<str>, execution: ExecutionId, parent: Option<AgentId>) -> Self {
        Self { channel: format!("agent.{session}").into(), session, execution, parent }
    }
}

/// An envelope, encoded once for all listeners. Cheap to clone.
#[derive(Clone, Debug)]
pub struct EncodedEnvelope {
    kind: &'static str,
    origin: Arc<Origin>,
    at: Timestamp,
    json: Arc<str>,
    worth: DropPriority,
}

/// An envelope as it is written.
#[derive(Serialize)]
struct Wire<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    session_id: &'a str,
    execution_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_agent_id: Option<&'a str>,
    timestamp: Timestamp,
    payload: &'a Payload<'a>,
}

impl EncodedEnvelope {
    pub(crate) fn encode(origin: &Arc<Origin>, at: Timestamp, payload: &Payload<'_>) -> Self {
        let kind = kind_of(payload);
        let wire = Wire {
            kind,
            session_id: &origin.session,
            execution_id: origin.execution.as_str(),
            parent_agent_id: origin.parent.as_ref().map(AgentId::as_str),
            timestamp: at,
            payload,
        };
        // Texts, numbers and lists of them are JSON, so that this cannot fail.
        let json = serde_json::to_string(&wire).unwrap_or_default().into();
        Self { kind, origin: Arc::clone(origin), at, json, worth: worth_of(payload) }
    }

    /// Tells of what was dropped before this.
    pub(crate) fn after_dropping(&self, count: u64) -> Self {
        Self::encode(&self.origin, self.at, &Payload::Dropped { count })
    }

    /// Returns the envelope's type; one of [`envelope_types`].
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// Returns the channel: `agent.` and the session.
    pub fn channel(&self) -> &str {
        &self.origin.channel
    }

    /// Returns the envelope as one line of JSON.
    pub fn json(&self) -> &Arc<str> {
        &self.json
    }

    /// Decodes the envelope.
    pub fn envelope(&self) -> Option<BroadcastEnvelope> {
        serde_json::from_str(&self.json).ok()
    }
}

impl Queued for EncodedEnvelope {
    fn worth(&self) -> DropPriority {
        self.worth
    }
}

fn kind_of(payload: &Payload<'_>) -> &'static str {
    match payload {
        Payload::Status { .. } | Payload::Ended { .. } => envelope_types::STATUS,
        Payload::StepStarted { .. } => envelope_types::STEP_STARTED,
        Payload::StepCompleted { .. } => envelope_types::STEP_COMPLETED,
        Payload::ToolStarted { .. } => envelope_types::TOOL_STARTED,
        Payload::ToolCompleted { .. } => envelope_types::TOOL_COMPLETED,
        Payload::Chunk { .. } => envelope_types::STREAM_CHUNK,
        Payload::Continuation { .. } => envelope_types::CONTINUATION,
        Payload::Custom { .. } => envelope_types::EVENT,
        Payload::Dropped { .. } => envelope_types::DROPPED,
    }
}

fn worth_of(payload: &Payload<'_>) -> DropPriority {
    match payload {
        Payload::Status { .. }
        | Payload::Ended { .. }
        | Payload::Dropped { .. }
        | Payload::Chunk { is_complete: true, .. } => DropPriority::Kept,
        Payload::Chunk { .. } => DropPriority::Fragment,
        _ => DropPriority::Event,
    }
}
