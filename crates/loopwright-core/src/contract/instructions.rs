//! What a model is told first.

use std::{fmt, sync::Arc};

use crate::agent::AgentLoop;

/// What a driver says first: instructions of the agent and of the session.
#[derive(Clone, Debug, Default)]
pub struct Instructions {
    fragments: Arc<[Named]>,
}

#[derive(Clone, Debug)]
struct Named {
    name: Arc<str>,
    fragment: Fragment,
    audience: Audience,
}

/// Which agents instructions are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Audience {
    /// The agent alone.
    #[default]
    Agent,
    /// The agent and its sub-agents.
    Subagents,
}

/// Instructions of one origin.
#[derive(Clone)]
pub enum Fragment {
    /// They are the same for every agent.
    Fixed(Arc<str>),
    /// They are made of the agent as it is, with the tools that are left to it; none if there is
    /// nothing to say. They are made at most once in a run as long as the session's own stay the same.
    Derived(Arc<DeriveFn>),
}

/// Makes instructions of an agent.
pub type DeriveFn = dyn Fn(&AgentLoop) -> Option<Arc<str>> + Send + Sync;

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
        Self::from_fragments(
            fragments.into_iter().map(|(name, text)| (name, Fragment::Fixed(text))),
        )
    }

    /// Takes named fragments in their order, of which some may be derived.
    pub fn from_fragments(fragments: impl IntoIterator<Item = (Arc<str>, Fragment)>) -> Self {
        let for_agent = |(name, fragment)| (name, fragment, Audience::Agent);
        Self::for_audiences(fragments.into_iter().map(for_agent))
    }

    /// Takes named fragments in their order, with the agents that they are for.
    pub fn for_audiences(
        fragments: impl IntoIterator<Item = (Arc<str>, Fragment, Audience)>,
    ) -> Self {
        let named = |(name, fragment, audience)| Named { name, fragment, audience };
        Self { fragments: fragments.into_iter().map(named).collect() }
    }

    /// Returns the same with one more fragment at the end.
    #[must_use]
    pub fn with_fragment(&self, name: impl Into<Arc<str>>, fragment: Fragment) -> Self {
        let more = Named { name: name.into(), fragment, audience: Audience::Agent };
        Self { fragments: self.fragments.iter().cloned().chain([more]).collect() }
    }

    /// Returns the same after those fragments of a parent that are for its sub-agents too. Where both
    /// have a fragment of one name, the own one counts.
    #[must_use]
    pub fn after_shared(&self, parent: &Self) -> Self {
        let is_own = |name: &str| self.fragments.iter().any(|it| &*it.name == name);
        let shared = parent.fragments.iter().filter(|it| it.audience == Audience::Subagents);
        let shared = shared.filter(|it| !is_own(&it.name));
        Self { fragments: shared.chain(self.fragments.iter()).cloned().collect() }
    }

    /// Returns the fragments that are the same for every agent, with their names.
    pub fn fragments(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fragments.iter().filter_map(|it| match &it.fragment {
            Fragment::Fixed(text) => Some((&*it.name, &**text)),
            Fragment::Derived(_) => None,
        })
    }

    /// Returns what an agent is told, with the names of the fragments.
    pub fn texts(&self, agent: &AgentLoop) -> impl Iterator<Item = (&str, Arc<str>)> {
        self.fragments.iter().filter_map(|it| Some((&*it.name, it.fragment.text(agent)?)))
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
