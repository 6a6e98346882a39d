//! How much a run may use up.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use super::{Dollars, Setting};

/// The limits that somebody set; where nobody did, the agent's own apply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// `limits.steps`
    pub steps: Option<Setting<NonZeroU32>>,
    /// `limits.tokens`, of input and output together
    pub tokens: Option<Setting<NonZeroU64>>,
    /// `limits.seconds`, of the whole run
    pub seconds: Option<Setting<Duration>>,
    /// `limits.cost`
    pub cost: Option<Setting<Dollars>>,
}

impl Limits {
    /// Fills what is not set from a weaker layer.
    pub(super) fn or(self, weaker: Self) -> Self {
        Self {
            steps: self.steps.or(weaker.steps),
            tokens: self.tokens.or(weaker.tokens),
            seconds: self.seconds.or(weaker.seconds),
            cost: self.cost.or(weaker.cost),
        }
    }
}
