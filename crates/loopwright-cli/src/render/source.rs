//! The agent that a note is about.

use std::borrow::Cow;
use std::cmp::Ordering;

use loopwright_core::{EventBus, EventEnvelope, messages::AgentId};
use serde_json::{Value, json};

/// The agent that a note is about: the one that was given the task, or a sub-agent of it. Sources of the same agent are
/// equal.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// The agent's id.
    pub agent: Option<AgentId>,
    /// The id of the agent that it works for; `None` for the one that was given the task.
    pub parent: Option<AgentId>,
    /// The permission mode, if it is one that every event names.
    pub permission_mode: Option<Cow<'static, str>>,
}

impl Source {
    /// Returns the source of an event.
    pub fn of(envelope: &EventEnvelope) -> Self {
        Self {
            agent: Some(envelope.agent.clone()),
            parent: envelope.parent.clone(),
            permission_mode: envelope.permission_mode.clone(),
        }
    }

    /// Returns the source of the events of a run, for its hooks.
    pub fn of_events(events: &EventBus) -> Self {
        Self {
            agent: events.agent().cloned(),
            parent: events.parent().cloned(),
            permission_mode: events.permission_mode().map(Cow::Borrowed),
        }
    }

    /// Returns `true` for a sub-agent: its words are no part of the answer.
    pub fn is_subagent(&self) -> bool {
        self.parent.is_some()
    }

    fn ids(&self) -> (Option<&AgentId>, Option<&AgentId>) {
        (self.agent.as_ref(), self.parent.as_ref())
    }

    /// Adds the ids, and the permission mode if it is named, to a line of JSON.
    pub(super) fn label(&self, line: &mut Value) {
        if let Some(agent) = &self.agent {
            line["agent_id"] = json!(agent.as_str());
        }
        if let Some(parent) = &self.parent {
            line["parent_agent_id"] = json!(parent.as_str());
        }
        if let Some(mode) = &self.permission_mode {
            line["permission_mode"] = json!(mode);
        }
    }
}

impl PartialEq for Source {
    fn eq(&self, other: &Self) -> bool {
        self.ids() == other.ids()
    }
}

impl Eq for Source {}

impl PartialOrd for Source {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Source {
    fn cmp(&self, other: &Self) -> Ordering {
        self.ids().cmp(&other.ids())
    }
}
