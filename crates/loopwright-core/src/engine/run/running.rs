//! The calls that run concurrently.

use std::{
    collections::VecDeque,
    mem,
    pin::Pin,
    task::{Context, Poll},
};

use futures_util::{
    future::BoxFuture,
    stream::{FuturesUnordered, Stream, StreamExt as _},
};

use crate::executor::FinishedCall;

type Call = BoxFuture<'static, (u16, FinishedCall)>;

/// The calls that run concurrently, each with its position.
///
/// As long as there are any, every other wait of the run has to [advance](Running::advance) them: a
/// call can hold a resource that the other needs, such as the only connection to a store.
pub(super) struct Running {
    calls: Calls,
    /// Calls that ended while the run waited for another future.
    ended: VecDeque<(u16, FinishedCall)>,
}

/// Most steps have one call, which needs no queue.
enum Calls {
    None,
    One(Call),
    Many(FuturesUnordered<Call>),
}

impl Running {
    pub(super) const NONE: Self = Self { calls: Calls::None, ended: VecDeque::new() };

    pub(super) fn is_empty(&self) -> bool {
        let is_running = match &self.calls {
            Calls::None => false,
            Calls::One(_) => true,
            Calls::Many(calls) => !calls.is_empty(),
        };
        !is_running && self.ended.is_empty()
    }

    pub(super) fn push(&mut self, call: Call) {
        self.calls = match mem::replace(&mut self.calls, Calls::None) {
            Calls::None => Calls::One(call),
            Calls::One(first) => Calls::Many([first, call].into_iter().collect()),
            Calls::Many(calls) => {
                calls.push(call);
                Calls::Many(calls)
            }
        };
    }

    /// Polls the calls. Those that end are yielded later.
    pub(super) fn advance(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(Some(ended)) = self.calls.poll_next(cx) {
            self.ended.push_back(ended);
        }
    }
}

impl Calls {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<(u16, FinishedCall)>> {
        match self {
            Self::None => Poll::Ready(None),
            Self::One(call) => call.as_mut().poll(cx).map(|ended| {
                *self = Self::None;
                Some(ended)
            }),
            Self::Many(calls) => calls.poll_next_unpin(cx),
        }
    }
}

/// Yields calls as they end; pending while none runs.
impl Stream for Running {
    type Item = (u16, FinishedCall);

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.ended.pop_front() {
            Some(ended) => Poll::Ready(Some(ended)),
            None => self.calls.poll_next(cx),
        }
    }
}
