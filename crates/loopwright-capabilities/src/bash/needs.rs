//! Requests of a command for access beyond the sandbox.

use std::path::{Component, Path, PathBuf};

use loopwright_core::CustomEvent;
use loopwright_sandbox::{
    AllowedDomain, Backend, BackendChoice, NetworkAccess, NetworkOutcome, Output, SandboxPolicy,
    Withheld,
};
use serde::{Deserialize, Serialize};

use crate::bash::confinement::has_own_loopback;
use crate::bash::{BashArgs, BashError, printed};

/// Hosts that a command reached by name, or that were denied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkUsed {
    /// The hosts.
    pub hosts: Vec<NetworkAccess>,
}

impl CustomEvent for NetworkUsed {
    const NAME: &'static str = "bash_network_used";
}

/// Whether commands may ask for more than the sandbox gives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Needs {
    /// They may not.
    #[default]
    Refused,
    /// They may: something before the tool decides about each call. `~/` stands for this folder.
    Decided { home: Option<PathBuf> },
}

/// Hosts and paths that one command may name.
const MAX: usize = 32;

/// How many hosts are named that were refused.
const MAX_NOTES: usize = 5;

/// What programs say of a host that they cannot find.
const NOT_FOUND: [&str; 6] = [
    "Could not resolve host",
    "Temporary failure in name resolution",
    "Name or service not known",
    "Network is unreachable",
    "EAI_AGAIN",
    "ENOTFOUND",
];

/// What programs say of a port on which no server listens.
const REFUSED: [&str; 4] = [
    "Connection refused",
    "Couldn't connect to server",
    "Could not connect to server",
    "ECONNREFUSED",
];

/// Names of this machine.
const THIS_MACHINE: [&str; 3] = ["127.0.0.1", "localhost", "::1"];

const NO_NETWORK: &str = "the sandbox has no network";

const OWN_LOOPBACK: &str = "each command has its own loopback interface: it can reach servers that it starts itself, but no \
    servers of other commands or of this machine";

impl Needs {
    /// Adds what a command asks for to what it may do anyway. The call has been decided about.
    ///
    /// # Errors
    ///
    /// Returns an error if commands may not ask, or what one asks for is not plain: the one who decided has to have seen what it means.
    pub(super) fn grant(
        &self,
        args: &BashArgs,
        policy: SandboxPolicy,
    ) -> Result<SandboxPolicy, BashError> {
        let count = args.network.len() + args.read.len() + args.write.len();
        if count == 0 || policy.backend == BackendChoice::Only(Backend::Host) {
            return Ok(policy);
        }
        let Self::Decided { home } = self else { return Err(BashError::NoNeeds) };
        if count > MAX {
            return Err(need(format!("a command can request at most {MAX} hosts and paths")));
        }
        let hosts = args.network.iter().map(|text| host(text)).collect::<Result<Vec<_>, _>>()?;
        let network = policy.network.clone().with_domains(hosts);
        let mut policy = policy.with_network(network);
        let followed = policy.clone().with_links_followed();
        for text in &args.read {
            let path = path(text, home.as_deref(), &followed, &[Withheld::Hidden])?;
            policy = path.into_iter().fold(policy, SandboxPolicy::read);
        }
        for text in &args.write {
            let withheld = [Withheld::Hidden, Withheld::Protected];
            let path = path(text, home.as_deref(), &followed, &withheld)?;
            policy = path.into_iter().fold(policy, SandboxPolicy::write);
        }
        Ok(policy)
    }

    /// Describes to the model how a command asks.
    pub(super) fn describe(&self) -> &'static str {
        match self {
            Self::Refused => "",
            Self::Decided { .. } => {
                " If the command needs more access, pass the hosts in `network` and the paths in `read` and \
                    `write`, and give the reason in `why`; the user decides."
            }
        }
    }
}

fn need(reason: String) -> BashError {
    BashError::Need(reason)
}

fn host(text: &str) -> Result<AllowedDomain, BashError> {
    let parsed = text.parse().ok();
    let is_plain = |domain: &AllowedDomain| domain.host().is_some() && domain.address().is_none();
    parsed.filter(is_plain).ok_or_else(|| {
        need(format!("`{text}` in `network` is not a host name; pass a name such as `crates.io`"))
    })
}

/// Returns the path that a text names, or `None` if the command has it anyway. The links of `policy` are followed.
fn path(
    text: &str,
    home: Option<&Path>,
    policy: &SandboxPolicy,
    refused: &[Withheld],
) -> Result<Option<PathBuf>, BashError> {
    let path = match (text.strip_prefix("~/"), home) {
        (Some(below), Some(home)) => home.join(below),
        _ => PathBuf::from(text),
    };
    let is_plain =
        path.components().all(|part| matches!(part, Component::Normal(_) | Component::RootDir));
    if !path.is_absolute() || !is_plain {
        return Err(need(format!("`{text}` must be an absolute path without `..`")));
    }
    let real = path.canonicalize();
    let real = real.map_err(|error| need(format!("`{text}` cannot be used: {error}")))?;
    let path: PathBuf = path.components().collect();
    if real != path {
        let real = real.display();
        return Err(need(format!("`{text}` is a link to `{real}`; pass `{real}` instead")));
    }
    if path == Path::new("/") {
        return Err(need(format!(
            "`{text}` is the whole file system; pass the folders that the command needs"
        )));
    }
    if let Some(withheld) = policy.withheld(&path).filter(|it| refused.contains(it)) {
        let how = match withheld {
            Withheld::Hidden => "read",
            Withheld::Protected => "change",
        };
        return Err(need(format!("`{text}` cannot be requested: commands can never {how} it")));
    }
    // A process that can change the folder could put links in it, and so mean another path than was requested.
    let own =
        [&policy.workdir].into_iter().chain(&policy.cache).filter_map(|it| it.canonicalize().ok());
    Ok(Some(path).filter(|path| !own.into_iter().any(|own| path.starts_with(own))))
}

/// Says which hosts were refused, and how to ask for hosts where that may help.
pub(super) fn notes(output: &Output, policy: &SandboxPolicy, needs: &Needs) -> Vec<String> {
    let refused = output.network.iter().filter_map(|access| match &access.outcome {
        NetworkOutcome::Refused { reason } | NetworkOutcome::Failed { reason } => {
            Some(format!("network: {reason}"))
        }
        _ => None,
    });
    let mut notes: Vec<String> = refused.take(MAX_NOTES).collect();
    if output.outcome.is_success() {
        return notes;
    }
    let printed = printed(output);
    let said = |texts: &[&str]| printed.iter().any(|it| texts.iter().any(|text| it.contains(text)));
    if policy.network.is_closed() && said(&NOT_FOUND) {
        let note = match needs {
            Needs::Refused => NO_NETWORK.to_owned(),
            Needs::Decided { .. } => format!(
                "{NO_NETWORK}; if the command needs hosts, call bash again and name them in `network`"
            ),
        };
        notes.push(note);
    }
    if has_own_loopback(policy) && said(&REFUSED) && said(&THIS_MACHINE) {
        notes.push(OWN_LOOPBACK.to_owned());
    }
    notes
}

#[cfg(test)]
mod tests;
