//! The outcome and the output of a command.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::access::NetworkAccess;
use crate::capture::CapturedOutput;
use crate::guarantee::Guarantees;

/// The result of a command.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// The captured standard output.
    pub stdout: CapturedOutput,
    /// The captured standard error.
    pub stderr: CapturedOutput,
    /// The outcome.
    pub outcome: ExitOutcome,
    /// The time from its start to the end of its last process.
    pub elapsed: Duration,
    /// The guarantees that were enforced.
    pub enforced: Guarantees,
    /// The backend that ran it.
    pub driver: String,
    /// Further remarks: limits that could not be set, files that were moved away.
    pub notes: Vec<String>,
    /// Whether changes to the working folder were staged, as
    /// [`SandboxPolicy::with_transaction`](crate::SandboxPolicy::with_transaction) requires, instead of being applied
    /// immediately.
    pub staged: bool,
    /// Whether the caches in [`SandboxPolicy::copied_caches`](crate::SandboxPolicy::copied_caches) were copies-on-write. If not,
    /// the command could only read those that another field shows.
    pub copied_caches: bool,
    /// The hosts that it reached by name, and those that were denied. Empty unless the policy
    /// grants [`Network::Domains`](crate::Network::Domains).
    pub network: Vec<NetworkAccess>,
}

/// The outcome of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ExitOutcome {
    /// It exited with this status.
    Exited(i32),
    /// It was ended by a signal that the sandbox did not send.
    Signalled(i32),
    /// It exceeded a time limit.
    TimedOut(TimeoutKind),
    /// It exceeded another limit.
    LimitReached(Limit),
    /// The caller cancelled it.
    Cancelled,
    /// Its supervisor process was killed, so the outcome is unknown.
    Lost,
}

/// The time limit that was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeoutKind {
    /// The time from start to end.
    Wall,
    /// The time without output.
    Idle,
}

/// The limit that was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Limit {
    /// Memory of all processes.
    Memory,
    /// Processor time.
    Cpu,
    /// Output.
    Output,
    /// The size of a file.
    FileSize,
    /// Processes.
    Processes,
}

/// One of the two streams of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Output {
    /// Creates a result with this outcome and no output.
    pub fn ended(outcome: ExitOutcome) -> Self {
        Self {
            stdout: CapturedOutput::default(),
            stderr: CapturedOutput::default(),
            outcome,
            elapsed: Duration::ZERO,
            enforced: Guarantees::default(),
            driver: String::new(),
            notes: Vec::new(),
            staged: false,
            copied_caches: false,
            network: Vec::new(),
        }
    }

    /// Creates a result of a successful command with this output, for test doubles.
    pub fn exited(status: i32, stdout: impl Into<Bytes>, stderr: impl Into<Bytes>) -> Self {
        Self {
            stdout: CapturedOutput::whole(stdout),
            stderr: CapturedOutput::whole(stderr),
            driver: "fake".to_owned(),
            ..Self::ended(ExitOutcome::Exited(status))
        }
    }
}

impl ExitOutcome {
    /// Returns `true` if the command exited with success.
    pub fn is_success(self) -> bool {
        self == Self::Exited(0)
    }
}

impl std::fmt::Display for ExitOutcome {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exited(status) => write!(formatter, "exited with status {status}"),
            Self::Signalled(signal) => write!(formatter, "was terminated by signal {signal}"),
            Self::TimedOut(TimeoutKind::Wall) => formatter.write_str("ran longer than allowed"),
            Self::TimedOut(TimeoutKind::Idle) => {
                formatter.write_str("wrote nothing for longer than allowed")
            }
            Self::LimitReached(Limit::Memory) => {
                formatter.write_str("used more memory than allowed")
            }
            Self::LimitReached(Limit::Cpu) => {
                formatter.write_str("used more processor time than allowed")
            }
            Self::LimitReached(Limit::Output) => {
                formatter.write_str("wrote more output than allowed")
            }
            Self::LimitReached(Limit::FileSize) => {
                formatter.write_str("wrote a larger file than allowed")
            }
            Self::LimitReached(Limit::Processes) => {
                formatter.write_str("started more processes than allowed")
            }
            Self::Cancelled => formatter.write_str("was cancelled"),
            Self::Lost => formatter.write_str("was lost: its supervisor process was killed"),
        }
    }
}
