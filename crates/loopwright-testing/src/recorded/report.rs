//! The report of a check.

use std::fmt;

/// A problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The recording's name.
    pub recording: String,
    /// The exchange, counted from zero.
    pub exchange: usize,
    /// The check.
    pub check: &'static str,
    /// The problem.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { recording, exchange, check, what } = self;
        write!(f, "{recording} #{exchange} ({check}): {what}")
    }
}

/// The report of a check of a folder.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// The number of checked recordings.
    pub scenarios: usize,
    /// The number of responses in them.
    pub exchanges: usize,
    /// The number of requests compared with recorded ones.
    pub requests: usize,
    /// The problem.
    pub failures: Vec<Failure>,
    /// Remarks that are not problems.
    pub notes: Vec<Failure>,
    /// Recordings that need a wire which this build does not have, with the name of the wire.
    pub skipped: Vec<(String, String)>,
}

impl Report {
    pub(crate) fn add(&mut self, other: Self) {
        self.scenarios += other.scenarios;
        self.exchanges += other.exchanges;
        self.requests += other.requests;
        self.failures.extend(other.failures);
        self.notes.extend(other.notes);
        self.skipped.extend(other.skipped);
    }

    /// Returns `true` if there are no problems.
    pub fn is_ok(&self) -> bool {
        self.failures.is_empty()
    }
}

impl fmt::Display for Report {
    /// Lists the failures, what was left out, and last the numbers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for failure in &self.failures {
            writeln!(f, "{failure}")?;
        }
        for (name, wire) in &self.skipped {
            writeln!(f, "skipped, no wire {wire}: {name}")?;
        }
        let (scenarios, exchanges) = (self.scenarios, self.exchanges);
        write!(
            f,
            "{scenarios} scenarios, {exchanges} exchanges, {} failures",
            self.failures.len()
        )?;
        if !self.skipped.is_empty() {
            write!(f, ", {} skipped", self.skipped.len())?;
        }
        Ok(())
    }
}
