//! The home, scratch space and cache of a command.

use std::path::{Path, PathBuf};

use crate::copied_cache::CopiedCache;
use crate::policy::{Backend, SandboxPolicy};

/// The scratch folder and the home of a command.
pub(crate) const SCRATCH: &str = "/tmp";
pub(crate) const HOME: &str = "/tmp/home";
/// Where shared memory with names is.
pub(crate) const SHARED_MEMORY: &str = "/dev/shm";

/// Where a cache is, in a home.
const CACHE: &str = ".cache";

/// Returns where a command finds its cache. `None` means that it has none.
pub(crate) fn cache_place(backend: Backend, policy: &SandboxPolicy) -> Option<PathBuf> {
    let cache = policy.cache.as_ref()?;
    match backend {
        Backend::Host => None,
        Backend::Landlock => Some(cache.clone()),
        Backend::Namespaces | Backend::Bubblewrap => Some(Path::new(HOME).join(CACHE)),
        Backend::Docker | Backend::Podman => Some(Path::new(SCRATCH).join(CACHE)),
    }
}

/// Returns the caches that commands see as copies-on-write in a backend.
pub(crate) fn copied_caches(
    backend: Backend,
    policy: &SandboxPolicy,
) -> impl Iterator<Item = &CopiedCache> {
    policy.copied_caches.iter().filter(move |_| backend == Backend::Namespaces)
}

/// Returns `true` if settings can be written in the command's home: it is the sandbox's, and no other was set.
pub(crate) fn has_own_home(backend: Backend, policy: &SandboxPolicy) -> bool {
    matches!(backend, Backend::Namespaces | Backend::Bubblewrap | Backend::Landlock)
        && !policy.environment.values.contains_key("HOME")
}
