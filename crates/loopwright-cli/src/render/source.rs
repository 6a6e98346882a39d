//! The agent that a note is about.

use loopwright_core::{EventBus, EventEnvelope, messages::AgentId};
use serde_json::{Value, json};

/// The agent that a note is about: the one that was given the task, or a sub-agent of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// The agent's id.
    pub agent: Option<AgentId>,
    /// The id of the agent that it works for; `None` for the one that was given the task.
    pub parent: Option<AgentId>,
}

impl Source {
    /// Returns the source of an event.
    pub fn of(envelope: &EventEnvelope) -> Self {
        Self { agent: Some(envelope.agent.clone()), parent: envelope.parent.clone() }
    }

    /// Returns the source of the events of a run, for its hooks.
    pub fn of_events(events: &EventBus) -> Self {
        Self { agent: events.agent().cloned(), parent: events.parent().cloned() }
    }

    /// Returns `true` for a sub-agent: its words are no part of the answer.
    pub fn is_subagent(&self) -> bool {
        self.parent.is_some()
    }

    /// Adds the ids to a line of JSON.
    pub(super) fn label(&self, line: &mut Value) {
        if let Some(agent) = &self.agent {
            line["agent_id"] = json!(agent.as_str());
        }
        if let Some(parent) = &self.parent {
            line["parent_agent_id"] = json!(parent.as_str());
        }
    }
}
