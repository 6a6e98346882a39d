//! What happened outside of a store, in the order in which it happened.

use std::{fs::File, io::Write as _, os::fd::AsFd as _, process, sync::Arc};

use loopwright_core::{ChangeRecord, Seq};
use loopwright_worker::JobCounts;
use serde::{Deserialize, Serialize};

use crate::{Failure, script::Kind};

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Entry {
    /// A session was loaded.
    Found(Vec<ChangeRecord>),
    /// A store acknowledged changes.
    Kept {
        /// The version since then.
        version: u64,
        /// The number of the first change.
        first: Seq,
        /// The changes.
        changes: Vec<ChangeRecord>,
    },
    /// A model was asked, and paid.
    Asked {
        /// The step, counted from one.
        step: u32,
    },
    /// A tool began.
    Began {
        /// What kind of tool.
        kind: Kind,
        /// The effect's key.
        key: String,
    },
    /// A tool took effect.
    Done {
        /// What kind of tool.
        kind: Kind,
        /// The effect's key.
        key: String,
    },
    /// A sum was paid.
    Paid {
        /// The sum.
        sum: u64,
    },
    /// A server needs an answer before it can finish a call.
    Required {
        /// Whom it asks.
        method: String,
    },
    /// A model has answered a server.
    Named,
    /// The worker waits until it is told to continue.
    Waits,
    /// A writer appended its mark.
    Won {
        /// Who.
        by: String,
        /// The version since then.
        version: u64,
    },
    /// A writer found that the session is gone.
    Gone {
        /// Who.
        by: String,
    },
    /// The worker is done.
    Ended {
        /// Where the execution stands.
        status: String,
        /// What the agent answered.
        text: String,
    },
    /// The worker did jobs, and has no more to do.
    Tallied(JobCounts),
    /// The worker could not do its task.
    Refused {
        /// The error and its causes, outermost first.
        chain: Vec<String>,
    },
}

/// Takes notes of what happens: on the standard output of this process, one write for each.
#[derive(Clone, Debug)]
pub struct Ledger(Arc<File>);

impl Ledger {
    /// Writes to the standard output from now on.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn stdout() -> Result<Self, Failure> {
        let ledger = Self(Arc::new(File::from(std::io::stdout().as_fd().try_clone_to_owned()?)));
        // A caller that wrote before may have been killed within a line.
        (&*ledger.0).write_all(b"\n")?;
        Ok(ledger)
    }

    /// Notes that something happened. What cannot be noted must not happen: the process ends then.
    pub fn note(&self, entry: &Entry) {
        let line = serde_json::to_string(entry).map(|line| line + "\n");
        if line.is_err() || line.is_ok_and(|line| (&*self.0).write_all(line.as_bytes()).is_err()) {
            process::abort();
        }
    }
}

/// Reads a ledger. A line whose writer was killed within it is left out: it was never said.
pub fn read(bytes: &[u8]) -> Vec<Entry> {
    let lines = bytes.split(|byte| *byte == b'\n');
    lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()
}
