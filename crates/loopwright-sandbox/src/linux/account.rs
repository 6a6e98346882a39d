//! Memory of a command that belongs to none of its processes, measured from outside.
//!
//! Deleted files in memory, unmapped shared memory, and descriptors in transit through a socket belong to no
//! process. The kernel only reports their total for the whole machine. If that total grows by more than the limit
//! of a command, and the command has something that could hide such memory, the growth counts as its own.

use std::fs;

use rustix::process::Pid;

use super::process_tree::{self, Usage};
use crate::job::Held;

/// The memory of a command, except that which its processes report.
#[derive(Debug)]
pub(crate) struct Account {
    /// The smallest amount of shared memory on the machine since the start.
    least: u64,
    /// The memory that the namespaces hold.
    pub(crate) held: Held,
}

impl Account {
    pub(crate) fn new() -> Self {
        Self { least: shared_of_machine(), held: Held::default() }
    }

    /// Returns `true` if the descendants of a process use more than the limit. A cheap check decides for most
    /// commands.
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
        // Mapped and known memory can overlap. The growth shows by how much, if no other process uses shared
        // memory.
        let shared = grown.clamp(known.max(mapped.shared), known + mapped.shared);
        mapped.own + shared + usage.kernel + self.held.kernel > limit
            || grown - shared.min(grown) > limit
                && process_tree::may_hide_memory(root, usage.touched > limit)
    }
}

/// Returns the bytes of shared memory of the whole machine, or zero if the kernel does not report it.
fn shared_of_machine() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    process_tree::kilobytes(&text, "Shmem:").unwrap_or(0) << 10
}
