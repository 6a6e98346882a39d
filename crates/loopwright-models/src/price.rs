//! Prices of tokens.

use loopwright_core::messages::{Cost, Usage};
use serde::{Deserialize, Serialize, de};

/// Prices of tokens, in US dollars per million tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// The price of input tokens.
    pub input: Price,
    /// The price of output tokens, including reasoning.
    pub output: Price,
    /// The price of tokens read from the provider's cache; `None` means the input price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<Price>,
    /// The price of tokens written to the provider's cache; `None` means the input price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<Price>,
    /// The prices of a long request, which replace these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long: Option<Box<LongContextPrices>>,
}

/// The prices of all tokens of a long request and its response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LongContextPrices {
    /// The maximum number of input tokens, including cached ones, for the ordinary prices.
    pub above: u64,
    /// The prices.
    #[serde(flatten)]
    pub prices: Prices,
}

/// The price of a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Price(Cost);

impl Price {
    /// Tokens that a price is written for.
    const MILLION: u64 = 1_000_000;

    /// Creates a price from US dollars per million tokens, as they are written: 0.075 dollars are exactly 75,000
    /// picodollars a token, although no `f64` is exactly 0.075. Rounds to a picodollar a token. A negative amount,
    /// or one that is not a number, is free.
    pub fn from_dollars(per_million: f64) -> Self {
        let million = Cost::from_dollars(per_million).picodollars();
        let rest = u64::from(million % Self::MILLION >= Self::MILLION / 2);
        Self(Cost::from_picodollars(million / Self::MILLION + rest))
    }

    /// Returns US dollars per million tokens.
    #[expect(clippy::cast_precision_loss, reason = "no price has that many digits")]
    pub fn dollars_per_million(self) -> f64 {
        // A dollar has as many picodollars as a million has millionths: one division rounds once.
        self.0.picodollars() as f64 / Self::MILLION as f64
    }
}

impl Serialize for Price {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.dollars_per_million())
    }
}

impl<'de> Deserialize<'de> for Price {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let dollars = f64::deserialize(deserializer)?;
        if dollars.is_finite() && dollars >= 0.0 {
            return Ok(Self::from_dollars(dollars));
        }
        Err(de::Error::custom(
            "a price must be a number of US dollars per million tokens, 0 or \
            more",
        ))
    }
}

impl Prices {
    /// Returns prices of zero.
    pub fn free() -> Self {
        let (input, output) = Default::default();
        Self { input, output, cache_read: None, cache_write: None, long: None }
    }

    /// Returns the cost of one request and its response.
    pub fn cost(&self, usage: &Usage) -> Cost {
        if let Some(long) = self.long.as_ref().filter(|long| usage.input > long.above) {
            return long.prices.cost(usage);
        }
        let cached = usage.cache_read.min(usage.input);
        let written = usage.cache_write.min(usage.input - cached);
        let fresh = usage.input - cached - written;
        self.input.0.times(fresh)
            + self.cache_read.unwrap_or(self.input).0.times(cached)
            + self.cache_write.unwrap_or(self.input).0.times(written)
            + self.output.0.times(usage.output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prices(text: &str) -> Prices {
        toml::from_str(text).unwrap()
    }

    fn cost(prices: &str, usage: Usage) -> f64 {
        self::prices(prices).cost(&usage).dollars()
    }

    const MILLION: u64 = 1_000_000;

    #[test]
    fn dollars_per_million_tokens_are_counted_as_they_are_written() {
        let picodollars = |dollars: f64| {
            let prices = Prices { input: Price::from_dollars(dollars), ..Prices::free() };
            prices.cost(&Usage::new(1, 0)).picodollars()
        };
        let each =
            [0.075, 0.1, 3.96, 4176.02, 0.000_001, 0.000_000_4, 0.000_000_5].map(picodollars);
        assert_eq!(each, [75_000, 100_000, 3_960_000, 4_176_020_000, 1, 0, 1]);
        let wrong = [-1.0, f64::NAN, f64::INFINITY].map(picodollars);
        assert_eq!(wrong, [0, 0, u64::MAX / MILLION + 1]);
    }

    #[test]
    fn every_kind_of_token_has_its_price() {
        let prices = "input = 2\noutput = 10\ncache_read = 0.2\ncache_write = 2.5";
        let usage = Usage {
            input: 10 * MILLION,
            output: MILLION,
            cache_read: 6 * MILLION,
            cache_write: 2 * MILLION,
            reasoning: MILLION,
        };
        assert!((cost(prices, usage) - (4.0 + 1.2 + 5.0 + 10.0)).abs() < 1e-9);
    }

    #[test]
    fn tokens_without_a_price_of_their_own_cost_what_others_do() {
        let usage =
            Usage { input: MILLION, cache_read: MILLION / 2, cache_write: 10, ..Usage::default() };
        assert!((cost("input = 3\noutput = 4", usage) - 3.0).abs() < 1e-9);
    }

    #[test]
    fn usage_that_cannot_be_costs_no_more_than_its_input() {
        let usage = Usage { input: 10, cache_read: 20, cache_write: 30, ..Usage::default() };
        let cost = prices("input = 3\noutput = 4").cost(&usage);
        assert_eq!(cost, Cost::from_dollars(0.000_03));
    }

    #[test]
    fn a_long_request_costs_more_for_every_token() {
        let text = "input = 1\noutput = 1\nlong = { above = 100, input = 2, output = 3 }";
        let cost = |input| prices(text).cost(&Usage::new(input, 10)).picodollars();
        assert_eq!((cost(100), cost(101)), (110_000_000, (202 + 30) * 1_000_000));
    }

    #[test]
    fn a_price_may_be_a_whole_number_and_is_never_negative() {
        for price in ["0.0375", "0.2", "0.01", "3.96", "15"] {
            let output = prices(&format!("input = 1\noutput = {price}")).output;
            assert_eq!(output.dollars_per_million().to_string(), price);
        }
        for wrong in ["-1", "nan", "inf", "'1'"] {
            let text = format!("input = {wrong}\noutput = 1");
            assert!(toml::from_str::<Prices>(&text).is_err(), "{wrong}");
        }
    }

    #[test]
    fn prices_are_written_as_they_are_read() {
        let text = "input = 1.25\noutput = 10.0\ncache_read = 0.125\n";
        assert_eq!(toml::to_string(&prices(text)).unwrap(), text);
    }
}
