//! Cancel-safe futures of a run.

use std::{
    future::poll_fn,
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;

use super::RunOptions;

/// A future that has started and stays alive even if its caller is dropped.
pub(super) struct CancelSafe<T> {
    awaited: BoxFuture<'static, T>,
    /// Ends the grace period after the run is cancelled.
    grace_timer: Option<BoxFuture<'static, ()>>,
}

impl<T> CancelSafe<T> {
    pub(super) fn new(awaited: impl Future<Output = T> + Send + 'static) -> Self {
        Self { awaited: Box::pin(awaited), grace_timer: None }
    }

    /// Waits, but only for the grace period after the run is cancelled: the path to the model stops
    /// by itself, drivers and hooks may not.
    pub(super) async fn wait(&mut self, options: &RunOptions) -> Option<T> {
        poll_fn(|cx| self.poll(cx, options)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>, options: &RunOptions) -> Poll<Option<T>> {
        if let Poll::Ready(came) = self.awaited.as_mut().poll(cx) {
            return Poll::Ready(Some(came));
        }
        let patience = self.grace_timer.get_or_insert_with(|| {
            let (cancel, clock) = (options.cancel.clone(), options.env.clock.clone());
            let grace = options.grace;
            Box::pin(async move {
                cancel.cancelled().await;
                clock.sleep(grace).await;
            })
        });
        patience.as_mut().poll(cx).map(|()| None)
    }
}
