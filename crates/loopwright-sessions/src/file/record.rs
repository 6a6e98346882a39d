//! What the frames of a session's log say.

use std::sync::Arc;

use loopwright_core::{Seq, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{
    header::{ForkPoint, SessionHeader},
    id::SessionId,
    status::SessionStatus,
    stored::FORMAT,
};

/// The head of a frame: what was done, and what is known of the session since then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) kind: Kind,
    pub(super) version: u64,
    pub(super) status: SessionStatus,
    /// How many changes lead to the state.
    pub(super) length: Seq,
    /// How many of them the body holds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) count: usize,
    pub(super) line: u32,
    pub(super) updated_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) from: Option<ForkPoint>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) title: Option<Arc<str>>,
    /// What the write is known by, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) print: Option<Box<str>>,
    /// Where the session stands in the index, unless that was made anew.
    pub(super) slot: u64,
    /// What never changes; in the first frame only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) session: Option<Box<Birth>>,
}

/// What a log is made of, of the head of a frame.
#[derive(Debug, Deserialize)]
pub(super) struct Mark {
    pub(super) kind: Kind,
    pub(super) version: u64,
    pub(super) length: Seq,
    #[serde(default)]
    pub(super) count: usize,
    pub(super) line: u32,
    #[serde(default)]
    pub(super) from: Option<ForkPoint>,
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Create,
    Append,
    Rewind,
    Delete,
}

/// What is known of a session from its beginning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Birth {
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Birth {
    pub(super) fn of(header: &SessionHeader, definition: usize) -> Self {
        let SessionHeader {
            id, parent, call, workdir, agent_name, agent_label, created_at, ..
        } = header.clone();
        let format = FORMAT;
        Self { format, id, parent, call, workdir, agent_name, agent_label, created_at, definition }
    }

    /// Puts together what is known of a session.
    pub(super) fn header(self, last: Record) -> SessionHeader {
        let Self { id, parent, call, workdir, agent_name, agent_label, created_at, .. } = self;
        let Record { version, status, length, line, updated_at, from, title, .. } = last;
        SessionHeader {
            id,
            status,
            version,
            length,
            line,
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

impl Record {
    /// Begins a record that follows this one.
    pub(super) fn next(&self, kind: Kind, updated_at: Timestamp) -> Self {
        let (version, count) = (self.version + 1, 0);
        let (print, session) = (None, None);
        Self { kind, version, count, updated_at, print, session, ..self.clone() }
    }

    pub(super) fn is_deleted(&self) -> bool {
        self.status == SessionStatus::Deleted
    }
}

/// Writes a fingerprint as text.
pub(super) fn print(bytes: [u8; 16]) -> Box<str> {
    format!("{:032x}", u128::from_be_bytes(bytes)).into()
}
