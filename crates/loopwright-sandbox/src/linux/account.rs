//! Whether a command has more memory than it may, counted from outside of it.
//!
//! Files without names, memory that is shared and was unmapped again, and descriptors on their way through a socket
//! belong to no process that could be asked. The kernel tells only how much of all that the whole machine has: when
//! that grows by more than a command may have and the command has something that could hide it, it counts as its own.

use std::fs;

use rustix::process::Pid;

use super::process_tree::{self, Usage};
use crate::job::Held;

/// What a command has, apart from what its processes say.
#[derive(Debug)]
pub(crate) struct Account {
    /// The least shared memory that the machine has had since the start.
    least: u64,
    /// What the namespaces hold.
    pub(crate) held: Held,
}

impl Account {
    pub(crate) fn new() -> Self {
        Self { least: shared_of_machine(), held: Held::default() }
    }

    /// Whether the descendants of a process have more than this. A quick look decides for most commands.
    pub(crate) fn exceeds(&mut self, root: Pid, usage: Usage, limit: u64) -> bool {
        let now = shared_of_machine();
        self.least = self.least.min(now);
        let grown = now - self.least;
        let files = if grown > limit / 8 { process_tree::memory_files(root) } else { 0 };
        let known = self.held.shared + files;
        if usage.memory + known + self.held.kernel <= limit && grown <= limit {
            return false;
        }
        let Some(mapped) = process_tree::shares(root) else { return usage.memory > limit };
        // Part of what is mapped may be part of what is known; the growth tells, if no other process has a part in it.
        let shared = grown.clamp(known.max(mapped.shared), known + mapped.shared);
        mapped.own + shared + usage.kernel + self.held.kernel > limit
            || grown - shared.min(grown) > limit
                && process_tree::may_hide_memory(root, usage.touched > limit)
    }
}

/// Bytes of shared memory of the whole machine; zero if the kernel does not tell.
fn shared_of_machine() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    process_tree::kilobytes(&text, "Shmem:").unwrap_or(0) << 10
}
