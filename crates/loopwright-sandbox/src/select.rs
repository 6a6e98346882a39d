//! Selection of a backend. It fails closed: a command that no allowed backend can confine does not
//! run.

use std::sync::Arc;

use async_trait::async_trait;

use crate::child::SandboxChild;
use crate::command::Command;
use crate::driver::BackendSandbox;
use crate::error::{SandboxError, Unavailable};
use crate::guarantee::Guarantees;
use crate::policy::{Backend, BackendChoice, SandboxPolicy};
use crate::sandbox::Sandbox;

/// A sandbox that selects its backend by the policy of each command: namespaces, bubblewrap if
/// those do not work, and a weaker backend only if the policy allows it by name.
pub fn auto_select() -> Arc<dyn Sandbox> {
    Arc::new(Auto)
}

/// Tiers that enforce everything, the default first.
const STRONG: [Backend; 2] = [Backend::Namespaces, Backend::Bubblewrap];

struct Auto;

/// The backends that a policy allows, in the order in which they are tried.
fn candidates(policy: &SandboxPolicy) -> Vec<Backend> {
    match policy.backend {
        BackendChoice::Only(backend) => vec![backend],
        BackendChoice::Auto => {
            // Without confinement, changes would not be discarded.
            let discards = policy.discards_changes();
            let accepted = policy.accepted.iter().copied().filter(|backend| {
                let is_left_out = discards && *backend == Backend::Host;
                !STRONG.contains(backend) && !is_left_out
            });
            STRONG.into_iter().chain(accepted).collect()
        }
    }
}

#[async_trait]
impl Sandbox for Auto {
    fn name(&self) -> &'static str {
        "auto"
    }

    async fn probe(&self) -> Result<Guarantees, Unavailable> {
        let mut first = None;
        for backend in STRONG {
            match BackendSandbox::new(backend).probe().await {
                Ok(guarantees) => return Ok(guarantees),
                Err(unavailable) => first = first.or(Some(unavailable)),
            }
        }
        Err(first.unwrap_or_else(|| {
            BackendSandbox::new(Backend::Namespaces).unavailable("no backend was tried")
        }))
    }

    async fn spawn(
        &self,
        command: &Command,
        policy: &SandboxPolicy,
    ) -> Result<SandboxChild, SandboxError> {
        let mut tried = Vec::new();
        for backend in candidates(policy) {
            match BackendSandbox::new(backend).spawn(command, policy).await {
                Err(SandboxError::Unavailable(unavailable)) => tried.extend(unavailable),
                child_or_error => return child_or_error,
            }
        }
        Err(SandboxError::Unavailable(tried))
    }
}

#[cfg(test)]
mod tests;
