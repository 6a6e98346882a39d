//! A listener on a thread of its own.

use std::{
    fmt, io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_executor as executor;
use tokio::runtime::Handle;

use crate::{
    broadcasting::{Broadcasting, Subscription},
    frame::EncodedEnvelope,
    queue::{Sender, queue},
    transport::{BroadcastTransport, deliver},
    worker::Worker,
};

/// A transport at work on a thread of its own. Dropping this leaves it at work.
pub struct TransportHandle {
    entrance: Sender<EncodedEnvelope>,
    failed: Arc<AtomicU64>,
    worker: Worker,
}

/// How well a transport keeps up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryStats {
    /// Envelopes that were dropped because it was too slow.
    pub dropped: u64,
    /// How often it failed or panicked.
    pub failed: u64,
    /// Envelopes that wait for it.
    pub waiting: usize,
}

impl Broadcasting {
    /// Has a transport take what is told from now on, on a thread of its own. So many envelopes wait at
    /// most, but for those that are never dropped.
    ///
    /// A transport that needs a tokio runtime needs this to be called within it.
    ///
    /// # Errors
    ///
    /// If the system has no thread for it.
    pub fn attach_transport(
        &self,
        transport: impl BroadcastTransport + 'static,
        capacity: usize,
    ) -> io::Result<TransportHandle> {
        let (entrance, exit) = queue(capacity);
        let subscription = Subscription::of(exit);
        let failed = Arc::new(AtomicU64::new(0));
        let (count, runtime) = (Arc::clone(&failed), Handle::try_current().ok());
        let worker = Worker::spawn("broadcast", move || {
            let delivered = deliver(subscription, &transport, || {
                count.fetch_add(1, Relaxed);
            });
            match runtime {
                Some(runtime) => runtime.block_on(delivered),
                None => executor::block_on(delivered),
            }
        })?;
        self.listen(entrance.clone());
        Ok(TransportHandle { entrance, failed, worker })
    }
}

impl TransportHandle {
    /// Returns how well the transport keeps up.
    pub fn delivery(&self) -> DeliveryStats {
        DeliveryStats {
            dropped: self.entrance.dropped(),
            failed: self.failed.load(Relaxed),
            waiting: self.entrance.waiting(),
        }
    }

    /// Takes nothing more, and waits until what waits is delivered, but no longer than this. Blocks the
    /// thread.
    pub fn finish(self, at_most: Duration) -> DeliveryStats {
        self.entrance.close();
        self.worker.wait(at_most);
        self.delivery()
    }
}

impl fmt::Debug for TransportHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TransportHandle").field(&self.delivery()).finish()
    }
}
