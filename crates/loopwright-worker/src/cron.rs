//! Times of schedules.

use chrono::{DateTime, Utc};
use croner::{
    Cron,
    parser::{CronParser, Seconds, Year},
};
use loopwright_core::Timestamp;

/// The times of a cron pattern with five fields, such as `30 7 * * 1-5`, in UTC.
#[derive(Clone, Debug)]
pub struct CronTimes(Cron);

/// A text is not a cron pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid cron pattern `{pattern}`: {reason}; use five fields, such as `30 7 * * 1-5`")]
pub struct InvalidCron {
    pattern: String,
    reason: String,
}

impl CronTimes {
    /// Parses a pattern.
    ///
    /// # Errors
    ///
    /// Returns an error if the pattern is invalid.
    pub fn parse(pattern: &str) -> Result<Self, InvalidCron> {
        let parser =
            CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let invalid = |reason: String| InvalidCron { pattern: pattern.to_owned(), reason };
        parser.parse(pattern).map(Self).map_err(|error| invalid(error.to_string()))
    }

    /// Returns the first time after another one, or `None` if there is none in the years to come.
    pub fn after(&self, time: Timestamp) -> Option<Timestamp> {
        let time = DateTime::<Utc>::from_timestamp_millis(i64::try_from(time.millis()).ok()?)?;
        let next = self.0.find_next_occurrence(&time, false).ok()?;
        u64::try_from(next.timestamp_millis()).ok().map(Timestamp::from_millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(pattern: &str, time: &str) -> Option<String> {
        let next = CronTimes::parse(pattern).unwrap().after(time.parse().unwrap());
        next.map(|it| it.to_string())
    }

    #[test]
    fn the_next_time_is_after_the_given_one_and_days_of_the_week_begin_with_monday_as_1() {
        let friday = "2026-11-27T07:30:00Z";
        let next = |time: &str| Some(time.to_owned());
        assert_eq!(after("30 7 * * 1-5", friday), next("2026-11-30T07:30:00.000Z"));
        assert_eq!(after("*/15 * * * *", friday), next("2026-11-27T07:45:00.000Z"));
        assert_eq!(after("0 0 L * *", friday), next("2026-11-30T00:00:00.000Z"));
        assert_eq!(after("0 0 30 2 *", friday), None);
    }

    #[test]
    fn a_pattern_of_other_than_five_fields_is_refused() {
        for pattern in ["", "* * * *", "0 * * * * *", "61 * * * *", "now"] {
            let refused = CronTimes::parse(pattern).unwrap_err().to_string();
            assert!(refused.starts_with(&format!("invalid cron pattern `{pattern}`")), "{refused}");
        }
    }
}
