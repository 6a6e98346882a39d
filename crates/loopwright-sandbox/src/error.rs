//! Errors of commands that were not run.

use std::fmt::Write as _;
use std::io;

use serde::{Deserialize, Serialize};

use crate::policy::Backend;

/// The error of a command that was not run. No part of it was started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// No backend that the policy allows works here.
    #[error("the command was not run: no sandbox is available: {}", tried(.0))]
    Unavailable(Vec<Unavailable>),
    /// The policy cannot be enforced as given.
    #[error("the command was not run: {0}")]
    Policy(String),
    /// The changes of the command cannot be staged here, as
    /// [`SandboxPolicy::with_transaction`](crate::SandboxPolicy::with_transaction) requires.
    #[error("the command was not run: changes cannot be staged here ({reason})")]
    NotStaged {
        /// The problem.
        reason: String,
    },
    /// The program could not be started inside the sandbox.
    #[error("cannot start `{program}`: {}", io::Error::from_raw_os_error(*.errno))]
    Start {
        /// The program's name.
        program: String,
        /// The error number of the operating system.
        errno: i32,
    },
    /// No program can start the helper process.
    #[error(
        "the command was not run: the sandbox has no helper process; call `loopwright_sandbox::init()` as the first line of `main`, or name a helper program with `loopwright_sandbox::set_helper_path`"
    )]
    NoHelper,
    /// The helper process failed.
    #[error("the command was not run: the sandbox helper failed while {doing}")]
    Helper {
        /// The operation that failed.
        doing: &'static str,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// A test double received a command without a prepared output.
    #[error("no output is queued for `{0}`")]
    NotEnqueued(String),
}

/// The reason why a backend cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{driver}: {reason}; {remedy}")]
pub struct Unavailable {
    /// The driver.
    pub driver: Backend,
    /// The problem.
    pub reason: String,
    /// The remedy.
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
