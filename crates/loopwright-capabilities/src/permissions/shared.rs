//! A policy that can be replaced while agents run.

use std::sync::{Arc, PoisonError, RwLock};

use loopwright_permissions::{Mode, Policy};

#[cfg(all(feature = "tools", target_os = "linux"))]
use super::links::LinkTargets;

/// A policy that can be replaced while agents run. Clones share it. Each call is decided by the
/// policy in force when the call is about to run.
///
/// File tools also keep from the targets of links that deny rules name. Where these links lead is
/// read once for each policy.
#[derive(Clone, Debug)]
pub struct Permissions(Arc<RwLock<Current>>);

#[derive(Clone, Debug)]
struct Current {
    policy: Policy,
    #[cfg(all(feature = "tools", target_os = "linux"))]
    targets: Arc<std::sync::OnceLock<LinkTargets>>,
}

impl Current {
    fn new(policy: Policy) -> Self {
        Self {
            policy,
            #[cfg(all(feature = "tools", target_os = "linux"))]
            targets: Arc::default(),
        }
    }
}

impl Permissions {
    /// Starts with a policy.
    pub fn new(policy: Policy) -> Self {
        Self(Arc::new(RwLock::new(Current::new(policy))))
    }

    /// Returns the policy that is in force. Cheap.
    pub fn policy(&self) -> Policy {
        self.current().policy
    }

    /// Returns the mode that is in force.
    pub(super) fn mode(&self) -> Mode {
        self.0.read().unwrap_or_else(PoisonError::into_inner).policy.mode()
    }

    /// Replaces the policy. Calls that are already decided keep their decision.
    pub fn set(&self, policy: Policy) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Current::new(policy);
    }

    fn current(&self) -> Current {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
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
        let Current { policy, targets } = self.current();
        let rule =
            |path: &std::path::Path| policy.denies_file(access, tool, &path.to_string_lossy());
        let rule = rule(path).or_else(|| {
            let targets = targets.get_or_init(|| LinkTargets::of(&policy));
            let path = policy.original_path(&path.to_string_lossy());
            targets.leading_to(access, path.as_ref()).find_map(|path| rule(&path))
        })?;
        Some(format!("rule `{}` of {}", rule.text, rule.place()))
    }
}
