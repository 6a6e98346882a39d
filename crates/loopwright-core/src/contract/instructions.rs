//! The instructions at the start of a request.

use std::{fmt, sync::Arc};

use crate::agent::AgentLoop;

/// The instructions that a driver sends first: those of the agent and of the session.
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

/// The agents that instructions are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Audience {
    /// Only the agent.
    #[default]
    Agent,
    /// The agent and its sub-agents.
    Subagents,
}

/// Instructions from one source.
#[derive(Clone)]
pub enum Fragment {
    /// Text that is the same for every agent.
    Fixed(Arc<str>),
    /// Text that is derived from the agent and the tools that it still has; `None` for no text. It
    /// is derived at most once in a run as long as the session's own instructions stay the same.
    Derived(Arc<DeriveFn>),
}

/// Derives instructions from an agent.
pub type DeriveFn = dyn Fn(&AgentLoop) -> Option<Arc<str>> + Send + Sync;

impl Fragment {
    /// Returns the text.
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
    /// Creates instructions from named fragments, in order. They must be stable: put text that
    /// changes from step to step in the tail of the prompt.
    pub fn new(fragments: impl IntoIterator<Item = (Arc<str>, Arc<str>)>) -> Self {
        Self::from_fragments(
            fragments.into_iter().map(|(name, text)| (name, Fragment::Fixed(text))),
        )
    }

    /// Creates instructions from named fragments, in order, some of which may be derived.
    pub fn from_fragments(fragments: impl IntoIterator<Item = (Arc<str>, Fragment)>) -> Self {
        let for_agent = |(name, fragment)| (name, fragment, Audience::Agent);
        Self::for_audiences(fragments.into_iter().map(for_agent))
    }

    /// Creates instructions from named fragments, in order, with their audiences.
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

    /// Returns the parent's fragments that are also for sub-agents, followed by these. If both have
    /// a fragment of the same name, this one replaces the parent's.
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

    /// Returns the texts for an agent, with the names of the fragments.
    pub fn texts(&self, agent: &AgentLoop) -> impl Iterator<Item = (&str, Arc<str>)> {
        self.fragments.iter().filter_map(|it| Some((&*it.name, it.fragment.text(agent)?)))
    }

    /// Joins the session's own instructions and the agent's fragments, in this order.
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
