//! What a run waits for.

use std::{
    future::poll_fn,
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;

use super::RunOptions;

/// Something that was begun and is awaited, however often whoever awaits it is dropped.
pub(super) struct CancelSafe<T> {
    awaited: BoxFuture<'static, T>,
    /// Ends the grace that there is once the run is cancelled.
    grace_timer: Option<BoxFuture<'static, ()>>,
}

impl<T> CancelSafe<T> {
    pub(super) fn new(awaited: impl Future<Output = T> + Send + 'static) -> Self {
        Self { awaited: Box::pin(awaited), grace_timer: None }
    }

    /// Waits, but not for ever once the run is cancelled: the way to the model gives up by itself,
    /// drivers and hooks may not.
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
