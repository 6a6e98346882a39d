//! What a model call consumed.

use std::{
    fmt,
    iter::Sum,
    ops::{Add, AddAssign},
};

use serde::{Deserialize, Serialize};

/// Tokens read and written.
///
/// `input` includes the cached and the cache-writing tokens, `output` includes reasoning; the other
/// fields say how much of them that was. So [`total`](Usage::total) counts nothing twice, whatever
/// the provider's own convention is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Tokens read, cached ones included.
    pub input: u64,
    /// Tokens written, reasoning included.
    pub output: u64,
    /// Of the input: read from the provider's cache.
    pub cached: u64,
    /// Of the input: written to the provider's cache.
    pub cache_write: u64,
    /// Of the output: reasoning.
    pub reasoning: u64,
}

impl Usage {
    /// Counts tokens of which none were cached and none were reasoning.
    pub fn new(input: u64, output: u64) -> Self {
        Self { input, output, ..Self::default() }
    }

    /// Returns the tokens read and written, each once.
    pub fn total(&self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cached: self.cached.saturating_add(other.cached),
            cache_write: self.cache_write.saturating_add(other.cache_write),
            reasoning: self.reasoning.saturating_add(other.reasoning),
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Usage {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::default(), Add::add)
    }
}

/// Money, in millionths of a millionth of a US dollar.
///
/// A price of one dollar per million tokens is exactly 1,000,000 of these per token, so sums of
/// costs are exact.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Cost(u64);

impl Cost {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    const PER_DOLLAR: f64 = 1e12;

    /// Counts in picodollars.
    pub fn from_picodollars(picodollars: u64) -> Self {
        Self(picodollars)
    }

    /// Counts in dollars; what is negative or not a number counts as nothing.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
    pub fn from_dollars(dollars: f64) -> Self {
        Self((dollars * Self::PER_DOLLAR).round() as u64)
    }

    /// Returns picodollars.
    pub fn picodollars(self) -> u64 {
        self.0
    }

    /// Returns dollars, rounded to what a `f64` can hold.
    #[expect(clippy::cast_precision_loss, reason = "documented")]
    pub fn dollars(self) -> f64 {
        self.0 as f64 / Self::PER_DOLLAR
    }

    /// Subtracts, stopping at nothing.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Returns the cost of so many units at this price each.
    #[must_use]
    pub fn times(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count))
    }
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${:.4}", self.dollars())
    }
}
