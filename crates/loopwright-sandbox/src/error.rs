//! Why a command was not run.

use std::fmt::Write as _;
use std::io;

use serde::{Deserialize, Serialize};

use crate::policy::Backend;

/// Why a command was not run. Nothing of it was started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// No driver that the policy allows works here.
    #[error("the command was not run: no sandbox is available: {}", tried(.0))]
    Unavailable(Vec<Unavailable>),
    /// The policy cannot be kept as it is.
    #[error("the command was not run: {0}")]
    Policy(String),
    /// The changes of the command cannot be collected here, as [`SandboxPolicy::staged`](crate::SandboxPolicy::staged) asks.
    #[error("the command was not run: changes cannot be staged here ({reason})")]
    NotStaged {
        /// What does not work.
        reason: String,
    },
    /// The program could not be started inside the sandbox.
    #[error("cannot start `{program}`: {}", io::Error::from_raw_os_error(*.errno))]
    Start {
        /// The program's name.
        program: String,
        /// The number of the operating system's error.
        errno: i32,
    },
    /// Nothing can start the helper process.
    #[error(
        "the command was not run: the sandbox has no helper process; call `loopwright_sandbox::init()` \
         as the first line of `main`, or name a helper program with `loopwright_sandbox::use_helper`"
    )]
    NoHelper,
    /// The helper process did not do its part.
    #[error("the command was not run: the sandbox helper failed while {doing}")]
    Helper {
        /// What was going on.
        doing: &'static str,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// A double was asked for a command that no one has prepared.
    #[error("no output is queued for `{0}`")]
    NotEnqueued(String),
}

/// Why one driver cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{driver}: {reason}; {remedy}")]
pub struct Unavailable {
    /// The driver.
    pub driver: Backend,
    /// What does not work.
    pub reason: String,
    /// What can be done.
    pub remedy: String,
}

fn tried(tried: &[Unavailable]) -> String {
    let mut text = String::new();
    for (at, one) in tried.iter().enumerate() {
        let separator = if at == 0 { "" } else { ". " };
        // Writing to a string does not fail.
        write!(text, "{separator}{one}").ok();
    }
    text
}
