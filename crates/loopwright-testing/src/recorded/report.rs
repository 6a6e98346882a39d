//! What a check found.

use std::fmt;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The recording's name.
    pub recording: String,
    /// The exchange, counted from zero.
    pub exchange: usize,
    /// What was looked at.
    pub check: &'static str,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { recording, exchange, check, what } = self;
        write!(f, "{recording} #{exchange} ({check}): {what}")
    }
}

/// What a check of a folder found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// How many recordings were looked at.
    pub scenarios: usize,
    /// How many answers they hold.
    pub exchanges: usize,
    /// How many requests were compared with recorded ones.
    pub requests: usize,
    /// What is wrong.
    pub failures: Vec<Failure>,
    /// What is worth knowing and not wrong.
    pub notes: Vec<Failure>,
    /// Recordings that need a wire which this build does not have: their names and the wire's.
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

    /// Returns `true` if nothing is wrong.
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
