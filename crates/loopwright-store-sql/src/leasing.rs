//! Leases, and the control messages for the process that holds one.

use std::{sync::Arc, time::Duration};

use loopwright_core::Timestamp;
use loopwright_sessions::{
    ControlMessage, Lease, LeaseRequest, Posted, SessionId, StoreError, rules,
    stored::{decode, encode},
};

use crate::{database::Transaction, error::Failure, head::SessionRow, row::values};

/// Implements [`SessionStore::lease`](loopwright_sessions::SessionStore::lease).
pub(crate) async fn lease(
    transaction: &mut dyn Transaction,
    id: &SessionId,
    claim: LeaseRequest<'_>,
) -> Result<Lease, Failure> {
    let head = SessionRow::locked(transaction, id).await?;
    let claim = LeaseRequest { now: transaction.clock(claim.now).await?, ..claim };
    rules::check_claim(head.lease.as_ref(), &claim)?;
    let LeaseRequest { owner, now, ttl: lasts, .. } = claim;
    let (number, until) = (head.leases + 1, now.plus(lasts));
    let sql = "
        UPDATE sessions SET leases = $1, lease_owner = $2, lease_until = $3 WHERE key = $4
        RETURNING (SELECT MAX(number) FROM control_messages WHERE session = key)";
    let row = transaction.row(sql, values![number, owner, until, head.key]).await?;
    let last = row.map(|mut row| row.maybe_int(0)).transpose()?.flatten();
    let last_control = last.map_or(0, |last| u64::try_from(last).unwrap_or_default());
    Ok(Lease { id: id.clone(), owner: owner.into(), number, until, last_control })
}

/// Implements [`SessionStore::renew`](loopwright_sessions::SessionStore::renew).
pub(crate) async fn renew(
    transaction: &mut dyn Transaction,
    lease: &Lease,
    now: Timestamp,
    lasts: Duration,
) -> Result<Lease, Failure> {
    let head = held(transaction, lease).await?;
    let until = transaction.clock(now).await?.plus(lasts);
    let sql = "UPDATE sessions SET lease_until = $1 WHERE key = $2";
    transaction.run_later(sql, values![until, head.key]).await?;
    let owner = head.lease.map_or_else(|| Arc::clone(&lease.owner), |held| held.owner);
    Ok(Lease { owner, until, ..lease.clone() })
}

/// Implements [`SessionStore::release`](loopwright_sessions::SessionStore::release).
pub(crate) async fn release(
    transaction: &mut dyn Transaction,
    lease: &Lease,
) -> Result<(), Failure> {
    let sql = "UPDATE sessions SET lease_owner = NULL WHERE id = $1 AND leases = $2";
    transaction.run_later(sql, values![lease.id.as_str(), lease.number]).await?;
    Ok(())
}

/// Implements [`SessionStore::holder`](loopwright_sessions::SessionStore::holder).
pub(crate) async fn holder(
    transaction: &mut dyn Transaction,
    id: &SessionId,
    now: Timestamp,
) -> Result<Option<Arc<str>>, Failure> {
    let head = SessionRow::seen(transaction, id).await?;
    if head.lease.is_none() {
        return Ok(None);
    }
    let now = transaction.clock(now).await?;
    Ok(rules::lease_in_force(head.lease.as_ref(), now).map(|it| Arc::clone(&it.owner)))
}

/// Implements [`SessionStore::send_control`](loopwright_sessions::SessionStore::send_control).
pub(crate) async fn post(
    transaction: &mut dyn Transaction,
    id: &SessionId,
    control: &ControlMessage,
) -> Result<(i64, u64), Failure> {
    let (body, head) = (encode(id, control)?, SessionRow::locked(transaction, id).await?);
    let sql = "INSERT INTO control_messages (session, body) VALUES ($1, $2) RETURNING number";
    let row = transaction.row(sql, values![head.key, &*body]).await?;
    let mut row = row.ok_or_else(|| Failure::Form("a message has no number".to_owned()))?;
    Ok((head.key, row.number(0)?))
}

/// Implements [`SessionStore::take_control`](loopwright_sessions::SessionStore::take_control).
pub(crate) async fn collect(
    transaction: &mut dyn Transaction,
    lease: &Lease,
) -> Result<Vec<Posted>, Failure> {
    // Every run asks this twice a second.
    let sql =
        "SELECT m.number, m.body FROM sessions s LEFT JOIN control_messages m ON m.session = s.key
        WHERE s.id = $1 AND s.status <> 'deleted' AND s.leases = $2 AND s.lease_owner IS NOT NULL
        ORDER BY m.number";
    let rows = transaction.rows(sql, values![lease.id.as_str(), lease.number]).await?;
    if rows.is_empty() {
        return Err(StoreError::LeaseLost(lease.id.clone()).into());
    }
    let mut posted = Vec::new();
    for mut row in rows {
        let body = row.maybe_bytes(1)?.unwrap_or_default();
        if !body.is_empty() {
            posted.push(Posted { number: row.number(0)?, control: decode(&lease.id, &body)? });
        }
    }
    Ok(posted)
}

/// Removes the control messages up to a number. The last one stays, without its body, so that no later one gets its
/// number.
pub(crate) async fn handled(
    transaction: &mut dyn Transaction,
    session: i64,
    number: u64,
) -> Result<(), Failure> {
    let sql = "DELETE FROM control_messages WHERE session = $1 AND number < $2";
    transaction.run_later(sql, values![session, number]).await?;
    let sql = "UPDATE control_messages SET body = $3 WHERE session = $1 AND number = $2";
    transaction.run_later(sql, values![session, number, &[][..]]).await?;
    Ok(())
}

/// Checks that a caller may write now.
pub(crate) async fn check(
    transaction: &mut dyn Transaction,
    id: &SessionId,
    head: &SessionRow,
    shown: Option<&Lease>,
    now: Timestamp,
) -> Result<(), Failure> {
    let current = head.lease.as_ref();
    // The time matters only for a writer without a lease.
    let is_held = current.is_some() && shown.is_none();
    let now = if is_held { transaction.clock(now).await? } else { now };
    Ok(rules::check_lease(id, current, shown, now)?)
}

/// Finds the session of a lease that is still held, and blocks other writers of the session.
async fn held(transaction: &mut dyn Transaction, lease: &Lease) -> Result<SessionRow, Failure> {
    still(SessionRow::locked(transaction, &lease.id).await, lease)
}

fn still(found: Result<SessionRow, Failure>, lease: &Lease) -> Result<SessionRow, Failure> {
    let lost = || StoreError::LeaseLost(lease.id.clone()).into();
    match found {
        Err(Failure::Store(StoreError::NotFound(_))) => Err(lost()),
        Ok(head) if !head.is_held(lease) => Err(lost()),
        head => head,
    }
}
