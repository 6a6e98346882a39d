//! Headers and lists of sessions.

use std::{fmt, str::FromStr, sync::Arc};

use loopwright_core::{Seq, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{
    id::{PrincipalTag, SessionId},
    status::SessionStatus,
};

/// The header of a session, which can be read without its conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionHeader {
    /// The ID.
    pub id: SessionId,
    /// The status.
    pub status: SessionStatus,
    /// The number of writes: 1 after it was created.
    pub version: u64,
    /// The number of changes of its state, including those before a fork.
    pub length: Seq,
    /// The current branch: 0 until the first rewind.
    pub branch: u32,
    /// The point where the current branch leaves another one, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<ForkPoint>,
    /// The session that it was forked from, or that it works for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionId>,
    /// The call of the parent that started it, if it belongs to a sub-agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Arc<str>>,
    /// The working directory, for programs that have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workdir: Option<Arc<str>>,
    /// The agent's name.
    pub agent_name: Arc<str>,
    /// The agent's label.
    pub agent_label: Arc<str>,
    /// The title, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<Arc<str>>,
    /// The creation time.
    pub created_at: Timestamp,
    /// The time of the last write.
    pub updated_at: Timestamp,
}

/// The point where a branch of changes leaves another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkPoint {
    /// The session of the other branch.
    pub session: SessionId,
    /// The other branch.
    pub branch: u32,
    /// The number of changes that they share.
    pub at: Seq,
}

impl SessionHeader {
    /// Creates the header of a new session.
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

    /// Returns the session that a sub-agent works for. `None` means that the session is no sub-agent's: the parent of a fork is its
    /// source.
    pub fn works_for(&self) -> Option<&SessionId> {
        self.call.as_ref().and(self.parent.as_ref())
    }

    /// Creates the header of a fork that starts after `at` changes.
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

/// A query for sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionQuery {
    /// Only sessions with this status; `None` means all except deleted ones.
    pub status: Option<SessionStatus>,
    /// Only sessions of this agent.
    pub agent_name: Option<Arc<str>>,
    /// Only sessions with this working directory.
    pub workdir: Option<Arc<str>>,
    /// Only sessions with this relation to others.
    pub kinship: SessionRelation,
    /// Only sessions of this principal.
    pub scope: SessionScope,
    /// Only sessions after this one; `None` starts at the beginning.
    pub after: Option<SessionCursor>,
    /// The maximum number of results.
    pub limit: usize,
}

/// The relation of a session to others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SessionRelation {
    /// Any relation.
    #[default]
    Any,
    /// The session does not belong to a sub-agent.
    TopLevel,
    /// The session is a fork of this one, or works for it.
    ChildOf(SessionId),
}

/// The principal whose sessions are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SessionScope {
    /// Sessions of all principals.
    #[default]
    Any,
    /// Sessions whose IDs have no [tag](SessionId::tag).
    Untagged,
    /// Sessions whose IDs have this tag.
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
    /// The time of the last write.
    pub updated_at: Timestamp,
    /// Its ID, which distinguishes sessions that were written at the same time.
    pub id: SessionId,
}

/// A text that is not a cursor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid cursor `{0}`")]
pub struct InvalidSessionCursor(String);

/// The time in milliseconds since 1970, a dot and the ID.
impl fmt::Display for SessionCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.updated_at.millis(), self.id)
    }
}

impl FromStr for SessionCursor {
    type Err = InvalidSessionCursor;

    fn from_str(text: &str) -> Result<Self, InvalidSessionCursor> {
        let parsed = text.split_once('.').and_then(|(millis, id)| {
            let updated_at = Timestamp::from_millis(millis.parse().ok()?);
            Some(Self { updated_at, id: SessionId::new(id).ok()? })
        });
        parsed.ok_or_else(|| InvalidSessionCursor(text.to_owned()))
    }
}

impl SessionQuery {
    /// Creates a query for the first sessions up to a limit, the last written first.
    pub fn first(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Returns `true` if a session matches the query, whatever its position.
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

/// A page of sessions, the last written first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionList {
    /// The sessions.
    pub sessions: Vec<SessionHeader>,
    /// The start of the next page. `None` means that this is the last page.
    pub next: Option<SessionCursor>,
    /// Sessions whose header is damaged, regardless of the query. A
    /// [`check`](crate::SessionStore::check) returns the problem.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<SessionId>,
}

impl SessionList {
    /// Creates a page from headers that match a query, in any order.
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

    /// Keeps the sessions with this status.
    #[must_use]
    pub fn with_status(mut self, status: SessionStatus) -> Self {
        self.sessions.retain(|it| it.status == status);
        self
    }

    /// Keeps the sessions of this agent.
    #[must_use]
    pub fn with_agent_name(mut self, name: &str) -> Self {
        self.sessions.retain(|it| *it.agent_name == *name);
        self
    }

    /// Returns the session that was last written.
    pub fn first(&self) -> Option<&SessionHeader> {
        self.sessions.first()
    }

    /// Returns the number of sessions.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Returns `true` if the page is empty.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        let id = SessionId::new("a-1_b").unwrap();
        let cursor = SessionCursor { updated_at: Timestamp::from_millis(12), id };
        assert_eq!(cursor.to_string(), "12.a-1_b");
        assert_eq!("12.a-1_b".parse::<SessionCursor>(), Ok(cursor));
        for text in ["", "12", "x.a", "12.", "12.a/b"] {
            let invalid = InvalidSessionCursor(text.to_owned());
            assert_eq!(text.parse::<SessionCursor>(), Err(invalid));
        }
    }
}
