//! The log of a session, read from its beginning.

use std::{fmt::Display, ops::Range, path::Path};

use loopwright_core::Seq;

use super::{
    frame::{self, Frame, LogTail, Scan},
    frame_file::{corrupt, intact},
    record::{CreationRecord, Kind, Mark, Record},
};
use crate::{
    header::{ForkPoint, SessionHeader},
    id::SessionId,
    store::StoreError,
    stored::{StoredBatch, check_format},
};

/// The log of a session, read from its beginning.
#[derive(Debug)]
pub(super) struct SessionLogFile {
    pub(super) bytes: Vec<u8>,
    pub(super) frames: Vec<Frame>,
    pub(super) birth: CreationRecord,
    pub(super) last: Record,
    pub(super) branches: Vec<Branch>,
    /// Where the agent's definition stands in the bytes.
    pub(super) definition: Range<usize>,
    /// Where the frames end.
    pub(super) end: u64,
    pub(super) ending: LogTail,
    /// What was acknowledged and is not there, in words.
    pub(super) missing: Option<String>,
}

/// Changes in a row, and where they leave another branch.
#[derive(Debug, Default)]
pub(super) struct Branch {
    pub(super) from: Option<ForkPoint>,
    pub(super) batches: Vec<Batch>,
}

/// Changes that were written together.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) first: Seq,
    pub(super) count: u64,
    /// Where they stand in the bytes.
    pub(super) body: Range<usize>,
    /// Which of the frames it is.
    pub(super) frame: usize,
}

impl SessionLogFile {
    /// Reads a log. What is torn at its end is left out; if it was acknowledged, the session is suspended.
    ///
    /// # Errors
    ///
    /// [`Corrupt`](StoreError::Corrupt) if something else is wrong with it.
    pub(super) fn read(
        id: &SessionId,
        path: &Path,
        bytes: Vec<u8>,
        acknowledged: Option<u64>,
    ) -> Result<Self, StoreError> {
        let scan = frame::scan(&bytes, 0);
        intact(id, path, &scan)?;
        Self::of(id, path, bytes, scan, acknowledged)
    }

    /// Makes sense of the frames of a log.
    pub(super) fn of(
        id: &SessionId,
        path: &Path,
        bytes: Vec<u8>,
        scan: Scan,
        acknowledged: Option<u64>,
    ) -> Result<Self, StoreError> {
        let wrong = |at: usize, what: &dyn Display| {
            let path = path.display();
            corrupt(id, format!("the record at byte {at} of `{path}` {what}"))
        };
        let not_understood = |frame: &Frame| wrong(frame.at.start, &"cannot be parsed");
        let head = |frame: &Frame| &bytes[frame.head.clone()];
        let record = |frame: &Frame| Record::read(head(frame)).ok_or_else(|| not_understood(frame));
        let Some(first) = scan.frames.first() else {
            return Err(not_whole(id, path));
        };
        let mut last = record(first)?;
        let Some(birth) = last.session.take() else {
            return Err(wrong(0, &"does not create a session"));
        };
        check_format(id, birth.format)?;
        let definition = first.body.start..first.body.start.saturating_add(birth.definition);
        let changes = definition.end..first.body.end;
        let Some(base) = last.length.checked_sub(last.count) else {
            return Err(wrong(0, &"counts more changes than exist"));
        };
        if birth.id != *id || changes.start > changes.end {
            return Err(wrong(0, &format!("does not belong to session `{id}`")));
        }
        let mut branches = vec![Branch { from: last.from.clone(), batches: Vec::new() }];
        let count = last.count;
        if count > 0 {
            branches[0].batches.push(Batch { first: base, count, body: changes, frame: 0 });
        }
        let mut version = last.version;
        for (number, frame) in scan.frames.iter().enumerate().skip(1) {
            let next = Mark::read(head(frame)).ok_or_else(|| not_understood(frame))?;
            if next.version <= version {
                return Err(wrong(frame.at.start, &"does not follow the previous record"));
            }
            if next.kind == Kind::Rewind {
                branches.push(Branch { from: record(frame)?.from, batches: Vec::new() });
            }
            if next.branch as usize + 1 != branches.len() {
                return Err(wrong(frame.at.start, &"is on another branch"));
            }
            let first = next.length.checked_sub(next.count);
            if let (Some(branch), Some(first)) =
                (branches.last_mut(), first.filter(|_| next.count > 0))
            {
                let (count, body) = (next.count, frame.body.clone());
                branch.batches.push(Batch { first, count, body, frame: number });
            }
            version = next.version;
        }
        if let Some(frame) = scan.frames.last().filter(|it| it.at != first.at) {
            last = record(frame)?;
        }
        let missing = missing(path, bytes.len() as u64, &scan, last.version, acknowledged);
        if missing.is_some() {
            last.suspend_unverified();
        }
        let (end, ending, frames) = (scan.end, scan.ending, scan.frames);
        Ok(Self { bytes, frames, birth: *birth, last, branches, definition, end, ending, missing })
    }

    /// Returns what is known of the session.
    pub(super) fn header(&self) -> SessionHeader {
        self.birth.clone().header(self.last.clone())
    }

    /// Returns the batches of a branch that come before some change.
    pub(super) fn batches(
        &self,
        branch: &Branch,
        until: Seq,
    ) -> impl Iterator<Item = StoredBatch<&[u8]>> {
        let own = branch.batches.iter().filter(move |it| it.first < until);
        own.map(move |it| {
            let body = &self.bytes[it.body.clone()];
            let count = it.count.min(until - it.first);
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            StoredBatch { first: it.first, count, body, sum: None }
        })
    }
}

/// Says what was acknowledged and is not in a log that ends with some version.
fn missing(
    path: &Path,
    length: u64,
    scan: &Scan,
    version: u64,
    acknowledged: Option<u64>,
) -> Option<String> {
    let lost = acknowledged.unwrap_or_default().saturating_sub(version);
    let (path, rest) = (path.display(), length.saturating_sub(scan.end));
    let end = match scan.ending {
        LogTail::CorruptTail => {
            Some(format!("the last {rest} bytes of `{path}` are a damaged record"))
        }
        LogTail::Torn if lost > 0 => Some(format!(
            "the last {rest} bytes of `{path}` are \
            incomplete"
        )),
        _ if lost > 0 => Some(format!("`{path}` ends too early")),
        _ => None,
    }?;
    Some(match lost {
        0 => end,
        1 => format!("{end}: the last write is missing"),
        lost => format!("{end}: the last {lost} writes are missing"),
    })
}

/// Says that there is no first record.
pub(super) fn not_whole(id: &SessionId, path: &Path) -> StoreError {
    let path = path.display();
    corrupt(id, format!("the first record of `{path}` is damaged; restore it from a backup"))
}
