//! The format in which stores keep changes; [`FORMAT_VERSION`] is its number.
//!
//! Changes that are written together are stored together: a [`StoredBatch`] holds them as one JSON
//! array. Each change has the form of [`ChangeRecord`]; `docs/storage.md` describes it.

use std::{fmt, num::NonZero, ops::Range, thread};

use loopwright_core::{ChangeRecord, Seq, Timestamp};
use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest as _, Sha256};

use crate::{
    id::SessionId,
    store::{AppendRequest, ChangeBatch, StoreError},
};

/// The number of the written format. All smaller numbers can be read, too.
pub const FORMAT_VERSION: u32 = 1;

/// Changes that were written together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredBatch<B = Vec<u8>> {
    /// The number of the first change.
    pub first: Seq,
    /// The number of changes that count; a rewind left the others behind.
    pub count: usize,
    /// The changes, as a JSON array.
    pub body: B,
    /// The [`checksum`] of the written body, unless the store checks bodies itself.
    pub sum: Option<u32>,
}

impl<B: AsRef<[u8]>> StoredBatch<B> {
    /// Returns the part before a change.
    #[must_use]
    pub fn until(self, end: Seq) -> Self {
        let room = usize::try_from(end.saturating_sub(self.first)).unwrap_or(usize::MAX);
        Self { count: self.count.min(room), ..self }
    }

    /// Reads its changes.
    ///
    /// # Errors
    ///
    /// [`Corrupt`](StoreError::Corrupt) if they cannot be read, differ from the written ones, or
    /// are too few.
    pub fn decode(&self, id: &SessionId) -> Result<Vec<ChangeRecord>, StoreError> {
        let wrong = |error: &dyn fmt::Display| {
            corrupt(id, format!("the batch at change {}: {error}", self.first))
        };
        if self.sum.is_some_and(|sum| checksum(self.body.as_ref()) != sum) {
            return Err(wrong(&"the checksum does not match"));
        }
        // Looked at as a whole, text takes less than piece by piece as it is read.
        let body = str::from_utf8(self.body.as_ref()).map_err(|error| wrong(&error))?;
        let mut changes: Vec<ChangeRecord> =
            serde_json::from_str(body).map_err(|error| wrong(&error))?;
        if changes.len() < self.count {
            let (has, first) = (changes.len(), self.first);
            return Err(corrupt(id, format!("the batch at change {first} has only {has} changes")));
        }
        changes.truncate(self.count);
        Ok(changes)
    }
}

/// What is written at once is seldom longer.
const USUAL: usize = 4 << 10;
/// The size in bytes from which several threads read.
const SPREAD: usize = 256 << 10;

/// Returns the CRC-32 of a body, with which a store detects damage.
pub fn checksum(body: &[u8]) -> u32 {
    crc32fast::hash(body)
}

/// Writes a value as JSON.
///
/// # Errors
///
/// [`Corrupt`](StoreError::Corrupt) if it has no JSON form.
pub fn encode<T: Serialize + ?Sized>(id: &SessionId, value: &T) -> Result<Vec<u8>, StoreError> {
    let mut body = Vec::with_capacity(USUAL);
    serde_json::to_writer(&mut body, value).map_err(|error| corrupt(id, error))?;
    Ok(body)
}

/// Reads a value that [`encode`] wrote.
///
/// # Errors
///
/// [`Corrupt`](StoreError::Corrupt) if the text is not such a value.
pub fn decode<T: DeserializeOwned>(id: &SessionId, body: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(body).map_err(|error| corrupt(id, error))
}

/// Checks that this version can read the format of a session.
///
/// # Errors
///
/// [`Corrupt`](StoreError::Corrupt) if the format is a later one.
pub fn check_format(id: &SessionId, form: u32) -> Result<(), StoreError> {
    if form <= FORMAT_VERSION {
        return Ok(());
    }
    let reason = format!(
        "stored in format {form}, but this program reads formats up to {FORMAT_VERSION}; update \
            the program"
    );
    Err(corrupt(id, reason))
}

/// Reads the changes of consecutive batches with this total number of changes.
///
/// # Errors
///
/// [`Corrupt`](StoreError::Corrupt) if a batch cannot be read or does not follow the previous one,
/// or if changes are missing.
pub fn decode_batches<B: AsRef<[u8]> + Sync>(
    id: &SessionId,
    length: Seq,
    batches: &[StoredBatch<B>],
) -> Result<Vec<ChangeRecord>, StoreError> {
    check_sequence(id, length, batches.iter().map(|it| (it.first, it.count)))?;
    let bytes: usize = batches.iter().map(|it| it.body.as_ref().len()).sum();
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    if bytes < SPREAD || threads == 1 {
        return decode_in_turn(id, batches);
    }
    let share = batches.len().div_ceil(threads);
    thread::scope(|scope| {
        let shares = batches.chunks(share).map(|it| scope.spawn(move || decode_in_turn(id, it)));
        let mut all = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
        for share in shares.collect::<Vec<_>>() {
            all.append(&mut share.join().map_err(|_| corrupt(id, "a reader panicked"))??);
        }
        Ok(all)
    })
}

