//! The calls that run at the same time.

use std::{
    mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_util::{
    future::BoxFuture,
    stream::{FuturesUnordered, Stream, StreamExt as _},
};

use crate::executor::FinishedCall;

type Call = BoxFuture<'static, (u16, FinishedCall)>;

/// The calls that run at the same time, each with its position. Most steps have one, which needs no
/// queue.
pub(super) enum Running {
    None,
    One(Call),
    Many(FuturesUnordered<Call>),
}

impl Running {
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::None => true,
            Self::One(_) => false,
            Self::Many(calls) => calls.is_empty(),
        }
    }

    pub(super) fn push(&mut self, call: Call) {
        *self = match mem::replace(self, Self::None) {
            Self::None => Self::One(call),
            Self::One(first) => Self::Many([first, call].into_iter().collect()),
            Self::Many(calls) => {
                calls.push(call);
                Self::Many(calls)
            }
        };
    }
}

/// Yields calls as they end; none while nothing runs.
impl Stream for Running {
    type Item = (u16, FinishedCall);

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match &mut *self {
            Self::None => Poll::Ready(None),
            Self::One(call) => {
                let ended = ready!(call.as_mut().poll(cx));
                *self = Self::None;
                Poll::Ready(Some(ended))
            }
            Self::Many(calls) => calls.poll_next_unpin(cx),
        }
    }
}
