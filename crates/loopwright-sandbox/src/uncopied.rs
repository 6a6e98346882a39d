//! Caches that cannot be copies-on-write here, as this process has found out.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::policy::{Backend, SandboxPolicy};

/// A backend, the layers of caches that it cannot use, and whether it would discard the changes of a cache.
type Key = (Backend, Vec<PathBuf>, bool);

/// The number of entries in [`REFUSED`] at which it is emptied.
const MAX_REFUSED: usize = 1000;

/// Errors that a later command may not meet: those of memory, space, open files, signals, and folders that were removed meanwhile.
const PASSING: [i32; 10] = [
    libc::ENOENT,
    libc::EINTR,
    libc::EIO,
    libc::EAGAIN,
    libc::ENOMEM,
    libc::EBUSY,
    libc::ENFILE,
    libc::EMFILE,
    libc::ENOSPC,
    libc::EDQUOT,
];

/// The failed attempts with their reasons, so that each later command starts only once.
static REFUSED: Mutex<BTreeMap<Key, String>> = Mutex::new(BTreeMap::new());

fn refused() -> MutexGuard<'static, BTreeMap<Key, String>> {
    REFUSED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn key(backend: Backend, policy: &SandboxPolicy) -> Key {
    let layers = policy.copied_caches.iter().map(|it| it.layer.clone()).collect();
    (backend, layers, discards_cache(policy))
}

/// Returns why a backend cannot copy the caches of a policy. `None` means that no attempt has failed.
pub(crate) fn refusal(backend: Backend, policy: &SandboxPolicy) -> Option<String> {
    refused().get(&key(backend, policy)).cloned()
}

/// Records that a backend cannot copy the caches of a policy, unless the error may pass.
pub(crate) fn refuse(backend: Backend, policy: &SandboxPolicy, errno: i32, reason: &str) {
    if PASSING.contains(&errno) {
        return;
    }
    let mut refused = refused();
    if refused.len() >= MAX_REFUSED {
        refused.clear();
    }
    refused.insert(key(backend, policy), reason.to_owned());
}

/// Returns a policy whose commands start without overlays of caches.
pub(crate) fn without_copies(policy: &SandboxPolicy) -> SandboxPolicy {
    let policy = SandboxPolicy { copied_caches: Vec::new(), ..policy.clone() };
    without_kept_cache(&policy).unwrap_or(policy)
}

/// Returns `true` if a command has a cache that an overlay must keep unchanged, because its changes are discarded.
pub(crate) fn discards_cache(policy: &SandboxPolicy) -> bool {
    policy.discards_changes() && policy.cache.is_some()
}

/// Returns a policy without the cache of a command whose changes are discarded: without an overlay, it would change the cache of
/// later commands. `None` means that the policy can stay as it is.
pub(crate) fn without_kept_cache(policy: &SandboxPolicy) -> Option<SandboxPolicy> {
    discards_cache(policy).then(|| SandboxPolicy { cache: None, ..policy.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copied_cache::CopiedCache;

    fn policy(layer: &str) -> SandboxPolicy {
        SandboxPolicy::in_dir("/srv").with_copied_cache(CopiedCache::new("/cache", layer))
    }

    #[test]
    fn a_refusal_is_remembered_for_its_backend_and_layers_unless_it_may_pass() {
        let (lasting, passing) = (policy("/uncopied/lasting"), policy("/uncopied/passing"));
        refuse(Backend::Namespaces, &lasting, libc::EPERM, "overlay of a cache: no");
        refuse(Backend::Namespaces, &passing, libc::ENOSPC, "overlay of a cache: full");
        refuse(Backend::Namespaces, &passing, libc::ENOENT, "overlay of a cache: gone");
        let known = [
            refusal(Backend::Namespaces, &lasting),
            refusal(Backend::Bubblewrap, &lasting),
            refusal(Backend::Namespaces, &passing),
        ];
        assert_eq!(known, [Some("overlay of a cache: no".to_owned()), None, None]);
    }

    #[test]
    fn only_a_command_whose_changes_are_discarded_loses_its_cache() {
        let policy = policy("/layer").with_cache("/kept");
        let plain = SandboxPolicy::in_dir("/srv").with_cache("/kept");
        assert_eq!(without_copies(&policy), plain);
        let discarded = SandboxPolicy { cache: None, ..plain.discard_changes() };
        assert_eq!(without_copies(&policy.discard_changes()), discarded);
    }
}
