//! An amount of money.

use toml::Value;

use super::value::{Mismatch, SettingValue, number};

/// An amount of US dollars that is finite and above zero.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Dollars(f64);

impl Dollars {
    /// The amount as a plain number.
    pub const fn amount(self) -> f64 {
        self.0
    }
}

impl SettingValue for Dollars {
    const EXPECTED: &'static str = "an amount of US dollars above 0";
    const EXAMPLE: &'static str = "0.50";

    fn from_text(text: &str) -> Option<Self> {
        let amount: f64 = text.parse().ok()?;
        (amount.is_finite() && amount > 0.0).then_some(Self(amount))
    }

    fn from_toml(value: &Value) -> Result<Self, Mismatch> {
        number(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_amount_that_can_be_spent_is_accepted() {
        assert_eq!(Dollars::from_text("2").map(Dollars::amount), Some(2.0));
        assert_eq!(Dollars::from_text("0.005").map(Dollars::amount), Some(0.005));
        for refused in ["0", "-1", "inf", "nan", "", "$2", "1e999"] {
            assert_eq!(Dollars::from_text(refused), None, "{refused}");
        }
    }

    #[test]
    fn a_file_may_leave_the_fraction_out() {
        assert_eq!(Dollars::from_toml(&Value::Integer(3)), Ok(Dollars(3.0)));
        assert_eq!(Dollars::from_toml(&Value::Float(0.5)), Ok(Dollars(0.5)));
        assert_eq!(Dollars::from_toml(&Value::from("3")), Err(Mismatch::Type));
    }
}
