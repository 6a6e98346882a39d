//! Limits of a run.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use super::{Dollars, Origin, Setting};

/// The default limits of a run: enough for work, and low enough to prevent a catastrophe.
pub const STEPS: NonZeroU32 = NonZeroU32::new(50).unwrap();
/// The same for tokens.
pub const TOKENS: NonZeroU64 = NonZeroU64::new(1_000_000).unwrap();
/// The same for time.
pub const TIME: Duration = Duration::from_mins(15);

/// The limits that are set; otherwise, the agent's own apply.
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
    /// `limits.session`
    pub session: SessionLimits,
}

/// The limits of a session across all its turns; without any, there is none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionLimits {
    /// `limits.session.steps`
    pub steps: Option<Setting<NonZeroU32>>,
    /// `limits.session.tokens`
    pub tokens: Option<Setting<NonZeroU64>>,
    /// `limits.session.seconds`
    pub seconds: Option<Setting<Duration>>,
    /// `limits.session.cost`
    pub cost: Option<Setting<Dollars>>,
}

impl SessionLimits {
    fn or(self, weaker: Self) -> Self {
        Self {
            steps: stricter(self.steps, weaker.steps),
            tokens: stricter(self.tokens, weaker.tokens),
            seconds: stricter(self.seconds, weaker.seconds),
            cost: stricter(self.cost, weaker.cost),
        }
    }
}

impl Limits {
    /// Fills what is not set from a weaker layer. A project may tighten a limit and not widen it.
    pub(super) fn or(self, weaker: Self) -> Self {
        Self {
            steps: stricter(self.steps, weaker.steps),
            tokens: stricter(self.tokens, weaker.tokens),
            seconds: stricter(self.seconds, weaker.seconds),
            cost: stricter(self.cost, weaker.cost),
            session: self.session.or(weaker.session),
        }
    }

    /// Keeps a project from widening what holds where its user says nothing.
    pub(super) fn of_project(self, user: &Self) -> Self {
        let Self { steps, tokens, seconds, cost, session } = self;
        Self {
            steps: within(steps, user.steps.as_ref(), STEPS),
            tokens: within(tokens, user.tokens.as_ref(), TOKENS),
            seconds: within(seconds, user.seconds.as_ref(), TIME),
            cost,
            session,
        }
    }
}

pub(super) fn within<T: Ord>(
    project: Option<Setting<T>>,
    user: Option<&Setting<T>>,
    default: T,
) -> Option<Setting<T>> {
    match user {
        Some(_) => project,
        None => project.map(|it| Setting { value: it.value.min(default), ..it }),
    }
}

pub(super) fn stricter<T: PartialOrd>(
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

#[cfg(test)]
mod tests {
    use loopwright_core::Budget;

    use super::*;

    #[test]
    fn the_limits_of_the_program_are_those_of_the_standard_budget() {
        let limits = Budget::unlimited().with_steps(STEPS.get()).with_tokens(TOKENS.get());
        assert_eq!(limits.with_time(TIME), Budget::standard());
    }
}
