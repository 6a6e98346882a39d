//! A bounded queue between a run, which never waits, and a listener.

use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Poll,
};

use futures_util::task::AtomicWaker;

/// What something is worth where there is no room for everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DropPriority {
    /// A fragment, which goes first.
    Fragment,
    /// An event, which goes when there are no fragments.
    Event,
    /// It never goes.
    Kept,
}

/// Something that waits in a queue.
pub(crate) trait Queued {
    /// Returns what it is worth.
    fn worth(&self) -> DropPriority;
}

/// Where a run puts what is to be heard. Never waits.
#[derive(Debug)]
pub(crate) struct Sender<T>(Arc<Shared<T>>);

/// Where it is taken out again; dropping it lets nothing more in.
#[derive(Debug)]
pub(crate) struct Receiver<T>(Arc<Shared<T>>);

#[derive(Debug)]
struct Shared<T> {
    lanes: Mutex<Queues<T>>,
    waker: AtomicWaker,
    capacity: usize,
}

#[derive(Debug)]
struct Queues<T> {
    fragments: VecDeque<(u64, T)>,
    events: VecDeque<(u64, T)>,
    kept: VecDeque<(u64, T)>,
    next: u64,
    dropped: u64,
    /// How many were dropped since something was taken out.
    dropped_since_recv: u64,
    is_closed: bool,
}

/// What was taken out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Taken<T> {
    /// How many were dropped since something was taken out the last time.
    pub(crate) dropped: u64,
    pub(crate) items: Vec<T>,
}

/// Creates a queue with these capacities for fragments and events.
pub(crate) fn queue<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let lanes = Queues {
        fragments: VecDeque::new(),
        events: VecDeque::new(),
        kept: VecDeque::new(),
        next: 0,
        dropped: 0,
        dropped_since_recv: 0,
        is_closed: false,
    };
    let shared = Shared { lanes: Mutex::new(lanes), waker: AtomicWaker::new(), capacity };
    let shared = Arc::new(shared);
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

impl<T: Queued> Sender<T> {
    /// Adds an envelope, and drops the least important one if there is no room. Returns `true` if a
    /// receiver will take it out.
    pub(crate) fn push(&self, item: T) -> bool {
        let mut lanes = self.0.lanes();
        if lanes.is_closed {
            return false;
        }
        let number = lanes.next;
        lanes.next += 1;
        let lane = match item.worth() {
            DropPriority::Fragment => &mut lanes.fragments,
            DropPriority::Event => &mut lanes.events,
            DropPriority::Kept => &mut lanes.kept,
        };
        lane.push_back((number, item));
        while lanes.fragments.len() + lanes.events.len() > self.0.capacity {
            let least = lanes.fragments.pop_front().or_else(|| lanes.events.pop_front());
            lanes.dropped += u64::from(least.is_some());
            lanes.dropped_since_recv += u64::from(least.is_some());
        }
        drop(lanes);
        self.0.waker.wake();
        true
    }

    /// Lets nothing more in; what is in can be taken out.
    pub(crate) fn close(&self) {
        self.0.lanes().is_closed = true;
        self.0.waker.wake();
    }

    /// Returns how many were dropped so far.
    pub(crate) fn dropped(&self) -> u64 {
        self.0.lanes().dropped
    }

    /// Returns how many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.0.lanes().len()
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Receiver<T> {
    /// Waits for envelopes, and takes the available ones, up to a limit. Returns `None` if the
    /// queue is empty and closed. Nothing is lost if it is dropped.
    pub(crate) async fn take(&mut self, most: usize) -> Option<Taken<T>> {
        poll_fn(|cx| {
            self.0.waker.register(cx.waker());
            let mut lanes = self.0.lanes();
            if lanes.len() > 0 {
                return Poll::Ready(Some(lanes.take(most)));
            }
            if lanes.is_closed { Poll::Ready(None) } else { Poll::Pending }
        })
        .await
    }

    /// Returns how many were dropped so far.
    pub(crate) fn dropped(&self) -> u64 {
        self.0.lanes().dropped
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut lanes = self.0.lanes();
        lanes.is_closed = true;
        lanes.fragments.clear();
        lanes.events.clear();
        lanes.kept.clear();
    }
}

impl<T> Shared<T> {
    fn lanes(&self) -> MutexGuard<'_, Queues<T>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Queues<T> {
    fn len(&self) -> usize {
        self.fragments.len() + self.events.len() + self.kept.len()
    }

    /// Takes out what came first.
    fn take(&mut self, most: usize) -> Taken<T> {
        let mut items = Vec::with_capacity(self.len().min(most));
        while items.len() < most {
            let lanes = [&mut self.fragments, &mut self.events, &mut self.kept];
            let first = |lane: &&mut VecDeque<(u64, T)>| lane.front().map(|(number, _)| *number);
            let lanes = lanes.into_iter().filter(|it| !it.is_empty());
            let Some(lane) = lanes.min_by_key(first) else { break };
            items.extend(lane.pop_front().map(|(_, item)| item));
        }
        Taken { dropped: std::mem::take(&mut self.dropped_since_recv), items }
    }
}

#[cfg(test)]
mod tests;
