//! The protections that each backend enforces on this kernel.

use super::{container, sys};
use crate::guarantee::Enforcement::{BestEffort, Enforced};
use crate::guarantee::Guarantee::{
    DieWithAgent, Environment, FileReads, FileSize, FileWatches, FileWrites, KillTree,
    MemoryPerProcess, MemoryTotal, Network, NoNewPrivileges, Processes, ProtectedPaths, Scratch,
    Signals, SyscallFilter, UnixSockets,
};
use crate::guarantee::Guarantees;
use crate::policy::{self, Backend, SandboxPolicy};

/// The version of Landlock that can keep a command from signalling other processes.
const SCOPES: i32 = 6;

/// Returns what this backend enforces for a command under this policy, if every step of the setup succeeds.
pub(crate) fn by(backend: Backend, policy: &SandboxPolicy) -> Guarantees {
    let limits = [MemoryPerProcess, FileSize, Environment];
    let all = Guarantees::all();
    match backend {
        Backend::Namespaces | Backend::Bubblewrap => {
            let strong = all.with(BestEffort, [MemoryTotal]);
            match policy.network {
                policy::Network::Host => strong.without([Network]),
                policy::Network::Off | policy::Network::Loopback | policy::Network::Domains(_) => {
                    strong
                }
            }
        }
        Backend::Landlock => {
            let some = Guarantees::default()
                .with(Enforced, limits)
                .with(
                    Enforced,
                    [FileWrites, FileReads, FileWatches, NoNewPrivileges, SyscallFilter],
                )
                .with(BestEffort, [KillTree, DieWithAgent, MemoryTotal, Processes, ProtectedPaths]);
            let some = match policy.network {
                // The driver refuses these.
                policy::Network::Host | policy::Network::Domains(_) => some,
                policy::Network::Off | policy::Network::Loopback => {
                    some.with(Enforced, [Network, UnixSockets])
                }
            };
            // It grants a folder with everything in it.
            let hides = policy.hidden.iter().any(|it| policy.shows(it));
            let some = if hides { some.without([FileReads]) } else { some };
            if sys::landlock_version() >= SCOPES { some.with(Enforced, [Signals]) } else { some }
        }
        Backend::Docker | Backend::Podman => {
            let strong = all.without([ProtectedPaths, FileWatches]).with(
                BestEffort,
                [SyscallFilter, KillTree, DieWithAgent, FileSize, MemoryPerProcess],
            );
            let strong = if container::has_groups(backend) {
                strong
            } else {
                strong.with(BestEffort, [MemoryTotal])
            };
            match policy.network {
                policy::Network::Host | policy::Network::Domains(_) => {
                    strong.without([Network, UnixSockets])
                }
                policy::Network::Off | policy::Network::Loopback => strong,
            }
        }
        Backend::Host => Guarantees::default()
            .with(Enforced, limits)
            .with(BestEffort, [KillTree, DieWithAgent, MemoryTotal, Processes]),
    }
    .without(unlimited_scratch(backend))
}

fn unlimited_scratch(backend: Backend) -> Option<crate::Guarantee> {
    matches!(backend, Backend::Landlock | Backend::Host).then_some(Scratch)
}
