//! Logs beside that of a session's changes.

use std::{fs::File, path::Path, sync::Arc};

use super::{
    disk,
    failure::At as _,
    frame::{self, Frame},
    frame_file::{FrameFile, intact},
    root::{ReadMode, Root},
    session::Session,
};
use crate::{
    id::SessionId,
    status::SessionStatus,
    store::{LogEntry, SessionLog, StoreError},
};

/// How much is read at once.
const PIECE: u64 = 64 << 10;

impl Session<'_> {
    /// Adds notes, and returns the number of the last one. Once there are twice as many as are kept, the
    /// older half is forgotten.
    pub(super) fn note(
        &self,
        log: SessionLog,
        notes: &[Arc<[u8]>],
        keep: Option<u64>,
    ) -> Result<u64, StoreError> {
        let path = self.files.dir.join(log.as_str());
        let (mut trail, last) = FrameFile::open(self.id, &path)?;
        let mut number = last.map_or(0, |it| numbered(&it.head));
        let mut bytes = Vec::new();
        for body in notes {
            number += 1;
            frame::write(&mut bytes, trail.end, &number.to_le_bytes(), body).at(&path)?;
        }
        if !bytes.is_empty() {
            trail.append(&bytes)?;
        }
        if let Some(keep) = keep {
            let first = frame::head_at(&mut trail.file, 0).at(&path)?.map_or(0, |it| numbered(&it));
            if number.saturating_sub(first) >= keep.max(1).saturating_mul(2) {
                shorten(self.id, &path, number - keep.max(1))?;
            }
        }
        Ok(number)
    }
}

impl Root {
    /// Returns the entries of a log after a number, up to a limit; none if the session does not
    /// exist.
    pub(super) fn notes(
        &self,
        id: &SessionId,
        log: SessionLog,
        after: u64,
        limit: usize,
    ) -> Result<Vec<LogEntry>, StoreError> {
        let header = self.header(id, ReadMode::WaitForWriter)?;
        if header.is_none_or(|it| it.status == SessionStatus::Deleted) {
            return Ok(Vec::new());
        }
        let path = self.sessions().join(id.as_str()).join(log.as_str());
        notes_after(id, &path, after, limit)
    }
}

/// Returns the entries after a number, up to a limit.
fn notes_after(
    id: &SessionId,
    path: &Path,
    after: u64,
    limit: usize,
) -> Result<Vec<LogEntry>, StoreError> {
    let Some(mut file) = disk::open(path).at(path)? else { return Ok(Vec::new()) };
    let length = file.metadata().at(path)?.len();
    let last = frame::ending_at(&mut file, length).at(path)?;
    if limit == 0 || last.is_some_and(|it| numbered(&it.head) <= after) {
        return Ok(Vec::new());
    }
    let mut base = seek(&mut file, length, after).at(path)?;
    let (mut notes, mut size) = (Vec::new(), PIECE);
    loop {
        let bytes = frame::part(&mut file, base, size).at(path)?;
        let scan = frame::scan(&bytes, base);
        for Frame { head, body, .. } in scan.frames {
            let number = numbered(&bytes[head]);
            if number > after {
                notes.push(LogEntry { number, body: bytes[body].into() });
            }
            if notes.len() == limit {
                return Ok(notes);
            }
        }
        if (bytes.len() as u64) < size {
            // What is torn at the end is not there yet.
            let rest = frame::part(&mut file, scan.end, u64::MAX).at(path)?;
            intact(id, path, &frame::scan(&rest, scan.end))?;
            return Ok(notes);
        }
        size = if scan.end == base { size * 2 } else { PIECE };
        base = scan.end;
    }
}

/// Finds a place from which on all notes after some number are read, without reading what comes before.
fn seek(file: &mut File, length: u64, after: u64) -> std::io::Result<u64> {
    // All notes after the number begin at `low` or later; the note at `high`, if any, is one of them.
    let (mut low, mut high) = (0, length);
    while high - low > PIECE {
        let middle = low + (high - low) / 2;
        let bytes = frame::part(file, middle, PIECE.min(high - middle))?;
        match frame::find(&bytes, middle, 0) {
            Some(frame) if numbered(&bytes[frame.head.clone()]) <= after => {
                low = middle + frame.at.end as u64;
            }
            // What is not found is too long for a piece, or damaged.
            _ => high = middle,
        }
    }
    Ok(low)
}

/// Leaves out the notes up to some number.
fn shorten(id: &SessionId, path: &Path, until: u64) -> Result<(), StoreError> {
    let notes = notes_after(id, path, until, usize::MAX)?;
    rewrite(path, &notes)
}

/// Rewrites a log.
fn rewrite(path: &Path, notes: &[LogEntry]) -> Result<(), StoreError> {
    let mut bytes = Vec::new();
    for note in notes {
        frame::write(&mut bytes, 0, &note.number.to_le_bytes(), &note.body).at(path)?;
    }
    disk::replace(path, &bytes).at(path)
}

/// Moves a damaged log aside, and keeps the notes that can be read.
pub(super) fn salvage(path: &Path) -> Result<String, StoreError> {
    let mut file = disk::options().read(true).open(path).at(path)?;
    let bytes = frame::part(&mut file, 0, u64::MAX).at(path)?;
    let (mut notes, mut from) = (Vec::new(), 0);
    while let Some(Frame { at, head, body }) = frame::find(&bytes, 0, from) {
        notes.push(LogEntry { number: numbered(&bytes[head]), body: bytes[body].into() });
        from = at.end;
    }
    let aside = disk::backup_path(path, "damaged");
    std::fs::hard_link(path, &aside).at(&aside)?;
    rewrite(path, &notes)?;
    let (kept, aside) = (notes.len(), aside.display());
    Ok(format!("kept the {kept} readable log entries; the damaged file is kept as `{aside}`"))
}

/// Reads the number of a note; it has none if it is not intact.
fn numbered(head: &[u8]) -> u64 {
    head.first_chunk().map_or(0, |it| u64::from_le_bytes(*it))
}
