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

/// A handle to a transport on its own thread. Dropping the handle does not stop the transport.
pub struct TransportHandle {
    entrance: Sender<EncodedEnvelope>,
    failed: Arc<AtomicU64>,
    worker: Worker,
}

/// Delivery statistics of a transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryStats {
    /// The number of envelopes dropped because the transport was too slow.
    pub dropped: u64,
    /// The number of failures and panics.
    pub failed: u64,
    /// The number of waiting envelopes.
    pub waiting: usize,
}

impl Broadcasting {
    /// Attaches a transport, which receives envelopes from now on, on its own thread. At most
    /// `capacity` envelopes wait, except those that are never dropped.
    ///
    /// If the transport needs a tokio runtime, call this within that runtime.
    ///
    /// # Errors
    ///
    /// Returns an error if the thread cannot be started.
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
    /// Returns the delivery statistics.
    pub fn delivery(&self) -> DeliveryStats {
        DeliveryStats {
            dropped: self.entrance.dropped(),
            failed: self.failed.load(Relaxed),
            waiting: self.entrance.waiting(),
        }
    }

    /// Stops accepting envelopes, and waits until the waiting ones are delivered, at most for this
    /// duration. Blocks the thread.
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
