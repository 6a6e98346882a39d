//! What others may do to a run while it goes on.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, OnceLock, Weak},
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
            inbox.cancel_reason.set(signal);
        }
        self.cancel.cancel();
    }

    /// Returns the token that [`cancel`](RunHandle::cancel) fires.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.cancel
    }

    /// Returns `true` if the run takes nothing more: it is ending, over, or dropped.
    pub fn is_finished(&self) -> bool {
        self.inbox.upgrade().is_none_or(|inbox| lock(&inbox.state).is_closed)
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

/// Why something is cancelled, for what is cancelled with it: the first reason counts. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct CancelReason {
    own: Arc<OnceLock<StopSignal>>,
    /// Why what it belongs to is cancelled.
    outer: Option<Arc<Self>>,
}

impl CancelReason {
    /// Sets the reason, unless there is one. Call it before the token is cancelled.
    pub fn set(&self, signal: StopSignal) {
        // A later reason is let go.
        let _first = self.own.set(signal);
    }

    /// Returns the reason; `None` if nothing was cancelled, or nothing was said.
    pub fn get(&self) -> Option<StopSignal> {
        self.own.get().cloned().or_else(|| self.outer.as_ref()?.get())
    }

    /// Makes that of something that is cancelled with this, and may be cancelled for reasons of its own.
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

/// Messages that were said and not yet heard, and why the run was cancelled.
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
    /// Makes that of a run that its owner cancels for such a reason.
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

    /// Returns why the run was cancelled.
    pub(crate) fn cancel_reason(&self) -> StopSignal {
        self.cancel_reason
            .get()
            .unwrap_or_else(|| StopSignal::user_requested("the run was cancelled"))
    }

    /// Takes everything.
    pub(crate) fn drain(&self) -> VecDeque<Message> {
        std::mem::take(&mut lock(&self.state).messages)
    }

    /// Takes everything; if there is nothing, nothing more can be put in.
    pub(crate) fn drain_or_close(&self) -> VecDeque<Message> {
        let mut inbox = lock(&self.state);
        inbox.is_closed = inbox.messages.is_empty();
        std::mem::take(&mut inbox.messages)
    }

    /// Takes everything, and lets nothing more in.
    pub(crate) fn close(&self) -> VecDeque<Message> {
        let mut inbox = lock(&self.state);
        inbox.is_closed = true;
        std::mem::take(&mut inbox.messages)
    }
}
