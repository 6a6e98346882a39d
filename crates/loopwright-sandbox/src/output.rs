//! How a command ended and what it said.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::access::NetworkAccess;
use crate::capture::CapturedOutput;
use crate::guarantee::Guarantees;

/// What is known of a command that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// What was kept of its standard output.
    pub stdout: CapturedOutput,
    /// What was kept of its standard error.
    pub stderr: CapturedOutput,
    /// How it ended.
    pub outcome: ExitOutcome,
    /// Time from its start to the end of its last process.
    pub elapsed: Duration,
    /// What was enforced while it ran.
    pub enforced: Guarantees,
    /// The driver that ran it.
    pub driver: String,
    /// What is worth knowing besides: limits that could not be had, files that were moved away.
    pub notes: Vec<String>,
    /// Whether changes to the working folder were collected, as [`SandboxPolicy::staged`](crate::SandboxPolicy::staged) asks,
    /// instead of being made at once.
    pub staged: bool,
    /// Hosts that it reached by name, and those that were refused. Empty unless the policy grants
    /// [`Network::Domains`](crate::Network::Domains).
    pub network: Vec<NetworkAccess>,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ExitOutcome {
    /// By itself, with this status.
    Exited(i32),
    /// By a signal that the sandbox did not send.
    Signalled(i32),
    /// It took too long.
    TimedOut(TimeoutKind),
    /// It used too much.
    LimitReached(Limit),
    /// Its caller ended it.
    Cancelled,
    /// The process that watches over it was ended from outside; how the command ended is not known.
    Lost,
}

/// Which time ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeoutKind {
    /// The time from start to end.
    Wall,
    /// The time without output.
    Idle,
}

/// What was used up.
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
    /// A command that ended like this and said nothing.
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
            network: Vec::new(),
        }
    }

    /// A command that ended by itself and said this; for doubles.
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
    /// Whether the command ended by itself and reported success.
    pub fn is_success(self) -> bool {
        self == Self::Exited(0)
    }
}

impl std::fmt::Display for ExitOutcome {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exited(status) => write!(formatter, "exited with status {status}"),
            Self::Signalled(signal) => write!(formatter, "ended by signal {signal}"),
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
            Self::Lost => formatter.write_str("was lost: its watcher was ended from outside"),
        }
    }
}
