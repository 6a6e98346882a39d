//! Conversion of flags, variables and file entries to typed values.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use loopwright_sandbox::{Backend, BackendChoice};
use toml::Value;

/// A type that a key of the configuration can have.
///
/// A caller that fails to read one says which of the two constants was expected and never repeats what was
/// found, because it may be a secret in the wrong place.
pub trait SettingValue: Sized {
    /// Completes the sentence "this must be …".
    const EXPECTED: &'static str;
    /// A value that is valid, as it is written in a file, with its quotes.
    const EXAMPLE: &'static str;

    /// Reads the text of a flag or a variable. Returns `None` if it does not fit.
    fn from_text(text: &str) -> Option<Self>;

    /// Reads the entry of a file, which is a string unless the type says otherwise.
    fn from_toml(value: &Value) -> Result<Self, Mismatch> {
        let text = value.as_str().ok_or(Mismatch::Type)?;
        Self::from_text(text).ok_or(Mismatch::Value)
    }

    /// The example as it is typed after a flag or into a variable, without quotes.
    fn example() -> &'static str {
        Self::EXAMPLE.trim_matches('"')
    }
}

/// Why the entry of a file is not a value of the type of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// It has another TOML type.
    Type,
    /// It has the right TOML type, but not a value that is allowed.
    Value,
    /// It is a secret where a reference to one belongs.
    Secret,
}

impl SettingValue for String {
    const EXPECTED: &'static str = "a string";
    const EXAMPLE: &'static str = "\"…\"";

    fn from_text(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }
}

impl SettingValue for bool {
    const EXPECTED: &'static str = "`true` or `false`";
    const EXAMPLE: &'static str = "false";

    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn from_toml(value: &Value) -> Result<Self, Mismatch> {
        value.as_bool().ok_or(Mismatch::Type)
    }
}

/// What commands are run with: the strongest backend that works, or one by its name.
impl SettingValue for BackendChoice {
    const EXPECTED: &'static str =
        "`auto`, `namespaces`, `bubblewrap`, `landlock`, `docker`, `podman` or `host`";
    const EXAMPLE: &'static str = "\"auto\"";

    fn from_text(text: &str) -> Option<Self> {
        match text {
            "auto" => Some(Self::Auto),
            name => Backend::named(name).map(Self::Only),
        }
    }
}

impl SettingValue for NonZeroU32 {
    const EXPECTED: &'static str = "a whole number from 1 to 4294967295";
    const EXAMPLE: &'static str = "20";

    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn from_toml(value: &Value) -> Result<Self, Mismatch> {
        let integer = value.as_integer().ok_or(Mismatch::Type)?;
        u32::try_from(integer).ok().and_then(Self::new).ok_or(Mismatch::Value)
    }
}

impl SettingValue for NonZeroU64 {
    const EXPECTED: &'static str = "a whole number of at least 1";
    const EXAMPLE: &'static str = "100000";

    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn from_toml(value: &Value) -> Result<Self, Mismatch> {
        let integer = value.as_integer().ok_or(Mismatch::Type)?;
        u64::try_from(integer).ok().and_then(Self::new).ok_or(Mismatch::Value)
    }
}

/// Seconds, with a fraction if need be.
impl SettingValue for Duration {
    const EXPECTED: &'static str = "a number of seconds above 0";
    const EXAMPLE: &'static str = "300";

    fn from_text(text: &str) -> Option<Self> {
        let seconds = text.parse().ok()?;
        Self::try_from_secs_f64(seconds).ok().filter(|duration| !duration.is_zero())
    }

    fn from_toml(value: &Value) -> Result<Self, Mismatch> {
        number(value)
    }
}

/// Reads a number with or without a fraction as if it had been typed.
pub(super) fn number<T: SettingValue>(value: &Value) -> Result<T, Mismatch> {
    match value {
        Value::Integer(integer) => T::from_text(&integer.to_string()),
        Value::Float(float) => T::from_text(&float.to_string()),
        _ => return Err(Mismatch::Type),
    }
    .ok_or(Mismatch::Value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: SettingValue + PartialEq + std::fmt::Debug>(
        toml: &str,
        expect: &Result<T, Mismatch>,
    ) {
        let table: toml::Table = format!("v = {toml}").parse().unwrap();
        assert_eq!(&T::from_toml(&table["v"]), expect, "{toml}");
    }

    #[test]
    fn steps_are_whole_and_positive() {
        check("1", &Ok(NonZeroU32::MIN));
        check("4294967295", &Ok(NonZeroU32::MAX));
        check::<NonZeroU32>("4294967296", &Err(Mismatch::Value));
        check::<NonZeroU32>("0", &Err(Mismatch::Value));
        check::<NonZeroU32>("-1", &Err(Mismatch::Value));
        check::<NonZeroU32>("1.0", &Err(Mismatch::Type));
        check::<NonZeroU32>("'1'", &Err(Mismatch::Type));
    }

    #[test]
    fn tokens_have_room_for_64_bits() {
        check("9223372036854775807", &Ok(NonZeroU64::new(u64::MAX >> 1).unwrap()));
        check::<NonZeroU64>("0", &Err(Mismatch::Value));
        assert_eq!(NonZeroU64::from_text("18446744073709551615"), Some(NonZeroU64::MAX));
    }

    #[test]
    fn seconds_may_have_a_fraction() {
        check("2", &Ok(Duration::from_secs(2)));
        check("0.25", &Ok(Duration::from_millis(250)));
        check("1e-3", &Ok(Duration::from_millis(1)));
        for refused in ["0", "-0.0", "-1", "1e-12", "1e300", "nan", "inf"] {
            check::<Duration>(refused, &Err(Mismatch::Value));
        }
        check::<Duration>("true", &Err(Mismatch::Type));
    }

    #[test]
    fn every_example_is_valid() {
        fn valid<T: SettingValue>() {
            let table: toml::Table = format!("v = {}", T::EXAMPLE).parse().unwrap();
            assert!(T::from_toml(&table["v"]).is_ok(), "{}", T::EXAMPLE);
            assert!(T::from_text(T::example()).is_some(), "{}", T::EXAMPLE);
        }
        valid::<String>();
        valid::<bool>();
        valid::<NonZeroU32>();
        valid::<NonZeroU64>();
        valid::<Duration>();
        valid::<crate::config::Dollars>();
        valid::<crate::config::ModelRef>();
        valid::<crate::config::ModelRefs>();
        valid::<crate::config::Capabilities>();
        valid::<crate::config::DollarsPerMillion>();
        valid::<crate::config::BaseUrl>();
        valid::<crate::config::OutputFormat>();
        valid::<crate::config::SecretRef>();
        valid::<crate::config::Text>();
    }
}
