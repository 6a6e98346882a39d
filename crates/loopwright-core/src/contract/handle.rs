//! Control of a run in progress.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, OnceLock, Weak},
};

use loopwright_messages::Message;
use tokio_util::sync::CancellationToken;

use crate::{shared::lock, stop::StopSignal};

/// Steers and cancels a run, even from other tasks and while its `next()` is pending. Cheap to clone.
#[derive(Clone)]
pub struct RunHandle {
    pub(crate) cancel: CancellationToken,
    pub(crate) inbox: Weak<Inbox>,
}

impl RunHandle {
    /// Cancels the run: it abandons the model call, gives running tools the grace period and then
    /// drops them, and keeps the transcript valid. Nothing overrules it.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Cancels the run as [`cancel`](RunHandle::cancel) does, with a reason. The first reason
    /// counts.
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
            inbox.cancel_reason.set(signal);
        }
        self.cancel.cancel();
    }

    /// Returns the token that [`cancel`](RunHandle::cancel) fires.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.cancel
    }

    /// Returns `true` if the run accepts no more messages: it is ending, finished, or dropped.
    pub fn is_finished(&self) -> bool {
        self.inbox.upgrade().is_none_or(|inbox| lock(&inbox.state).is_closed)
    }

    /// Returns `true` if both are handles of one run.
    pub fn same_run(&self, other: &Self) -> bool {
        Weak::ptr_eq(&self.inbox, &other.inbox)
    }

    /// Sends a message to the agent. It becomes part of the conversation at the next boundary
    /// between steps, and the run does not end softly before it has answered it.
    ///
    /// # Errors
    ///
    /// Returns the message if the run has ended.
    pub fn steer(&self, message: Message) -> Result<(), Message> {
        match self.inbox.upgrade() {
            Some(inbox) => inbox.push(message),
            None => Err(message),
        }
    }
}

/// The reason of a cancellation. The first reason counts. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct CancelReason {
    own: Arc<OnceLock<StopSignal>>,
    /// The reason of the enclosing cancellation.
    outer: Option<Arc<Self>>,
}

impl CancelReason {
    /// Sets the reason, unless one is set. Call it before cancelling the token.
    pub fn set(&self, signal: StopSignal) {
        // A later reason is let go.
        let _first = self.own.set(signal);
    }

    /// Returns the reason, or `None` if nothing was cancelled, or no reason was set.
    pub fn get(&self) -> Option<StopSignal> {
        self.own.get().cloned().or_else(|| self.outer.as_ref()?.get())
    }

    /// Creates the reason of a nested token, which is cancelled with this one and can also be
    /// cancelled for other reasons.
    #[must_use]
    pub fn inner(&self) -> Self {
        Self { own: Arc::default(), outer: Some(Arc::new(self.clone())) }
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

/// Messages that the run has not yet taken, and the reason of its cancellation.
#[derive(Default)]
pub(crate) struct Inbox {
    state: Mutex<InboxState>,
    pub(crate) cancel_reason: CancelReason,
}

#[derive(Default)]
struct InboxState {
    messages: VecDeque<Message>,
    is_closed: bool,
}

impl Inbox {
    /// Creates the inbox of a run, with the cancel reason of its owner.
    pub(crate) fn new(cancel_reason: &CancelReason) -> Self {
        Self { state: Mutex::default(), cancel_reason: cancel_reason.inner() }
    }

    fn push(&self, message: Message) -> Result<(), Message> {
        let mut inbox = lock(&self.state);
        if inbox.is_closed {
            return Err(message);
        }
        inbox.messages.push_back(message);
        Ok(())
    }

    /// Returns the reason of the cancellation.
    pub(crate) fn cancel_reason(&self) -> StopSignal {
        self.cancel_reason
            .get()
            .unwrap_or_else(|| StopSignal::user_requested("the run was cancelled"))
    }

    /// Takes all messages.
    pub(crate) fn drain(&self) -> VecDeque<Message> {
        std::mem::take(&mut lock(&self.state).messages)
    }

    /// Takes all messages; if there are none, closes the inbox.
    pub(crate) fn drain_or_close(&self) -> VecDeque<Message> {
        let mut inbox = lock(&self.state);
        inbox.is_closed = inbox.messages.is_empty();
        std::mem::take(&mut inbox.messages)
    }

    /// Takes all messages and closes the inbox.
    pub(crate) fn close(&self) -> VecDeque<Message> {
        let mut inbox = lock(&self.state);
        inbox.is_closed = true;
        std::mem::take(&mut inbox.messages)
    }
}
