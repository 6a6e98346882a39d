//! The guarantees of backends, and how strictly they are enforced.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A guarantee that a sandbox can enforce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Guarantee {
    /// Commands write only where the policy allows it.
    FileWrites,
    /// Commands read only what the policy allows.
    FileReads,
    /// Commands cannot see modes, owners, times and the existence of other files.
    FileMetadata,
    /// Protected paths keep their content.
    ProtectedPaths,
    /// Network access is limited to the policy.
    Network,
    /// Sockets of the host's services cannot be reached.
    UnixSockets,
    /// Other processes are not visible.
    ProcessView,
    /// Other processes cannot be signalled.
    Signals,
    /// Every process of the command ends when the command ends.
    KillTree,
    /// Every process of the command ends when the agent ends, for whatever reason.
    DieWithAgent,
    /// Set-user-id programs grant no privileges.
    NoNewPrivileges,
    /// Dangerous system calls are refused.
    SyscallFilter,
    /// The number of processes is limited.
    Processes,
    /// The memory of all processes together is limited.
    MemoryTotal,
    /// The memory of each process is limited.
    MemoryPerProcess,
    /// The size of each file is limited.
    FileSize,
    /// Scratch space is private and limited.
    Scratch,
    /// The environment contains only what the policy allows.
    Environment,
    /// The number of file watches is limited, so that the user's other programs keep some.
    FileWatches,
}

/// The strictness of a guarantee.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Enforcement {
    /// Best effort: a determined command can bypass it.
    BestEffort,
    /// The kernel enforces it.
    Enforced,
}

/// The enforced guarantees; all others are not enforced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Guarantees {
    map: BTreeMap<Guarantee, Enforcement>,
}

impl Guarantee {
    /// Every guarantee, in the order of reports.
    pub const ALL: [Self; 19] = [
        Self::FileWrites,
        Self::FileReads,
        Self::FileMetadata,
        Self::ProtectedPaths,
        Self::Network,
        Self::UnixSockets,
        Self::ProcessView,
        Self::Signals,
        Self::KillTree,
        Self::DieWithAgent,
        Self::NoNewPrivileges,
        Self::SyscallFilter,
        Self::Processes,
        Self::MemoryTotal,
        Self::MemoryPerProcess,
        Self::FileSize,
        Self::Scratch,
        Self::Environment,
        Self::FileWatches,
    ];

    /// Returns the name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FileWrites => "file writes",
            Self::FileReads => "file reads",
            Self::FileMetadata => "file metadata",
            Self::ProtectedPaths => "protected paths",
            Self::Network => "network",
            Self::UnixSockets => "unix sockets",
            Self::ProcessView => "process view",
            Self::Signals => "signals",
            Self::KillTree => "process cleanup",
            Self::DieWithAgent => "exit with the agent",
            Self::NoNewPrivileges => "no new privileges",
            Self::SyscallFilter => "syscall filter",
            Self::Processes => "processes",
            Self::MemoryTotal => "memory, total",
            Self::MemoryPerProcess => "memory, each",
            Self::FileSize => "file size",
            Self::Scratch => "scratch",
            Self::Environment => "environment",
            Self::FileWatches => "file watches",
        }
    }
}

impl Guarantees {
    /// Creates a set in which every guarantee is enforced.
    pub fn all() -> Self {
        Self::default().with(Enforcement::Enforced, Guarantee::ALL)
    }

    /// Sets the strictness of these guarantees.
    #[must_use]
    pub fn with(
        mut self,
        strength: Enforcement,
        guarantees: impl IntoIterator<Item = Guarantee>,
    ) -> Self {
        self.map.extend(guarantees.into_iter().map(|guarantee| (guarantee, strength)));
        self
    }

    /// Removes these guarantees.
    #[must_use]
    pub fn without(mut self, guarantees: impl IntoIterator<Item = Guarantee>) -> Self {
        for guarantee in guarantees {
            self.map.remove(&guarantee);
        }
        self
    }

    /// Returns the strictness of a guarantee, or `None` if it is not enforced.
    pub fn strength(&self, guarantee: Guarantee) -> Option<Enforcement> {
        self.map.get(&guarantee).copied()
    }

    /// Returns `true` if the kernel enforces this.
    pub fn enforces(&self, guarantee: Guarantee) -> bool {
        self.strength(guarantee) == Some(Enforcement::Enforced)
    }

    /// Returns the guarantees that are not enforced at all.
    pub fn missing(&self) -> Vec<Guarantee> {
        Guarantee::ALL.into_iter().filter(|guarantee| self.strength(*guarantee).is_none()).collect()
    }
}

#[cfg(test)]
mod tests;
