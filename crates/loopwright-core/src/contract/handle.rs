//! What others may do to a run while it goes on.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Mutex, Weak},
};

use loopwright_messages::Message;
use tokio_util::sync::CancellationToken;

use crate::{shared::lock, stop::StopSignal};

/// Steers and cancels a run, also from other tasks and while its `next()` is pending. Cheap to clone.
#[derive(Clone)]
pub struct RunHandle {
    pub(crate) cancel: CancellationToken,
    pub(crate) inbox: Weak<Inbox>,
}

impl RunHandle {
    /// Asks the run to end: the model call is given up, running tools get their grace and are then
    /// dropped, and the transcript stays valid. Nothing overrules it.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Asks the run to end as [`cancel`](RunHandle::cancel) does, and says why. The first reason counts.
    ///
    /// ```
    /// use loopwright_core::{AgentState, RunOptions, StopReason, StopSignal};
    /// use loopwright_testing::{FakeDriver, block_on, test_loop};
    ///
    /// let run = test_loop(FakeDriver::default()).start(AgentState::new(), RunOptions::default());
    /// run.handle().cancel_with(StopSignal::user_requested("the window was closed"));
    /// let state = block_on(run.finish());
    /// assert_eq!(state.stop_signal().map(|signal| signal.reason), Some(StopReason::UserRequested));
    /// ```
    pub fn cancel_with(&self, signal: StopSignal) {
        if let Some(inbox) = self.inbox.upgrade() {
            lock(&inbox.0).cancel_reason.get_or_insert(signal);
        }
        self.cancel.cancel();
    }

    /// Returns the token that [`cancel`](RunHandle::cancel) fires.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.cancel
    }

    /// Returns `true` if the run takes nothing more: it is ending, over, or dropped.
    pub fn is_finished(&self) -> bool {
        self.inbox.upgrade().is_none_or(|inbox| lock(&inbox.0).is_closed)
    }

    /// Returns `true` if both are handles of one run.
    pub fn same_run(&self, other: &Self) -> bool {
        Weak::ptr_eq(&self.inbox, &other.inbox)
    }

    /// Says something to the agent: at the next boundary between steps it becomes part of the
    /// conversation, and the run does not end softly before it has been answered.
    ///
    /// # Errors
    ///
    /// Gives the message back if the run is over.
    pub fn steer(&self, message: Message) -> Result<(), Message> {
        match self.inbox.upgrade() {
            Some(inbox) => inbox.push(message),
            None => Err(message),
        }
    }
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inbox")
    }
}

impl fmt::Debug for RunHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunHandle")
            .field("cancelled", &self.cancel.is_cancelled())
            .finish_non_exhaustive()
    }
}

/// Messages that were said and not yet heard.
#[derive(Default)]
pub(crate) struct Inbox(Mutex<InboxState>);

#[derive(Default)]
struct InboxState {
    messages: VecDeque<Message>,
    /// Why the run was cancelled.
    cancel_reason: Option<StopSignal>,
    is_closed: bool,
}

impl Inbox {
    fn push(&self, message: Message) -> Result<(), Message> {
        let mut inbox = lock(&self.0);
        if inbox.is_closed {
            return Err(message);
        }
        inbox.messages.push_back(message);
        Ok(())
    }

    /// Returns why the run was cancelled.
    pub(crate) fn why(&self) -> StopSignal {
        let why = lock(&self.0).cancel_reason.clone();
        why.unwrap_or_else(|| StopSignal::user_requested("the run was cancelled"))
    }

    /// Takes everything.
    pub(crate) fn drain(&self) -> VecDeque<Message> {
        std::mem::take(&mut lock(&self.0).messages)
    }

    /// Takes everything; if there is nothing, nothing more can be put in.
    pub(crate) fn drain_or_close(&self) -> VecDeque<Message> {
        let mut inbox = lock(&self.0);
        inbox.is_closed = inbox.messages.is_empty();
        std::mem::take(&mut inbox.messages)
    }

    /// Takes everything, and lets nothing more in.
    pub(crate) fn close(&self) -> VecDeque<Message> {
        let mut inbox = lock(&self.0);
        inbox.is_closed = true;
        std::mem::take(&mut inbox.messages)
    }
}
