//! Waking a worker that waits for jobs.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::Poll,
};

use futures::task::AtomicWaker;

/// Wakes a worker of this process that waits for jobs, so that it does not have to poll.
///
/// Clones wake the same worker. If a signal arrives while the worker looks for jobs, it looks
/// again.
#[derive(Clone, Debug, Default)]
pub struct JobSignal(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    is_set: AtomicBool,
    waker: AtomicWaker,
}

impl JobSignal {
    /// Creates a signal without a worker.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the worker look for jobs now.
    pub fn notify(&self) {
        self.0.is_set.store(true, SeqCst);
        self.0.waker.wake();
    }

    /// Waits for a signal that was not received yet.
    pub(crate) async fn received(&self) {
        poll_fn(|cx| {
            self.0.waker.register(cx.waker());
            if self.0.is_set.swap(false, SeqCst) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}
