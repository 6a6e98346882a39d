//! What a driver enforces, and how firmly.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One thing that a sandbox can enforce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Guarantee {
    /// Nothing is written outside of what the policy allows.
    FileWrites,
    /// Nothing is read outside of what the policy allows.
    FileReads,
    /// Modes, owners, times and the existence of other files are out of reach.
    FileMetadata,
    /// Protected paths keep their content.
    ProtectedPaths,
    /// The network is what the policy says.
    Network,
    /// Sockets of the host's services cannot be reached.
    UnixSockets,
    /// Other processes are not seen.
    ProcessView,
    /// Other processes cannot be signalled.
    Signals,
    /// Every process of the command ends when the command ends.
    KillTree,
    /// Every process of the command ends when the agent ends, however it ends.
    DieWithAgent,
    /// Set-user-id programs give no rights.
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
    /// The environment holds what the policy says.
    Environment,
    /// The number of files that are watched for changes is limited, and leaves some to the user's other programs.
    FileWatches,
}

/// How firmly something is enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Enforcement {
    /// It is tried, and a determined command can get around it.
    BestEffort,
    /// The kernel enforces it.
    Enforced,
}

/// What is enforced; what is not named is not.
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

    /// The name as it is written in reports.
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
            Self::KillTree => "kill tree",
            Self::DieWithAgent => "die with agent",
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
    /// Everything enforced.
    pub fn all() -> Self {
        Self::default().with(Enforcement::Enforced, Guarantee::ALL)
    }

    /// Sets how firmly these are enforced.
    #[must_use]
    pub fn with(
        mut self,
        strength: Enforcement,
        guarantees: impl IntoIterator<Item = Guarantee>,
    ) -> Self {
        self.map.extend(guarantees.into_iter().map(|guarantee| (guarantee, strength)));
        self
    }

    /// Takes these away.
    #[must_use]
    pub fn without(mut self, guarantees: impl IntoIterator<Item = Guarantee>) -> Self {
        for guarantee in guarantees {
            self.map.remove(&guarantee);
        }
        self
    }

    /// How firmly this is enforced, or nothing if it is not.
    pub fn strength(&self, guarantee: Guarantee) -> Option<Enforcement> {
        self.map.get(&guarantee).copied()
    }

    /// Whether the kernel enforces this.
    pub fn enforces(&self, guarantee: Guarantee) -> bool {
        self.strength(guarantee) == Some(Enforcement::Enforced)
    }

    /// What is not enforced at all.
    pub fn missing(&self) -> Vec<Guarantee> {
        Guarantee::ALL.into_iter().filter(|guarantee| self.strength(*guarantee).is_none()).collect()
    }
}

#[cfg(test)]
mod tests;
