//! A thread whose end can be waited for.

use std::{
    io,
    sync::{
        Mutex, PoisonError,
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

/// A thread at work. Dropping this leaves it at work.
#[derive(Debug)]
pub(crate) struct Worker(Mutex<Receiver<()>>);

impl Worker {
    /// Has a thread of this name do something.
    pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let (ends, over) = mpsc::channel();
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            // Dropped with the thread's end, whichever it is.
            let _ends: mpsc::Sender<()> = ends;
            work();
        })?;
        Ok(Self(Mutex::new(over)))
    }

    /// Waits until it is done, but no longer than this. Blocks the thread.
    pub(crate) fn wait(&self, at_most: Duration) {
        let over = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match over.recv_timeout(at_most) {
            Ok(()) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => (),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_when_the_worker_finishes_or_panics() {
        let (goes_on, waits) = mpsc::channel();
        let worker = Worker::spawn("works", move || assert_eq!(waits.recv(), Ok(()))).unwrap();
        worker.wait(Duration::ZERO);
        goes_on.send(()).unwrap();
        worker.wait(Duration::MAX);
        worker.wait(Duration::MAX);
        let broken = Worker::spawn("breaks", || panic!("breaks off")).unwrap();
        broken.wait(Duration::MAX);
    }
}
