//! What a worker is told to do.

use std::num::NonZeroUsize;

use loopwright_core::ApprovalDecision;
use serde::{Deserialize, Serialize};

use crate::bank::KillAtCall;

/// What a worker is told to do: its only argument, as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The store.
    pub url: String,
    /// The session.
    pub session: String,
    /// What to do.
    pub work: Work,
    /// What happens to the worker on the way.
    pub fault: Option<Fault>,
}

/// What is done with a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Work {
    /// Run the scripted agent to its end, from the beginning or from where it was interrupted.
    Run {
        /// How many steps it takes.
        steps: u32,
        /// What is done about calls that were interrupted.
        interrupted: Interruption,
        /// How much the clock is slow, in milliseconds.
        slow: u64,
    },
    /// Run the scripted agent to its end, and look for control messages every few milliseconds.
    Listen {
        /// How many steps it takes.
        steps: u32,
    },
    /// As `Listen`, and heed the requests that a runner which was killed left.
    TakeOver {
        /// How many steps it takes.
        steps: u32,
    },
    /// Do jobs until there are none, or a signal says that this is to end.
    Serve {
        /// How many at once.
        concurrency: NonZeroUsize,
    },
    /// Do one thing with a session of the agent that asks before it pays.
    Visit(Visit),
    /// Do one thing with a session of the agent that pays through a server.
    Bank {
        /// What to do.
        visit: Visit,
        /// When the server kills the worker, if it does.
        kill: Option<KillAtCall>,
    },
    /// Append marks until so many were taken, or the session is gone.
    Race {
        /// Who appends.
        by: String,
        /// How many marks.
        marks: u64,
    },
}

/// What a process does with a session of an agent that pays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Visit {
    /// Create it.
    Create,
    /// Ask the agent to pay.
    Send,
    /// Decide about a call that waits.
    Decide {
        /// The call, from the root.
        address: Vec<u16>,
        /// What is decided.
        decision: ApprovalDecision,
    },
    /// Continue the run.
    Continue,
}

/// What is done about calls that were interrupted and must not happen twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Interruption {
    /// The model is told.
    Tell,
    /// The run pauses.
    Ask,
    /// The run paused, and this is decided about the call that waits.
    Decided(Decision),
}

/// What is decided about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decision {
    /// It runs again.
    Retry,
    /// It is left out.
    Skip,
    /// It was done.
    Done,
}

/// Something that happens to a worker as it writes to its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The write, counted from one.
    pub write: u64,
    /// On which side of it.
    pub side: Side,
    /// What happens.
    pub what: What,
}

/// A side of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Side {
    /// Before the store knows of it.
    Before,
    /// After the store acknowledged it, and before the writer knows.
    After,
}

/// What happens to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// It is killed.
    Dies,
    /// It waits until a line comes.
    Waits,
    /// No file grows any more.
    IsFull,
    /// Its clock goes back by so many milliseconds.
    IsEarlier(u64),
}
