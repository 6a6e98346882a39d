//! An envelope, encoded.

use std::{borrow::Cow, sync::Arc};

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
    /// The permission mode, if it is one that every event names, such as `unconfined`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<String>,
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
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) session: Arc<str>,
    pub(crate) channel: Arc<str>,
    pub(crate) execution: ExecutionId,
    pub(crate) parent: Option<AgentId>,
    pub(crate) permission_mode: Option<Cow<'static, str>>,
}

impl Origin {
    pub(crate) fn new(session: Arc<str>, execution: ExecutionId, parent: Option<AgentId>) -> Self {
        let channel = format!("agent.{session}").into();
        Self { channel, session, execution, parent, permission_mode: None }
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
    #[serde(skip_serializing_if = "Option::is_none")]
    permission_mode: Option<&'a str>,
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
            permission_mode: origin.permission_mode.as_deref(),
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

    /// Joins fragments of a response that follow each other, such as those that waited for a slow
    /// listener. A joined fragment has the time and the number of its first one.
    pub fn join_fragments(envelopes: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut joined = Vec::new();
        let mut envelopes = envelopes.into_iter().peekable();
        while let Some(first) = envelopes.next() {
            let follows = |it: &Self| {
                let are_fragments = [it.worth, first.worth] == [DropPriority::Fragment; 2];
                are_fragments && Arc::ptr_eq(&it.origin, &first.origin)
            };
            let Some(mut next) = envelopes.next_if(follows) else {
                joined.push(first);
                continue;
            };
            let (mut content, chunk_index) = first.fragment();
            loop {
                content.push_str(&next.fragment().0);
                let Some(another) = envelopes.next_if(follows) else { break };
                next = another;
            }
            let payload = Payload::Chunk { content: &content, is_complete: false, chunk_index };
            joined.push(Self::encode(&first.origin, first.at, &payload));
        }
        joined
    }

    /// Returns the text and the number of a fragment; an empty text for others.
    fn fragment(&self) -> (String, u64) {
        #[derive(Default, Deserialize)]
        struct Fragment {
            payload: Chunk,
        }
        #[derive(Default, Deserialize)]
        struct Chunk {
            content: String,
            chunk_index: u64,
        }
        let Fragment { payload } = serde_json::from_str(&self.json).unwrap_or_default();
        (payload.content, payload.chunk_index)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_that_follow_each_other_are_joined_unless_another_envelope_is_between_them() {
        let origin = |name: &str| Arc::new(Origin::new("s".into(), ExecutionId::new(name), None));
        let (one, other) = (origin("1"), origin("2"));
        let at = Timestamp::default();
        let chunk = |of: &Arc<Origin>, content: &str, chunk_index| {
            let is_complete = content.is_empty();
            EncodedEnvelope::encode(of, at, &Payload::Chunk { content, is_complete, chunk_index })
        };
        let dropped = EncodedEnvelope::encode(&one, at, &Payload::Dropped { count: 1 });
        let envelopes = [
            chunk(&one, "a\n", 0),
            chunk(&one, "\"b\"", 1),
            chunk(&one, "ä", 2),
            chunk(&other, "x", 0),
            chunk(&one, "c", 3),
            dropped.clone(),
            chunk(&one, "d", 5),
            chunk(&one, "", 6),
            chunk(&one, "e", 7),
            chunk(&one, "f", 8),
        ];
        let expect = [
            chunk(&one, "a\n\"b\"ä", 0),
            chunk(&other, "x", 0),
            chunk(&one, "c", 3),
            dropped,
            chunk(&one, "d", 5),
            chunk(&one, "", 6),
            chunk(&one, "ef", 7),
        ];
        let json =
            |of: &[EncodedEnvelope]| of.iter().map(|it| it.json().clone()).collect::<Vec<_>>();
        assert_eq!(json(&EncodedEnvelope::join_fragments(envelopes)), json(&expect));
    }
}
