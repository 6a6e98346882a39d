//! Metadata of an agent, which does not affect its runs.

use std::{fmt, sync::Arc};

use serde_json::Value;

use crate::agent::AgentLoop;

/// Metadata of an agent: its name, its description and its capabilities. It does not affect a run.
#[derive(Clone, Default)]
pub struct AgentMeta {
    /// The name; empty if unset.
    pub name: Arc<str>,
    /// The description of when to use the agent; empty if unset.
    pub description: Arc<str>,
    /// The names of its capabilities, in the order in which they were added.
    pub capabilities: Vec<Arc<str>>,
    annotations: Vec<(Arc<str>, Arc<Note>)>,
}

type Note = dyn Fn(&AgentLoop) -> Option<Value> + Send + Sync;

impl AgentMeta {
    /// Adds an annotation, or replaces the one with the same name. The function runs when the
    /// annotations are read, on the agent as it is at that time, with the tools that it still has.
    /// It returns `None` for no annotation.
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

    /// Returns the annotations of an agent, by name.
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
