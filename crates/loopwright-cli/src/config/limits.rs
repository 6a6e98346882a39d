//! How much a run may use up.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use super::{Dollars, Origin, Setting};

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
    /// Fills what is not set from a weaker layer. A project may tighten a limit and not widen it.
    pub(super) fn or(self, weaker: Self) -> Self {
        Self {
            steps: stricter(self.steps, weaker.steps),
            tokens: stricter(self.tokens, weaker.tokens),
            seconds: stricter(self.seconds, weaker.seconds),
            cost: stricter(self.cost, weaker.cost),
        }
    }
}

fn stricter<T: PartialOrd>(
    strong: Option<Setting<T>>,
    weak: Option<Setting<T>>,
) -> Option<Setting<T>> {
    match (strong, weak) {
        (Some(strong), Some(weak)) => {
            let is_widened =
                matches!(strong.origin, Origin::Project(_)) && weak.value < strong.value;
            Some(if is_widened { weak } else { strong })
        }
        (strong, weak) => strong.or(weak),
    }
}
