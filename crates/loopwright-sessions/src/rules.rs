//! The checks of every store before a write, shared so that all stores decide alike.

use loopwright_core::{Seq, Timestamp};

use crate::{
    header::ForkPoint,
    id::SessionId,
    store::{Lease, LeaseRequest, StoreError},
};

/// Checks that a writer may write now: under the latest lease, even if it has expired; or without a
/// lease, if none is in force.
///
/// # Errors
///
/// [`LeaseLost`](StoreError::LeaseLost) if the given lease is not the latest one, and
/// [`Busy`](StoreError::Busy) if no lease is given and another writer holds one.
pub fn check_lease(
    id: &SessionId,
    held: Option<&Lease>,
    shown: Option<&Lease>,
    now: Timestamp,
) -> Result<(), StoreError> {
    match (held, shown) {
        (Some(held), Some(shown)) if held.number == shown.number => Ok(()),
        (_, Some(_)) => Err(StoreError::LeaseLost(id.clone())),
        (Some(held), None) if held.until > now => Err(busy(held)),
        (_, None) => Ok(()),
    }
}

/// Checks that a lease can be taken.
///
/// # Errors
///
/// [`Busy`](StoreError::Busy) if another process that may still be running holds it.
pub fn check_claim(held: Option<&Lease>, claim: &LeaseRequest<'_>) -> Result<(), StoreError> {
    let stands = |held: &&Lease| Some(&*held.owner) != claim.replaces;
    lease_in_force(held, claim.now).filter(stands).map_or(Ok(()), |held| Err(busy(held)))
}

/// Returns a lease if it is in force at a time.
pub fn lease_in_force(held: Option<&Lease>, now: Timestamp) -> Option<&Lease> {
    held.filter(|held| held.until > now)
}

/// Checks that a session is at the version that a writer expects.
///
/// # Errors
///
/// [`Conflict`](StoreError::Conflict) if it is not.
pub fn check_version(id: &SessionId, expected: u64, found: u64) -> Result<(), StoreError> {
    let id = id.clone();
    if expected == found { Ok(()) } else { Err(StoreError::Conflict { id, expected, found }) }
}

/// Checks that `count` changes, starting with this number, follow the changes of a session at this
/// version.
///
/// # Errors
///
/// [`Conflict`](StoreError::Conflict) if they do not.
pub fn check_follows(
    id: &SessionId,
    version: u64,
    length: Seq,
    first: Seq,
    count: usize,
) -> Result<(), StoreError> {
    if count == 0 || first == length {
        return Ok(());
    }
    Err(StoreError::Conflict { id: id.clone(), expected: version, found: version })
}

/// Checks that a session with this current branch and number of changes can be forked at a point.
///
/// # Errors
///
/// [`NotFound`](StoreError::NotFound) if the point is not on that branch.
pub fn check_fork(from: &ForkPoint, branch: u32, length: Seq) -> Result<(), StoreError> {
    let is_there = from.branch == branch && from.at <= length;
    if is_there { Ok(()) } else { Err(StoreError::NotFound(from.session.clone())) }
}

fn busy(held: &Lease) -> StoreError {
    let Lease { id, owner, until, .. } = held.clone();
    StoreError::Busy { id, owner, until }
}
