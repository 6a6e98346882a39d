//! The usage of a model call.

use std::{
    fmt,
    iter::Sum,
    ops::{Add, AddAssign},
};

use serde::{Deserialize, Serialize};

/// Input and output tokens.
///
/// `input` includes tokens read from and written to the cache, and `output` includes reasoning. The
/// other fields are parts of these. So [`total`](Usage::total) counts no token twice, whatever the
/// provider's own convention is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Input tokens, including cached ones.
    pub input: u64,
    /// Output tokens, including reasoning.
    pub output: u64,
    /// Of the input: read from the provider's cache.
    pub cache_read: u64,
    /// Of the input: written to the provider's cache.
    pub cache_write: u64,
    /// Of the output: reasoning.
    pub reasoning: u64,
}

impl Usage {
    /// Creates a usage without cached and reasoning tokens.
    pub fn new(input: u64, output: u64) -> Self {
        Self { input, output, ..Self::default() }
    }

    /// Returns the sum of input and output tokens, each counted once.
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
            cache_read: self.cache_read.saturating_add(other.cache_read),
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

/// A cost in picodollars: millionths of a millionth of a US dollar.
///
/// A price of one dollar per million tokens is exactly 1,000,000 picodollars per token, so sums of
/// costs are exact.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Cost(u64);

impl Cost {
    /// Zero.
    pub const ZERO: Self = Self(0);

    const PER_DOLLAR: f64 = 1e12;

    /// The decimal places of a picodollar in dollars.
    const DECIMALS: usize = 12;

    /// Creates a cost from picodollars.
    pub fn from_picodollars(picodollars: u64) -> Self {
        Self(picodollars)
    }

    /// Creates a cost from dollars with their decimal digits: 4176.02 dollars are
    /// 4,176,020,000,000,000 picodollars, although no `f64` is exactly 4176.02. A negative amount,
    /// or one that is not a number, is zero. An amount that is too large is the largest cost.
    pub fn from_dollars(dollars: f64) -> Self {
        if dollars.is_nan() || dollars <= 0.0 {
            return Self::ZERO;
        }
        let text = dollars.to_string();
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        let digits: String =
            fraction.chars().chain(std::iter::repeat('0')).take(Self::DECIMALS).collect();
        let rest = fraction.as_bytes().get(Self::DECIMALS).is_some_and(|digit| *digit >= b'5');
        // More digits than a number has room for are too large an amount.
        let cost = format!("{whole}{digits}").parse().unwrap_or(u64::MAX);
        Self(cost.saturating_add(u64::from(rest)))
    }

    /// Returns picodollars.
    pub fn picodollars(self) -> u64 {
        self.0
    }

    /// Returns dollars, rounded to the precision of `f64`.
    #[expect(clippy::cast_precision_loss, reason = "documented")]
    pub fn dollars(self) -> f64 {
        self.0 as f64 / Self::PER_DOLLAR
    }

    /// Subtracts, with zero as the minimum.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Returns the cost of `count` units at this price each.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_counted_as_they_are_written() {
        let picodollars = |dollars: f64| Cost::from_dollars(dollars).picodollars();
        assert_eq!(picodollars(4176.02), 4_176_020_000_000_000);
        assert_eq!(picodollars(0.1), 100_000_000_000);
        assert_eq!((picodollars(1e-12), picodollars(1.4e-13), picodollars(6e-13)), (1, 0, 1));
        assert_eq!((picodollars(-1.0), picodollars(f64::NAN)), (0, 0));
        assert_eq!((picodollars(1e9), picodollars(f64::INFINITY)), (u64::MAX, u64::MAX));
    }

    #[test]
    fn amounts_in_cents_survive_the_way_through_dollars() {
        for cents in (0..1_000_000).step_by(7) {
            let cost = Cost::from_picodollars(cents * 10_000_000_000);
            assert_eq!(Cost::from_dollars(cost.dollars()), cost);
        }
    }
}
