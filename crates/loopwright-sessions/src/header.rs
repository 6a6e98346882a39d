//! What is known of a session without reading its conversation.

use std::sync::Arc;

use loopwright_core::{Seq, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{
    id::{PrincipalTag, SessionId},
    status::SessionStatus,
};

/// What is known of a session without reading its conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionHeader {
    /// Its name.
    pub id: SessionId,
    /// What may be done with it.
    pub status: SessionStatus,
    /// How often it was written: 1 after it was created.
    pub version: u64,
    /// How many changes lead to its state, those before a fork included.
    pub length: Seq,
    /// Which of its branches is the current one: 0 until it is rewound for the first time.
    pub branch: u32,
    /// Where the current branch leaves another one, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<ForkPoint>,
    /// The session that it is a fork of, or that works for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionId>,
    /// The call of the parent that it works for, if it is a sub-agent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Arc<str>>,
    /// Where it works: a directory, for programs that have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workdir: Option<Arc<str>>,
    /// The agent's name.
    pub agent_name: Arc<str>,
    /// The agent's label.
    pub agent_label: Arc<str>,
    /// What it is about, for people who look for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<Arc<str>>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was written last.
    pub updated_at: Timestamp,
}

/// The place where a branch of changes leaves another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkPoint {
    /// The session of the other branch.
    pub session: SessionId,
    /// The other branch.
    pub branch: u32,
    /// How many changes they have in common.
    pub at: Seq,
}

impl SessionHeader {
    /// Describes a session that is about to be created.
    pub fn new(id: SessionId, agent_name: impl Into<Arc<str>>, now: Timestamp) -> Self {
        let agent_name = agent_name.into();
        Self {
            id,
            status: SessionStatus::Active,
            version: 0,
            length: 0,
            branch: 0,
            from: None,
            parent: None,
            call: None,
            workdir: None,
            agent_label: Arc::clone(&agent_name),
            agent_name,
            title: None,
            created_at: now,
            updated_at: now,
        }
    }

    /// Describes a fork of it that begins after so many changes.
    #[must_use]
    pub fn fork(&self, into: SessionId, at: Seq, now: Timestamp) -> Self {
        Self {
            agent_label: Arc::clone(&self.agent_label),
            title: self.title.clone(),
            workdir: self.workdir.clone(),
            parent: Some(self.id.clone()),
            from: Some(ForkPoint { session: self.id.clone(), branch: self.branch, at }),
            ..Self::new(into, Arc::clone(&self.agent_name), now)
        }
    }
}

/// Which sessions are listed, and how many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionQuery {
    /// Those with this status only; without one, all but the deleted.
    pub status: Option<SessionStatus>,
    /// Those of this agent only.
    pub agent_name: Option<Arc<str>>,
    /// Those that work in this directory only.
    pub workdir: Option<Arc<str>>,
    /// Those that stand in this relation to others only.
    pub kinship: SessionRelation,
    /// Those of this principal only.
    pub scope: SessionScope,
    /// Those that come after this one; from the beginning if there is none.
    pub after: Option<SessionCursor>,
    /// The most that are returned.
    pub limit: usize,
}

/// How a session is related to others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SessionRelation {
    /// However.
    #[default]
    Any,
    /// It is no sub-agent's.
    TopLevel,
    /// It is a fork of this one, or works for it.
    ChildOf(SessionId),
}

/// Whose sessions are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SessionScope {
    /// Those of all principals.
    #[default]
    Any,
    /// Those whose names have no [tag](SessionId::tag).
    Untagged,
    /// Those whose names have this tag.
    Tagged(PrincipalTag),
}

impl SessionScope {
    /// Returns `true` if a session belongs to it.
    pub fn contains(&self, id: &SessionId) -> bool {
        match self {
            Self::Any => true,
            Self::Untagged => id.tag().is_none(),
            Self::Tagged(tag) => id.tag().as_ref() == Some(tag),
        }
    }
}

/// The last session of a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionCursor {
    /// When it was written last.
    pub updated_at: Timestamp,
    /// Its name, which tells those apart that were written at the same time.
    pub id: SessionId,
}

impl SessionQuery {
    /// Asks for the first so many sessions, those written last first.
    pub fn first(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Returns `true` if a session is asked for, wherever it stands.
    pub fn matches(&self, header: &SessionHeader) -> bool {
        let status = match self.status {
            Some(status) => header.status == status,
            None => header.status != SessionStatus::Deleted,
        };
        let agent = self.agent_name.as_ref().is_none_or(|name| *name == header.agent_name);
        let workdir = self.workdir.is_none() || self.workdir == header.workdir;
        let kinship = match &self.kinship {
            SessionRelation::Any => true,
            SessionRelation::TopLevel => header.call.is_none(),
            SessionRelation::ChildOf(parent) => header.parent.as_ref() == Some(parent),
        };
        status
            && agent
            && workdir
            && kinship
            && self.scope.contains(&header.id)
            && self.is_after(header.updated_at, header.id.as_str())
    }

    /// Returns `true` if a place in the list is on this page or on a later one.
    pub(crate) fn is_after(&self, updated_at: Timestamp, id: &str) -> bool {
        let after = self.after.as_ref();
        after.is_none_or(|cursor| (updated_at, id) < (cursor.updated_at, cursor.id.as_str()))
    }
}

/// A page of sessions, those written last first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionList {
    /// The sessions.
    pub sessions: Vec<SessionHeader>,
    /// Where the next page begins; `None` after the last one.
    pub next: Option<SessionCursor>,
    /// Sessions among them of which nothing can be told, whatever was asked for: what is stored of them is
    /// damaged. A [`check`](crate::SessionStore::check) says why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<SessionId>,
}

impl SessionList {
    /// Makes a page of all headers that a query wants, in whatever order they come.
    pub fn from_headers(
        query: &SessionQuery,
        headers: impl IntoIterator<Item = SessionHeader>,
    ) -> Self {
        let mut sessions: Vec<_> = headers.into_iter().filter(|it| query.matches(it)).collect();
        sessions.sort_by(|a, b| (b.updated_at, &b.id).cmp(&(a.updated_at, &a.id)));
        let is_more = sessions.len() > query.limit;
        sessions.truncate(query.limit);
        let last = sessions.last().filter(|_| is_more);
        let next = last.map(|it| SessionCursor { updated_at: it.updated_at, id: it.id.clone() });
        Self { sessions, next, unreadable: Vec::new() }
    }

    /// Keeps those with this status.
    #[must_use]
    pub fn with_status(mut self, status: SessionStatus) -> Self {
        self.sessions.retain(|it| it.status == status);
        self
    }

    /// Keeps those of this agent.
    #[must_use]
    pub fn with_agent_name(mut self, name: &str) -> Self {
        self.sessions.retain(|it| *it.agent_name == *name);
        self
    }

    /// Returns the one written last.
    pub fn first(&self) -> Option<&SessionHeader> {
        self.sessions.first()
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Returns `true` if there are none.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }
}
