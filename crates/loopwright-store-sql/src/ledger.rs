//! Counts of what principals consume: each method is one transaction.

use std::time::Duration;

use async_trait::async_trait;
use loopwright_core::{Spend, Timestamp};
use loopwright_sessions::{
    Allowance, AllowanceRequest, DaySpend, LEDGER_DAY, PrincipalTag, SessionId, StoreError,
    UsageLedger,
};

use crate::{
    database::{Database, Transaction},
    error::Failure,
    head::SessionRow,
    row::values,
    store::{SqlStore, within},
};

/// The name under which the local user is counted. Tags are longer.
const LOCAL: &str = "local";

#[async_trait]
impl<D: Database> UsageLedger for SqlStore<D> {
    async fn take(
        &self,
        principal: Option<&PrincipalTag>,
        request: &AllowanceRequest,
        now: Timestamp,
    ) -> Result<Allowance, StoreError> {
        within!(self.writing, |it| take(it, name(principal), request, now))
    }

    async fn record_spend(
        &self,
        session: &SessionId,
        before: Spend,
        total: Spend,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        within!(self.writing, session, |it| record(it, session, before, total, now))
    }

    async fn spent_today(
        &self,
        principal: Option<&PrincipalTag>,
        now: Timestamp,
    ) -> Result<DaySpend, StoreError> {
        within!(self.reading, |it| spent_today(it, name(principal), now))
    }

    async fn open_jobs(&self, principal: Option<&PrincipalTag>) -> Result<u64, StoreError> {
        within!(self.reading, |it| open_jobs(it, principal))
    }
}

/// Returns the name under which a principal is counted.
pub(crate) fn name(principal: Option<&PrincipalTag>) -> &str {
    principal.map_or(LOCAL, PrincipalTag::as_str)
}

/// Returns the number of a period, and the time until the next one.
fn period(now: Timestamp, length: Duration) -> (u64, Duration) {
    let length = u64::try_from(length.as_millis()).unwrap_or(u64::MAX).max(1);
    let (number, gone) = (now.millis() / length, now.millis() % length);
    (number, Duration::from_millis(length - gone))
}

async fn take(
    transaction: &mut dyn Transaction,
    principal: &str,
    request: &AllowanceRequest,
    now: Timestamp,
) -> Result<Allowance, Failure> {
    let clock = transaction.clock(now).await?;
    let (current, left) = period(clock, request.period);
    let sql = "
        INSERT INTO allowances (principal, period, taken) VALUES ($1, $2, 0)
        ON CONFLICT (principal) DO NOTHING";
    transaction.run(sql, values![principal, current]).await?;
    let end = transaction.for_update();
    let sql = format!("SELECT period, taken FROM allowances WHERE principal = $1{end}");
    let row = transaction.row(&sql, values![principal]).await?;
    let (known, taken) = match row {
        Some(mut row) => (row.number::<u64>(0)?, row.number::<u64>(1)?),
        None => (current, 0),
    };
    let taken = if known == current { taken } else { 0 };
    let granted = request.wanted.min(request.limit.saturating_sub(taken));
    if granted > 0 {
        let sql = "UPDATE allowances SET period = $2, taken = $3 WHERE principal = $1";
        transaction.run(sql, values![principal, current, taken + granted]).await?;
    }
    Ok(Allowance { granted, left })
}

async fn record(
    transaction: &mut dyn Transaction,
    id: &SessionId,
    before: Spend,
    total: Spend,
    now: Timestamp,
) -> Result<(), Failure> {
    // Records of one session come one after the other.
    let key = SessionRow::locked(transaction, id).await?.key;
    let clock = transaction.clock(now).await?;
    let (day, _) = period(clock, LEDGER_DAY);
    let sql = "SELECT tokens, cost FROM recorded_spend WHERE session = $1";
    let known = match transaction.row(sql, values![key]).await? {
        Some(mut row) => (row.number::<u64>(0)?, row.number::<u64>(1)?),
        None => (before.usage.total(), before.cost.picodollars()),
    };
    let (tokens, cost) = (total.usage.total(), total.cost.picodollars());
    let sql = "
        INSERT INTO recorded_spend (session, tokens, cost) VALUES ($1, $2, $3)
        ON CONFLICT (session) DO UPDATE SET tokens = excluded.tokens, cost = excluded.cost";
    transaction.run(sql, values![key, tokens, cost]).await?;
    let (tokens, cost) = (tokens.saturating_sub(known.0), cost.saturating_sub(known.1));
    if (tokens, cost) == (0, 0) {
        return Ok(());
    }
    let tag = id.tag();
    let sql = "
        INSERT INTO daily_spend (principal, day, tokens, cost) VALUES ($1, $2, $3, $4)
        ON CONFLICT (principal, day) DO UPDATE SET
            tokens = daily_spend.tokens + excluded.tokens, cost = daily_spend.cost + excluded.cost";
    transaction.run(sql, values![name(tag.as_ref()), day, tokens, cost]).await?;
    Ok(())
}

async fn spent_today(
    transaction: &mut dyn Transaction,
    principal: &str,
    now: Timestamp,
) -> Result<DaySpend, Failure> {
    let clock = transaction.clock(now).await?;
    let (day, left) = period(clock, LEDGER_DAY);
    let sql = "SELECT tokens, cost FROM daily_spend WHERE principal = $1 AND day = $2";
    let (tokens, picodollars) = match transaction.row(sql, values![principal, day]).await? {
        Some(mut row) => (row.number(0)?, row.number(1)?),
        None => (0, 0),
    };
    Ok(DaySpend { tokens, picodollars, left })
}

async fn open_jobs(
    transaction: &mut dyn Transaction,
    principal: Option<&PrincipalTag>,
) -> Result<u64, Failure> {
    let by = transaction.indexed_by("jobs_open");
    let of = match principal {
        Some(_) => {
            "substr(s.id, length(s.id) - 21, 2) = '_p' AND substr(s.id, length(s.id) - 19) = $1"
        }
        None => "substr(s.id, length(s.id) - 21, 2) <> '_p' AND $1 = 'local'",
    };
    let sql = format!(
        "SELECT COUNT(*) FROM jobs j{by} JOIN sessions s ON s.key = j.session
        WHERE j.status IN ('queued', 'running') AND {of}"
    );
    match transaction.row(&sql, values![name(principal)]).await? {
        Some(mut row) => row.number(0),
        None => Ok(0),
    }
}
