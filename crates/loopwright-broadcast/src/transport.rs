//! Transports of envelopes.

use std::{panic::AssertUnwindSafe, sync::Arc};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use loopwright_core::BoxError;

use crate::{broadcasting::Subscription, frame::EncodedEnvelope};

/// Sends envelopes to a destination: a web socket, a queue, a file.
///
/// It can be slow, fail, panic or hang without effect on a run. Envelopes that wait too long are
/// dropped as [`Subscription`] documents. An envelope whose delivery failed is not sent again.
#[async_trait]
pub trait BroadcastTransport: Send + Sync {
    /// Sends an envelope to the listeners of a channel, which is named `agent.` and the session.
    ///
    /// # Errors
    ///
    /// Returns an error if it could not be sent. The failure is counted, and the next envelope is
    /// sent.
    async fn broadcast(&self, channel: &str, envelope: &EncodedEnvelope) -> Result<(), BoxError>;

    /// Sends consecutive envelopes. The default implementation sends one after the other.
    ///
    /// # Errors
    ///
    /// As for [`broadcast`](BroadcastTransport::broadcast), for all of them as one.
    async fn broadcast_all(&self, envelopes: &[EncodedEnvelope]) -> Result<(), BoxError> {
        let mut failed = Ok(());
        for envelope in envelopes {
            failed = failed.and(self.broadcast(envelope.channel(), envelope).await);
        }
        failed
    }
}

#[async_trait]
impl<T: BroadcastTransport + ?Sized> BroadcastTransport for Arc<T> {
    async fn broadcast(&self, channel: &str, envelope: &EncodedEnvelope) -> Result<(), BoxError> {
        (**self).broadcast(channel, envelope).await
    }

    async fn broadcast_all(&self, envelopes: &[EncodedEnvelope]) -> Result<(), BoxError> {
        (**self).broadcast_all(envelopes).await
    }
}

/// The maximum number of envelopes in a batch.
const BATCH: usize = 256;

/// Sends the envelopes of a subscription to a transport until the end. Calls `failed` for each
/// failure or panic.
///
/// Use this to drive a transport yourself;
/// [`Broadcasting::attach_transport`](crate::Broadcasting::attach_transport) runs it on a thread.
pub async fn deliver(
    mut subscription: Subscription,
    transport: &dyn BroadcastTransport,
    mut failed: impl FnMut(),
) {
    while let Some(batch) = subscription.recv_many(BATCH).await {
        let taken =
            AssertUnwindSafe(async { transport.broadcast_all(&batch).await }).catch_unwind();
        if !matches!(taken.await, Ok(Ok(()))) {
            failed();
        }
    }
}
