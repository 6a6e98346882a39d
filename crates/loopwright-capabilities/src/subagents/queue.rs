//! The limit of concurrent sub-agents of an execution.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use loopwright_core::ToolCx;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Places for sub-agents, as many for each execution. Each execution has its own, so that a sub-agent
/// never waits for one that waits for it.
#[derive(Debug, Default)]
pub(super) struct Queue(Mutex<BTreeMap<String, Weak<Semaphore>>>);

impl Queue {
    /// Waits for a place; there is none once the run is cancelled.
    pub(super) async fn place(&self, most: usize, cx: &ToolCx<'_>) -> Option<OwnedSemaphorePermit> {
        let places = self.places(cx.key.execution.to_string(), most);
        tokio::select! {
            biased;
            () = cx.cancel.cancelled() => None,
            place = places.acquire_owned() => place.ok(),
        }
    }

    fn places(&self, execution: String, most: usize) -> Arc<Semaphore> {
        let mut queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        queues.retain(|_, places| places.strong_count() > 0);
        if let Some(places) = queues.get(&execution).and_then(Weak::upgrade) {
            return places;
        }
        let places = Arc::new(Semaphore::new(most.clamp(1, Semaphore::MAX_PERMITS)));
        queues.insert(execution, Arc::downgrade(&places));
        places
    }
}
