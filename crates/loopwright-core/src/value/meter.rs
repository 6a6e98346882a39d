//! One budget account for a tree of agents.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::SeqCst},
    },
};

use loopwright_messages::Cost;

use crate::{
    budget::{Budget, Spend},
    stop::{StopReason, StopSignal},
};

/// Counts the usage of an agent and its sub-agents against their budget.
///
/// Before a model call, an estimate is reserved. Afterwards, the reservation is replaced by the
/// actual usage. The reservations and the usage of all agents of a tree never exceed the budget by
/// more than the estimation errors of the calls in flight. An account without limits costs nothing.
#[derive(Clone, Default)]
pub struct BudgetAccount(Option<Arc<Account>>);

struct Account {
    /// The remaining tokens; negative if a call used more than its reservation.
    tokens: AtomicI64,
    picodollars: AtomicI64,
    parent: BudgetAccount,
}

/// A reserved part of the budget. Dropping it releases the reservation.
#[derive(Debug)]
#[must_use = "dropping a reservation releases it"]
pub struct Reservation {
    meter: BudgetAccount,
    tokens: u64,
    cost: Cost,
}

impl BudgetAccount {
    /// Creates an account without limits.
    pub fn unlimited() -> Self {
        Self::default()
    }

    /// Opens an account with the token and cost limits of the budget.
    pub fn new(budget: &Budget) -> Self {
        Self::unlimited().child(budget)
    }

    /// Opens an account that draws from this one and is capped by the budget.
    #[must_use]
    pub fn child(&self, budget: &Budget) -> Self {
        if budget.tokens.is_none() && budget.cost.is_none() {
            return self.clone();
        }
        Self(Some(Arc::new(Account {
            tokens: AtomicI64::new(signed(budget.tokens)),
            picodollars: AtomicI64::new(signed(budget.cost.map(Cost::picodollars))),
            parent: self.clone(),
        })))
    }

    /// Reserves an estimate, here and in all parent accounts.
    ///
    /// # Errors
    ///
    /// Returns the signal of the exceeded limit if an account has too little left.
    pub fn reserve(&self, tokens: u64, cost: Cost) -> Result<Reservation, StopSignal> {
        for (index, account) in self.accounts().enumerate() {
            if let Err(signal) = account.take(tokens, cost) {
                self.accounts().take(index).for_each(|taken| taken.put(tokens, cost));
                return Err(signal);
            }
        }
        Ok(Reservation { meter: self.clone(), tokens, cost })
    }

    /// Returns `tokens`, or the remaining tokens if there are fewer.
    pub(crate) fn up_to(&self, tokens: u64) -> u64 {
        let left = |account: &Arc<Account>| u64::try_from(account.tokens.load(SeqCst)).unwrap_or(0);
        self.accounts().map(left).fold(tokens, u64::min)
    }

    /// Charges usage that was not reserved.
    pub fn charge(&self, spend: Spend) {
        for account in self.accounts() {
            account.draw(spend.usage.total(), spend.cost);
        }
    }

    fn accounts(&self) -> impl Iterator<Item = &Arc<Account>> {
        std::iter::successors(self.0.as_ref(), |account| account.parent.0.as_ref())
    }
}

impl Reservation {
    /// Replaces the estimate with the actual usage.
    pub fn settle(mut self, spend: Spend) {
        // Charged first: in between, too little is left rather than too much.
        self.meter.charge(spend);
        self.give_back();
        self.meter = BudgetAccount::unlimited();
    }

    fn give_back(&mut self) {
        for account in self.meter.accounts() {
            account.put(self.tokens, self.cost);
        }
        (self.tokens, self.cost) = (0, Cost::ZERO);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// The balance of an account without this limit.
const WITHOUT_LIMIT: i64 = i64::MAX;

fn signed(limit: Option<u64>) -> i64 {
    limit.map_or(WITHOUT_LIMIT, |it| amount(it).min(WITHOUT_LIMIT - 1))
}

fn amount(of: u64) -> i64 {
    i64::try_from(of).unwrap_or(i64::MAX)
}

impl Account {
    fn take(&self, tokens: u64, cost: Cost) -> Result<(), StopSignal> {
        let lacks = |reason, what| {
            Err(StopSignal::new(
                reason,
                "budget",
                format!("the remaining {what} cannot cover another model call"),
            ))
        };
        if try_subtract(&self.tokens, tokens).is_err() {
            return lacks(StopReason::TokenLimitReached, "tokens");
        }
        if try_subtract(&self.picodollars, cost.picodollars()).is_err() {
            add(&self.tokens, tokens);
            return lacks(StopReason::CostLimitReached, "money");
        }
        Ok(())
    }

    fn put(&self, tokens: u64, cost: Cost) {
        add(&self.tokens, tokens);
        add(&self.picodollars, cost.picodollars());
    }

    fn draw(&self, tokens: u64, cost: Cost) {
        let subtract = |left: &AtomicI64, drawn: u64| {
            update(left, |it| Some(it.saturating_sub(amount(drawn))));
        };
        subtract(&self.tokens, tokens);
        subtract(&self.picodollars, cost.picodollars());
    }
}

fn try_subtract(left: &AtomicI64, wanted: u64) -> Result<(), ()> {
    // An account that holds nothing refuses even an estimate of nothing.
    let taken = |it: i64| (it >= amount(wanted.max(1))).then(|| it - amount(wanted));
    update(left, taken).then_some(()).ok_or(())
}

fn add(left: &AtomicI64, given: u64) {
    update(left, |it| Some(it.saturating_add(amount(given)).min(WITHOUT_LIMIT - 1)));
}

/// Changes the balance, unless it is unlimited. Returns `true` if the change was allowed.
fn update(left: &AtomicI64, change: impl Fn(i64) -> Option<i64>) -> bool {
    let changed = left
        .fetch_update(SeqCst, SeqCst, |it| if it == WITHOUT_LIMIT { Some(it) } else { change(it) });
    changed.is_ok()
}

impl fmt::Debug for BudgetAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = |it: &AtomicI64| Some(it.load(SeqCst)).filter(|left| *left != WITHOUT_LIMIT);
        f.debug_struct("BudgetAccount")
            .field("tokens", &self.0.as_ref().and_then(|it| left(&it.tokens)))
            .field("picodollars", &self.0.as_ref().and_then(|it| left(&it.picodollars)))
            .finish()
    }
}
