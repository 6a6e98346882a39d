//! The content of a session's log.

use std::sync::Arc;

use loopwright_core::{Seq, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{
    header::{ForkPoint, SessionHeader},
    id::SessionId,
    status::SessionStatus,
    store::StoreError,
    stored::FORMAT_VERSION,
};

/// The head of a frame: what was done, and what is known of the session since then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    #[serde(skip)]
    pub(super) kind: Kind,
    #[serde(skip)]
    pub(super) version: u64,
    #[serde(default, skip_serializing_if = "is_active")]
    pub(super) status: SessionStatus,
    /// How many changes lead to the state.
    #[serde(skip)]
    pub(super) length: Seq,
    /// How many of them the body holds.
    #[serde(skip)]
    pub(super) count: u64,
    #[serde(skip)]
    pub(super) branch: u32,
    pub(super) updated_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) from: Option<ForkPoint>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) title: Option<Arc<str>>,
    /// What the write is known by, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) print: Option<Box<str>>,
    /// Where the session works and for whom, if that changed since it was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) workdir: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) parent: Option<SessionId>,
    /// The number of the last control message that is handled.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) handled: u64,
    /// The position of the session in the index, unless that was rebuilt.
    pub(super) slot: u64,
    /// What never changes; in the first frame only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) session: Option<Box<CreationRecord>>,
}

/// What the head of a frame begins with: all that is needed to find the changes of a log, as numbers, since
/// a long log has many of them. The rest of the head is JSON.
///
/// | bytes | what they hold |
/// |---|---|
/// | 1 | the place of [`Kind`] in [`Kind::ALL`] |
/// | 4 | the branch |
/// | 8 | the version |
/// | 8 | how many changes lead to the state |
/// | 8 | how many of them the body holds |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) kind: Kind,
    pub(super) branch: u32,
    pub(super) version: u64,
    pub(super) length: Seq,
    pub(super) count: u64,
}

/// The bytes of a [`Mark`].
const MARK: usize = 29;
/// A head is seldom longer, but for the first one.
const USUAL: usize = 256;

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    Create,
    #[default]
    Append,
    Rewind,
    Delete,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Create, Self::Append, Self::Rewind, Self::Delete];
}

/// What is known of a session from its beginning. The last record says what changed of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct CreationRecord {
    /// The number of the form of what follows.
    pub(super) format: u32,
    pub(super) id: SessionId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) parent: Option<SessionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) call: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) workdir: Option<Arc<str>>,
    pub(super) agent_name: Arc<str>,
    pub(super) agent_label: Arc<str>,
    pub(super) created_at: Timestamp,
    /// How many bytes of the body are the agent's definition; none once that was reclaimed. The changes
    /// come after it.
    pub(super) definition: usize,
}

impl CreationRecord {
    pub(super) fn of(header: &SessionHeader, definition: usize) -> Self {
        let SessionHeader {
            id, parent, call, workdir, agent_name, agent_label, created_at, ..
        } = header.clone();
        let format = FORMAT_VERSION;
        Self { format, id, parent, call, workdir, agent_name, agent_label, created_at, definition }
    }

    /// Puts together what is known of a session.
    pub(super) fn header(self, last: Record) -> SessionHeader {
        let Self { id, parent, call, workdir, agent_name, agent_label, created_at, .. } = self;
        let Record { version, status, length, branch, updated_at, from, title, .. } = last;
        let (workdir, parent) = (last.workdir.or(workdir), last.parent.or(parent));
        SessionHeader {
            id,
            status,
            version,
            length,
            branch,
            from,
            parent,
            call,
            workdir,
            agent_name,
            agent_label,
            title,
            created_at,
            updated_at,
        }
    }
}

impl Mark {
    /// Reads the beginning of a head. Returns `None` if it is none.
    pub(super) fn read(head: &[u8]) -> Option<Self> {
        let (kind, rest) = head.split_first()?;
        let (branch, rest) = rest.split_first_chunk()?;
        let (version, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        Some(Self {
            kind: *Kind::ALL.get(usize::from(*kind))?,
            branch: u32::from_le_bytes(*branch),
            version: u64::from_le_bytes(*version),
            length: u64::from_le_bytes(*length),
            count: u64::from_le_bytes(*rest.first_chunk()?),
        })
    }
}

impl Record {
    /// Reads a head. Returns `None` if it is none.
    pub(super) fn read(head: &[u8]) -> Option<Self> {
        let Mark { kind, branch, version, length, count } = Mark::read(head)?;
        let record = serde_json::from_slice::<Self>(&head[MARK..]).ok()?;
        Some(Self { kind, version, length, count, branch, ..record })
    }

    /// Writes a head.
    pub(super) fn head(&self) -> Result<Vec<u8>, StoreError> {
        let kind = Kind::ALL.iter().position(|it| *it == self.kind).unwrap_or_default();
        let mut head = Vec::with_capacity(USUAL);
        head.push(u8::try_from(kind).unwrap_or_default());
        head.extend(self.branch.to_le_bytes());
        for number in [self.version, self.length, self.count] {
            head.extend(number.to_le_bytes());
        }
        let written = serde_json::to_writer(&mut head, self);
        written.map_err(|error| StoreError::Unavailable(error.into()))?;
        Ok(head)
    }

    /// Begins a record that follows this one.
    pub(super) fn next(&self, kind: Kind, updated_at: Timestamp) -> Self {
        let (version, count) = (self.version + 1, 0);
        let (print, session) = (None, None);
        Self { kind, version, count, updated_at, print, session, ..self.clone() }
    }

    /// Starts a record of a new branch, which shares this number of changes with the current one.
    pub(super) fn new_branch(&self, id: &SessionId, at: Seq, updated_at: Timestamp) -> Self {
        let from = Some(ForkPoint { session: id.clone(), branch: self.branch, at });
        let next = self.next(Kind::Rewind, updated_at);
        Self { from, branch: self.branch + 1, length: at, ..next }
    }

    /// Suspends the session until a user decides that it continues, because what was written after
    /// this is not known: calls that are not on record any more may have taken effect.
    pub(super) fn suspend_unverified(&mut self) {
        if self.status == SessionStatus::Active {
            self.status = SessionStatus::Suspended;
        }
    }

    pub(super) fn is_deleted(&self) -> bool {
        self.status == SessionStatus::Deleted
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
fn is_active(status: &SessionStatus) -> bool {
    *status == SessionStatus::Active
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Writes a fingerprint as text.
pub(super) fn print(bytes: [u8; 16]) -> Box<str> {
    format!("{:032x}", u128::from_be_bytes(bytes)).into()
}

#[cfg(test)]
mod tests;
