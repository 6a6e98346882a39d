//! What a model is told first.

use std::{fmt, sync::Arc};

use crate::agent_loop::AgentLoop;

/// What a driver says first: instructions of the agent and of the session.
#[derive(Clone, Debug, Default)]
pub struct Instructions {
    fragments: Arc<[(Arc<str>, Fragment)]>,
}

/// Instructions of one origin.
#[derive(Clone)]
pub enum Fragment {
    /// They are the same for every agent.
    Fixed(Arc<str>),
    /// They are made of the agent as it is, with the tools that are left to it; none if there is
    /// nothing to say. They are made at most once in a run as long as the session's own stay the same.
    Derived(Arc<Derive>),
}

/// Makes instructions of an agent.
pub type Derive = dyn Fn(&AgentLoop) -> Option<Arc<str>> + Send + Sync;

impl Fragment {
    /// Returns the words.
    pub fn text(&self, agent: &AgentLoop) -> Option<Arc<str>> {
        match self {
            Self::Fixed(text) => Some(Arc::clone(text)),
            Self::Derived(derive) => derive(agent),
        }
    }
}

impl fmt::Debug for Fragment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(text) => fmt::Debug::fmt(text, f),
            Self::Derived(_) => f.write_str("Derived"),
        }
    }
}

impl Instructions {
    /// Takes named fragments in their order. They are stable: what changes from step to step belongs
    /// to the tail of the prompt.
    pub fn new(fragments: impl IntoIterator<Item = (Arc<str>, Arc<str>)>) -> Self {
        Self::of(fragments.into_iter().map(|(name, text)| (name, Fragment::Fixed(text))))
    }

    /// Takes named fragments in their order, of which some may be derived.
    pub fn of(fragments: impl IntoIterator<Item = (Arc<str>, Fragment)>) -> Self {
        Self { fragments: fragments.into_iter().collect() }
    }

    /// Returns the same with one more fragment at the end.
    #[must_use]
    pub fn and(&self, name: impl Into<Arc<str>>, fragment: Fragment) -> Self {
        let more = (name.into(), fragment);
        Self { fragments: self.fragments.iter().cloned().chain([more]).collect() }
    }

    /// Returns the fragments that are the same for every agent, with their names.
    pub fn fragments(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fragments.iter().filter_map(|(name, fragment)| match fragment {
            Fragment::Fixed(text) => Some((&**name, &**text)),
            Fragment::Derived(_) => None,
        })
    }

    /// Returns what an agent is told, with the names of the fragments.
    pub fn texts(&self, agent: &AgentLoop) -> impl Iterator<Item = (&str, Arc<str>)> {
        self.fragments.iter().filter_map(|(name, it)| Some((&**name, it.text(agent)?)))
    }

    /// Puts the session's own instructions first and the agent's fragments after them.
    pub(crate) fn compose(
        &self,
        session: Option<&Arc<str>>,
        agent: &AgentLoop,
    ) -> Option<Arc<str>> {
        if self.fragments.is_empty() {
            return session.cloned();
        }
        let texts = session.cloned().into_iter().chain(self.texts(agent).map(|(_, text)| text));
        let texts: Vec<Arc<str>> = texts.filter(|text| !text.trim().is_empty()).collect();
        (!texts.is_empty()).then(|| texts.join("\n\n").into())
    }
}
