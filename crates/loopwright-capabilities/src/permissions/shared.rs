//! A policy that can be replaced while agents run.

use std::sync::{Arc, PoisonError, RwLock};

use loopwright_permissions::Policy;

/// A policy that can be replaced while agents run. Clones share it. Each call is decided by the
/// policy in force when the call is about to run.
#[derive(Clone, Debug)]
pub struct Permissions(Arc<RwLock<Policy>>);

impl Permissions {
    /// Starts with a policy.
    pub fn new(policy: Policy) -> Self {
        Self(Arc::new(RwLock::new(policy)))
    }

    /// Returns the policy that is in force. Cheap.
    pub fn policy(&self) -> Policy {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the policy. Calls that are already decided keep their decision.
    pub fn set(&self, policy: Policy) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = policy;
    }
}

#[cfg(all(feature = "tools", target_os = "linux"))]
impl crate::files::FileAccess for Permissions {
    fn denied(
        &self,
        access: crate::files::FileUse,
        tool: Option<&str>,
        path: &std::path::Path,
    ) -> Option<String> {
        use crate::files::FileUse;
        use loopwright_permissions::Access;

        let access = match access {
            FileUse::Read => Access::Read,
            FileUse::Write => Access::Write,
        };
        let policy = self.policy();
        let rule = policy.denies_file(access, tool, &path.to_string_lossy())?;
        Some(format!("rule `{}` of {}", rule.text, rule.place()))
    }
}
