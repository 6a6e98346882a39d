//! A minimal executor that polls futures on the thread of the test.

use std::{
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Context, Poll, Wake, Waker},
};

/// Notes whether anything woke it.
#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}

/// Runs a future to its end.
///
/// # Panics
///
/// Panics if the future waits for an event that cannot occur on this thread.
#[track_caller]
pub fn block_on<F: Future>(future: F) -> F::Output {
    let Some(output) = run_until_stuck(future) else {
        panic!("the future waits for something that never happens");
    };
    output
}

/// Runs a future until it ends or waits for an event that cannot occur on this thread; then drops
/// it and returns `None`.
pub fn run_until_stuck<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_times(future.as_mut(), u32::MAX)
}

/// Polls a future at most this number of times, and stops if it waits for an event that cannot
/// occur on this thread.
pub fn poll_times<F: Future>(mut future: Pin<&mut F>, times: u32) -> Option<F::Output> {
    let flag = Arc::new(Flag::default());
    let waker = Waker::from(Arc::clone(&flag));
    let mut cx = Context::from_waker(&waker);
    for _ in 0..times {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return Some(output);
        }
        if !flag.0.swap(false, SeqCst) {
            return None;
        }
    }
    None
}

/// A future that is ready after this number of unsuccessful polls.
#[derive(Clone, Copy, Debug)]
#[must_use = "a future does nothing until it is awaited"]
pub struct YieldTimes(u32);

/// Yields this number of times.
pub fn yield_times(times: u32) -> YieldTimes {
    YieldTimes(times)
}

impl Future for YieldTimes {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.0 == 0 {
            return Poll::Ready(());
        }
        self.0 -= 1;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_takes_as_many_polls_as_it_says_and_one_more() {
        let mut waiting = pin!(yield_times(2));
        assert_eq!(poll_times(waiting.as_mut(), 2), None);
        assert_eq!(poll_times(waiting.as_mut(), 1), Some(()));
    }

    #[test]
    fn a_future_that_is_never_woken_is_given_up() {
        assert_eq!(run_until_stuck(std::future::pending::<()>()), None);
        assert_eq!(run_until_stuck(async { 1 }), Some(1));
        block_on(yield_times(3));
    }
}
