//! What is known of an agent beside the parts that it runs with.

use std::{fmt, sync::Arc};

use serde_json::Value;

use crate::agent::AgentLoop;

/// What is known of an agent beside the parts that it runs with: who it is, and what it was composed
/// of. It changes nothing about a run.
#[derive(Clone, Default)]
pub struct AgentMeta {
    /// Who it is; empty if nobody said.
    pub name: Arc<str>,
    /// When to use it; empty if nobody said.
    pub description: Arc<str>,
    /// The names of its capabilities, in the order in which they were added.
    pub capabilities: Vec<Arc<str>>,
    annotations: Vec<(Arc<str>, Arc<Note>)>,
}

type Note = dyn Fn(&AgentLoop) -> Option<Value> + Send + Sync;

impl AgentMeta {
    /// Adds something to tell about the agent, in the place of what has that name. It is asked of the
    /// agent as it is then, with the tools that are left to it; nothing is told if there is none.
    pub fn annotate(
        &mut self,
        name: impl Into<Arc<str>>,
        note: impl Fn(&AgentLoop) -> Option<Value> + Send + Sync + 'static,
    ) {
        let (name, note): (Arc<str>, Arc<Note>) = (name.into(), Arc::new(note));
        match self.annotations.iter_mut().find(|it| it.0 == name) {
            Some(same) => same.1 = note,
            None => self.annotations.push((name, note)),
        }
    }

    /// Returns what there is to tell about an agent, by name.
    pub fn annotations(&self, agent: &AgentLoop) -> impl Iterator<Item = (&str, Value)> {
        self.annotations.iter().filter_map(|(name, note)| Some((&**name, note(agent)?)))
    }
}

impl fmt::Debug for AgentMeta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentMeta")
            .field("name", &self.name)
            .field("capabilities", &self.capabilities)
            .finish_non_exhaustive()
    }
}
