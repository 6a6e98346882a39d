//! Where envelopes go.

use std::{panic::AssertUnwindSafe, sync::Arc};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use loopwright_core::BoxError;

use crate::{broadcasting::Subscription, frame::EncodedEnvelope};

/// Takes envelopes to wherever they are wanted: a web socket, a queue, a file.
///
/// It may be slow, fail, panic or never come back: a run does not notice, and what waits too long is
/// dropped as [`Subscription`] says. What was given to it and failed is not given again.
#[async_trait]
pub trait BroadcastTransport: Send + Sync {
    /// Takes an envelope to those who listen to a channel, which is named `agent.` and the session.
    ///
    /// # Errors
    ///
    /// If it could not be taken; it is counted, and the next one is tried.
    async fn broadcast(&self, channel: &str, envelope: &EncodedEnvelope) -> Result<(), BoxError>;

    /// Takes envelopes that came in a row; one after the other if this is not overridden.
    ///
    /// # Errors
    ///
    /// As of [`broadcast`](BroadcastTransport::broadcast), for all of them as one.
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

/// How many envelopes a transport is given at once.
const BATCH: usize = 256;

/// Takes what is told to a transport until there is nothing more. `failed` is called for each time it
/// fails or panics.
///
/// This is for programs that decide themselves what runs it;
/// [`Broadcasting::attach_transport`](crate::Broadcasting::attach_transport) gives it a thread.
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
