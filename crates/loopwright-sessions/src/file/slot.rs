//! The index entry of a session.

use loopwright_core::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::{
    header::{SessionHeader, SessionQuery, SessionRelation},
    id::SessionId,
    status::SessionStatus,
};

/// The bytes of an entry.
pub(super) const SLOT: usize = 168;
/// Where the name stands in it.
const NAME: usize = 40;
/// Among the statuses: nothing could be told of the session, so it may be anything.
const DAMAGED: u8 = 1 << 7;

/// What the index knows of one session: enough to tell that it is not asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IndexEntry {
    pub(super) id: SessionId,
    /// When it was written last, or will have been once the write under way is done.
    pub(super) updated_at: Timestamp,
    /// What it may be now, one bit for each status.
    pub(super) statuses: u8,
    /// Whether no write is under way.
    pub(super) is_settled: bool,
    /// Whether it is a sub-agent's.
    pub(super) is_called: bool,
    /// What stands for the agent's name.
    pub(super) agent: u64,
    /// What stands for the directory; 0 if there is none.
    pub(super) workdir: u64,
    /// What stands for the parent; 0 if there is none.
    pub(super) parent: u64,
}

/// What a query asks for, in the terms of the index.
pub(super) struct IndexQuery<'a> {
    query: &'a SessionQuery,
    statuses: u8,
    agent: Option<u64>,
    workdir: Option<u64>,
    parent: Option<u64>,
}

pub(super) fn bit(status: SessionStatus) -> u8 {
    1 << SessionStatus::ALL.iter().position(|it| *it == status).unwrap_or_default()
}

/// Returns a number for a text; other texts have other ones but for bad luck. 0 stands for no text.
fn short(text: Option<&str>) -> u64 {
    let Some(text) = text else { return 0 };
    let hash = Sha256::digest(text.as_bytes());
    hash.first_chunk().map_or(1, |it| u64::from_le_bytes(*it)).max(1)
}

impl IndexEntry {
    pub(super) fn of(header: &SessionHeader) -> Self {
        Self {
            id: header.id.clone(),
            updated_at: header.updated_at,
            statuses: bit(header.status),
            is_settled: true,
            is_called: header.call.is_some(),
            agent: short(Some(&header.agent_name)),
            workdir: short(header.workdir.as_deref()),
            parent: short(header.parent.as_ref().map(SessionId::as_str)),
        }
    }

    /// Says of a session that nothing is known of it but when its files were written.
    pub(super) fn damaged(id: SessionId, updated_at: Timestamp) -> Self {
        Self {
            id,
            updated_at,
            statuses: u8::MAX,
            is_settled: false,
            is_called: false,
            agent: 0,
            workdir: 0,
            parent: 0,
        }
    }

    pub(super) fn is_damaged(&self) -> bool {
        self.statuses & DAMAGED != 0
    }

    /// Returns `true` if it leaves open that the session was written at some moment, and is any of these.
    pub(super) fn may_be_written(&self, updated_at: Timestamp, statuses: u8) -> bool {
        !self.is_settled && self.updated_at >= updated_at && self.statuses & statuses == statuses
    }

    /// Returns `true` if it says of a session what is true, or leaves it open.
    pub(super) fn covers(&self, truth: &Self) -> bool {
        let (updated_at, statuses) = (self.updated_at, self.statuses);
        let is_open = self.may_be_written(truth.updated_at, truth.statuses);
        *self == *truth
            || self.is_damaged()
            || is_open && *self == Self { updated_at, statuses, is_settled: false, ..truth.clone() }
    }

    pub(super) fn to_bytes(&self) -> [u8; SLOT] {
        let mut bytes = [0; SLOT];
        let name = self.id.as_str().as_bytes();
        bytes[4] = self.statuses;
        bytes[5] = u8::try_from(name.len()).unwrap_or_default();
        bytes[6] = u8::from(self.is_settled) | u8::from(self.is_called) << 1;
        let numbers = [self.updated_at.millis(), self.agent, self.workdir, self.parent];
        for (place, number) in bytes[8..NAME].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes[NAME..NAME + name.len()].copy_from_slice(name);
        let sum = crc32fast::hash(&bytes[4..]);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads an entry. Returns `None` if it is none.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let entry = Entry::read(bytes)?;
        Some(Self {
            id: SessionId::new(entry.name()?).ok()?,
            updated_at: entry.updated_at(),
            statuses: bytes[4],
            is_settled: bytes[6] & 1 != 0,
            is_called: bytes[6] & 2 != 0,
            agent: entry.number(16),
            workdir: entry.number(24),
            parent: entry.number(32),
        })
    }
}

/// An entry of which only what matters is read.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a>(&'a [u8]);

impl<'a> Entry<'a> {
    /// Takes bytes for an entry. Returns `None` if they are none.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let sum = bytes.first_chunk().map(|it| u32::from_le_bytes(*it))?;
        (bytes.len() == SLOT && crc32fast::hash(&bytes[4..]) == sum).then_some(Self(bytes))
    }

    fn number(self, at: usize) -> u64 {
        self.0[at..].first_chunk().map_or(0, |it| u64::from_le_bytes(*it))
    }

    pub(super) fn updated_at(self) -> Timestamp {
        Timestamp::from_millis(self.number(8))
    }

    pub(super) fn name(self) -> Option<&'a str> {
        str::from_utf8(self.0[NAME..].get(..usize::from(self.0[5]))?).ok()
    }
}

impl<'a> IndexQuery<'a> {
    pub(super) fn of(query: &'a SessionQuery) -> Self {
        let all: u8 = SessionStatus::ALL.into_iter().map(bit).sum();
        let parent = match &query.kinship {
            SessionRelation::ChildOf(parent) => Some(short(Some(parent.as_str()))),
            SessionRelation::Any | SessionRelation::TopLevel => None,
        };
        Self {
            query,
            statuses: query.status.map_or(all & !bit(SessionStatus::Deleted), bit),
            agent: query.agent_name.as_deref().map(|it| short(Some(it))),
            workdir: query.workdir.as_deref().map(|it| short(Some(it))),
            parent,
        }
    }

    /// Returns `true` if a session may be asked for.
    pub(super) fn may_be(&self, entry: Entry<'_>) -> bool {
        let is = |wanted: Option<u64>, at| wanted.is_none_or(|it| it == entry.number(at));
        let (statuses, flags) = (entry.0[4], entry.0[6]);
        let (is_settled, is_called) = (flags & 1 != 0, flags & 2 != 0);
        let is_kin = !is_called || self.query.kinship != SessionRelation::TopLevel;
        // What is being written may have been anywhere before.
        let is_after = !is_settled
            || self.query.is_after(entry.updated_at(), entry.name().unwrap_or_default());
        let is_wanted = statuses & self.statuses != 0
            && is_kin
            && is_after
            && is(self.agent, 16)
            && is(self.workdir, 24)
            && is(self.parent, 32);
        is_wanted || statuses & DAMAGED != 0
    }
}

#[cfg(test)]
mod tests;