/// Reads the changes from a number on, up to this total number of changes, of consecutive batches. Returns `None` if the first
/// of them is in an earlier batch.
///
/// # Errors
///
/// As for [`decode_batches`].
pub fn decode_from<B: AsRef<[u8]>>(
    id: &SessionId,
    first: Seq,
    length: Seq,
    batches: &[StoredBatch<B>],
) -> Result<Option<Vec<ChangeRecord>>, StoreError> {
    let start = batches.first().map_or(length, |it| it.first);
    let Some(skipped) = first.checked_sub(start) else { return Ok(None) };
    check_sequence_from(id, start, length, batches.iter().map(|it| (it.first, it.count)))?;
    let mut changes = decode_in_turn(id, batches)?;
    let skipped = usize::try_from(skipped).unwrap_or(usize::MAX).min(changes.len());
    Ok(Some(changes.split_off(skipped)))
}

/// Checks that batches, given by their first change and length, are consecutive and have this total
/// number of changes.
///
/// # Errors
///
/// [`Corrupt`](StoreError::Corrupt) if they do not.
pub fn check_sequence(
    id: &SessionId,
    length: Seq,
    batches: impl IntoIterator<Item = (Seq, usize)>,
) -> Result<(), StoreError> {
    check_sequence_from(id, 0, length, batches)
}

fn check_sequence_from(
    id: &SessionId,
    mut next: Seq,
    length: Seq,
    batches: impl IntoIterator<Item = (Seq, usize)>,
) -> Result<(), StoreError> {
    for (first, count) in batches {
        if first != next {
            return Err(corrupt(id, format!("change {next} is followed by change {first}")));
        }
        next += count as u64;
    }
    if next != length {
        return Err(corrupt(id, format!("only {next} of {length} changes exist")));
    }
    Ok(())
}

fn decode_in_turn<B: AsRef<[u8]>>(
    id: &SessionId,
    batches: &[StoredBatch<B>],
) -> Result<Vec<ChangeRecord>, StoreError> {
    let mut all = Vec::with_capacity(batches.iter().map(|it| it.count).sum());
    for batch in batches {
        all.append(&mut batch.decode(id)?);
    }
    Ok(all)
}

/// Reads the intact batches out of this total number of changes. Returns their changes, and the
/// numbers of the missing ones.
pub fn decode_intact<B: AsRef<[u8]>>(
    id: &SessionId,
    length: Seq,
    batches: &[StoredBatch<B>],
) -> (Vec<ChangeRecord>, Vec<Range<Seq>>) {
    let (mut changes, mut gaps, mut next) = (Vec::new(), Vec::<Range<Seq>>::new(), 0);
    let mut gap = |from: Seq, to: Seq| match gaps.last_mut() {
        Some(last) if last.end == from => last.end = to,
        _ if from < to => gaps.push(from..to),
        _ => {}
    };
    for batch in batches.iter().filter(|it| it.first < length) {
        gap(next, batch.first);
        let end = batch.first.saturating_add(batch.count as u64);
        match batch.decode(id) {
            Ok(mut read) if batch.first >= next => changes.append(&mut read),
            _ => gap(batch.first.max(next), end),
        }
        next = next.max(end);
    }
    gap(next, length);
    (changes, gaps)
}

/// Returns the fingerprint of a write, by which a repeated write is recognized.
pub fn fingerprint(write: &AppendRequest<'_>, body: &[u8]) -> [u8; 16] {
    let mut hash = Sha256::new();
    let AppendRequest {
        expected,
        batch: ChangeBatch { first, changes },
        status,
        title,
        workdir,
        parent,
        ..
    } = write;
    let numbers = [*expected, *first, changes.len() as u64];
    for number in numbers {
        hash.update(number.to_le_bytes());
    }
    let header = format!("{status:?} {title:?} ");
    hash.update(header);
    if workdir.is_some() || parent.is_some() {
        hash.update(format!("{workdir:?} {parent:?} "));
    }
    hash.update(body);
    let mut short = [0; 16];
    short.copy_from_slice(&hash.finalize()[..16]);
    short
}

/// Returns the time of a write, which is never earlier than that of the previous write, even if the
/// clock goes back.
pub fn written_at(before: Timestamp, now: Timestamp) -> Timestamp {
    before.max(now)
}

fn corrupt(id: &SessionId, reason: impl fmt::Display) -> StoreError {
    StoreError::Corrupt { id: id.clone(), reason: reason.to_string() }
}

#[cfg(test)]
mod tests;
