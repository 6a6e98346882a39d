//! Decoding of batches while others are still being read.

use std::{
    num::NonZero,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, Sender, channel},
    },
    thread::available_parallelism,
};

use loopwright_core::{ChangeRecord, Seq};
use loopwright_sessions::{
    SessionId, StoreError,
    stored::{StoredBatch, check_sequence},
};
use tokio::task::{JoinHandle, spawn_blocking};

/// The maximum number of threads for one session.
const MAX: usize = 4;

/// The changes of a batch, with the number of its first change and their count.
type Decoded = (Seq, usize, Result<Vec<ChangeRecord>, StoreError>);

/// Decodes batches on separate threads, in any order.
///
/// The threads end once this value is dropped and all of its input is decoded.
pub(crate) struct Decoding {
    id: SessionId,
    sender: Sender<Vec<StoredBatch>>,
    receiver: Arc<Mutex<Receiver<Vec<StoredBatch>>>>,
    /// The maximum number of threads.
    most: usize,
    threads: Vec<JoinHandle<Vec<Decoded>>>,
}

impl Decoding {
    /// Starts to decode the changes of a session.
    pub(crate) fn begin(id: &SessionId) -> Self {
        let (sender, receiver) = channel();
        let receiver = Arc::new(Mutex::new(receiver));
        let most = available_parallelism().map_or(1, NonZero::get).min(MAX);
        Self { id: id.clone(), sender, receiver, most, threads: Vec::new() }
    }

    /// Adds batches. Each of the first few pages starts another thread.
    pub(crate) fn take(&mut self, batches: Vec<StoredBatch>) {
        if self.threads.len() < self.most {
            let (id, receiver) = (self.id.clone(), Arc::clone(&self.receiver));
            self.threads.push(spawn_blocking(move || decoded(&id, &receiver)));
        }
        // If this fails, the decoding threads have panicked, which is reported at the end.
        let _sent = self.sender.send(batches);
    }

    /// Returns all changes in order, and checks their number.
    pub(crate) async fn end(self, length: Seq) -> Result<Vec<ChangeRecord>, StoreError> {
        let Self { id, sender, threads, .. } = self;
        drop(sender);
        let mut all = Vec::new();
        for thread in threads {
            all.extend(thread.await.map_err(|error| StoreError::Unavailable(error.into()))?);
        }
        all.sort_by_key(|(first, ..)| *first);
        check_sequence(&id, length, all.iter().map(|(first, count, _)| (*first, *count)))?;
        let mut changes = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
        for (.., batch) in all {
            changes.append(&mut batch?);
        }
        Ok(changes)
    }
}

fn decoded(id: &SessionId, receiver: &Mutex<Receiver<Vec<StoredBatch>>>) -> Vec<Decoded> {
    let next = || receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
    let mut all = Vec::new();
    while let Ok(batches) = next() {
        all.extend(batches.iter().map(|it| (it.first, it.count, it.decode(id))));
    }
    all
}
