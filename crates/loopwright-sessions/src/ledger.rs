//! What principals may and do consume, for all servers of a store.

use std::time::Duration;

use async_trait::async_trait;
use loopwright_core::{Spend, Timestamp};

use crate::{
    id::{PrincipalTag, SessionId},
    store::StoreError,
};

/// The day of a ledger: a day in UTC.
pub const LEDGER_DAY: Duration = Duration::from_hours(24);

/// Counts what principals consume. All processes that share the store share the counts, and a restart loses none.
///
/// The local user, whose sessions have no [tag](SessionId::tag), is `None`. Stores on many machines use their own clock.
/// [`conformance::LEDGER_CASES`](crate::conformance::LEDGER_CASES) contains tests of these rules.
#[async_trait]
pub trait UsageLedger: Send + Sync {
    /// Takes up to `wanted` from the allowance of a principal in the current period, which has this limit. Periods begin
    /// at multiples of their length.
    async fn take(
        &self,
        principal: Option<&PrincipalTag>,
        request: &AllowanceRequest,
        now: Timestamp,
    ) -> Result<Allowance, StoreError>;

    /// Records what a session of a principal consumed in total: the difference to the last record counts for the current
    /// day. Without an earlier record, the session had consumed `before`.
    ///
    /// Recording the same total again changes nothing. A smaller total, as after a rewind, counts nothing.
    async fn record_spend(
        &self,
        session: &SessionId,
        before: Spend,
        total: Spend,
        now: Timestamp,
    ) -> Result<(), StoreError>;

    /// Returns what a principal has consumed on the current day.
    async fn spent_today(
        &self,
        principal: Option<&PrincipalTag>,
        now: Timestamp,
    ) -> Result<DaySpend, StoreError>;

    /// Returns the number of jobs of a principal's sessions that are queued or running.
    async fn open_jobs(&self, principal: Option<&PrincipalTag>) -> Result<u64, StoreError>;
}

/// A request for a part of an allowance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllowanceRequest {
    /// The most that is taken.
    pub wanted: u64,
    /// The allowance of a period.
    pub limit: u64,
    /// The length of periods.
    pub period: Duration,
}

/// A part of an allowance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// How much was taken; zero if nothing is left.
    pub granted: u64,
    /// The time until the next period.
    pub left: Duration,
}

/// What a principal consumed on a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DaySpend {
    /// Tokens, input and output.
    pub tokens: u64,
    /// The cost in picodollars.
    pub picodollars: u64,
    /// The time until the next day.
    pub left: Duration,
}
