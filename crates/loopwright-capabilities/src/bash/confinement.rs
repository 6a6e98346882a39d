//! The description of the sandbox for the model.

use std::path::Path;

use loopwright_sandbox::{
    AllowedDomain, Backend, BackendChoice, Network, SandboxPolicy, WorkdirAccess,
};

/// Describes in one sentence what a policy lets commands do.
pub(super) fn describe(policy: &SandboxPolicy) -> String {
    if policy.backend == BackendChoice::Only(Backend::Host) {
        return "The command is not confined: it has the permissions of the user who runs this program."
            .to_owned();
    }
    let sandbox = match policy.backend {
        BackendChoice::Auto if policy.accepted.contains(&Backend::Host) => {
            "The command runs in a sandbox if this machine has one"
        }
        _ => "The command runs in a sandbox",
    };
    let network = match &policy.network {
        Network::Off | Network::Loopback => "has no network".to_owned(),
        Network::Domains(domains) => {
            let names: Vec<String> = domains.iter().map(named_host).collect();
            format!("can reach only {}", names.join(", "))
        }
        Network::Host => "uses the network of this machine".to_owned(),
    };
    format!("{sandbox}: it can write only {}, and {network}.", places(policy))
}

/// Returns `true` if each command has a loopback interface of its own, on which it reaches only servers that it starts itself.
pub(super) fn has_own_loopback(policy: &SandboxPolicy) -> bool {
    policy.backend != BackendChoice::Only(Backend::Host) && policy.network != Network::Host
}

/// Names a host as the model writes it: without the address that the user may have given it.
fn named_host(domain: &AllowedDomain) -> String {
    let text = domain.to_string();
    format!("`{}`", text.split('@').next().unwrap_or_default())
}

/// Lists the places that may be written to.
fn places(policy: &SandboxPolicy) -> String {
    let workdir = match policy.workdir_access {
        WorkdirAccess::Writable => Some("in the working directory".to_owned()),
        WorkdirAccess::ReadOnly => None,
        WorkdirAccess::Discarded => {
            Some("in a copy of the working directory whose changes are discarded, which is read-only in the background".to_owned())
        }
    };
    let paths = policy.write_paths.iter().map(|path| named(path, &policy.workdir));
    let before: Vec<String> = workdir.into_iter().chain(paths).collect();
    match before.as_slice() {
        [] => "in /tmp".to_owned(),
        before => format!("{} and in /tmp", before.join(", ")),
    }
}

/// Names a path as the model writes it: from the working directory, where it is inside.
fn named(path: &Path, workdir: &Path) -> String {
    let shown = path.strip_prefix(workdir).ok().filter(|it| !it.as_os_str().is_empty());
    format!("in `{}`", shown.unwrap_or(path).display())
}
