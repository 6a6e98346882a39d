//! Selection of a driver. It fails closed: what no allowed driver can confine is not run.

use std::sync::Arc;

use async_trait::async_trait;

use crate::child::Child;
use crate::command::Command;
use crate::driver::Driver;
use crate::error::{SandboxError, Unavailable};
use crate::guarantee::Guarantees;
use crate::policy::{DriverChoice, Policy, Tier};
use crate::sandbox::Sandbox;

/// The sandbox that chooses its driver by each policy: namespaces, bubblewrap where those do not work, and a
/// weaker tier only where the policy accepts it by name.
pub fn auto() -> Arc<dyn Sandbox> {
    Arc::new(Auto)
}

/// Tiers that enforce everything, the default first.
const STRONG: [Tier; 2] = [Tier::Namespaces, Tier::Bubblewrap];

struct Auto;

/// The tiers that a policy allows, in the order in which they are tried.
fn candidates(policy: &Policy) -> Vec<Tier> {
    match policy.driver {
        DriverChoice::Only(tier) => vec![tier],
        DriverChoice::Auto => {
            let accepted = policy.accepted.iter().copied().filter(|tier| !STRONG.contains(tier));
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
        for tier in STRONG {
            match Driver::new(tier).probe().await {
                Ok(guarantees) => return Ok(guarantees),
                Err(unavailable) => first = first.or(Some(unavailable)),
            }
        }
        Err(first.unwrap_or_else(|| Driver::new(Tier::Namespaces).unavailable("nothing was tried")))
    }

    async fn spawn(&self, command: &Command, policy: &Policy) -> Result<Child, SandboxError> {
        let mut tried = Vec::new();
        for tier in candidates(policy) {
            match Driver::new(tier).spawn(command, policy).await {
                Err(SandboxError::Unavailable(unavailable)) => tried.extend(unavailable),
                child_or_error => return child_or_error,
            }
        }
        Err(SandboxError::Unavailable(tried))
    }
}

#[cfg(test)]
mod tests;
