//! What each tier enforces on this kernel.

use super::sys;
use crate::guarantee::Guarantee::{
    DieWithAgent, Environment, FileReads, FileSize, FileWatches, FileWrites, KillTree, MemoryEach,
    MemoryTotal, Network, NoNewPrivileges, Processes, ProtectedPaths, Scratch, Signals,
    SyscallFilter, UnixSockets,
};
use crate::guarantee::Guarantees;
use crate::guarantee::Strength::{BestEffort, Enforced};
use crate::policy::{self, Policy, Tier};

/// The Landlock version that can keep a command from signalling others.
const SCOPES: i32 = 6;

/// What a command under this policy gets from this tier, if everything could be set up.
pub(crate) fn by(tier: Tier, policy: &Policy) -> Guarantees {
    let limits = [MemoryEach, FileSize, Environment];
    let all = Guarantees::all();
    match tier {
        Tier::Namespaces | Tier::Bubblewrap => {
            let strong = all.with(BestEffort, [MemoryTotal]);
            match policy.network {
                policy::Network::Host => strong.without([Network]),
                policy::Network::Off | policy::Network::Loopback => strong,
            }
        }
        Tier::Landlock => {
            let some = Guarantees::default()
                .with(Enforced, limits)
                .with(
                    Enforced,
                    [FileWrites, FileReads, FileWatches, NoNewPrivileges, SyscallFilter],
                )
                .with(BestEffort, [KillTree, DieWithAgent, MemoryTotal, Processes, ProtectedPaths]);
            let some = match policy.network {
                policy::Network::Host => some,
                policy::Network::Off | policy::Network::Loopback => {
                    some.with(Enforced, [Network, UnixSockets])
                }
            };
            if sys::landlock_version() >= SCOPES { some.with(Enforced, [Signals]) } else { some }
        }
        Tier::Docker | Tier::Podman => {
            let strong = all
                .without([ProtectedPaths, FileWatches])
                .with(BestEffort, [SyscallFilter, KillTree, DieWithAgent, FileSize, MemoryEach]);
            match policy.network {
                policy::Network::Host => strong.without([Network, UnixSockets]),
                policy::Network::Off | policy::Network::Loopback => strong,
            }
        }
        Tier::Host => Guarantees::default()
            .with(Enforced, limits)
            .with(BestEffort, [KillTree, DieWithAgent, MemoryTotal, Processes]),
    }
    .without(unlimited_scratch(tier))
}

fn unlimited_scratch(tier: Tier) -> Option<crate::Guarantee> {
    matches!(tier, Tier::Landlock | Tier::Host).then_some(Scratch)
}
