//! Leases of actions whose future was dropped.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    id::SessionId,
    store::{Lease, SessionStore},
};

/// Leases that nothing uses any more and that were not released, because releasing one has to be awaited.
#[derive(Clone, Default)]
pub(super) struct DroppedLeases(Arc<Mutex<HashMap<SessionId, Lease>>>);

/// A lease that is remembered if it is dropped before it is released.
pub(super) struct HeldLease {
    leases: DroppedLeases,
    lease: Option<Lease>,
}

impl DroppedLeases {
    pub(super) fn hold(&self, lease: &Lease) -> HeldLease {
        HeldLease { leases: self.clone(), lease: Some(lease.clone()) }
    }

    /// Releases the lease on a session that was dropped.
    pub(super) async fn release(&self, store: &Arc<dyn SessionStore>, id: &SessionId) {
        let lease = self.leases().get(id).cloned();
        let Some(lease) = lease else { return };
        // One that cannot be released ends by itself.
        let _released = store.release(&lease).await;
        let mut leases = self.leases();
        if leases.get(id).is_some_and(|it| it.number == lease.number) {
            leases.remove(id);
        }
    }

    fn leases(&self) -> MutexGuard<'_, HashMap<SessionId, Lease>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HeldLease {
    pub(super) fn released(mut self) {
        self.lease = None;
    }
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            self.leases.leases().insert(lease.id.clone(), lease);
        }
    }
}
