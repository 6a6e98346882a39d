//! Sources of cancellation requests.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use loopwright_core::{AgentState, RunHandle, StopSignal};
use serde_json::Value;

/// A source of cancellation requests.
pub trait CancellationSource: Send + Sync {
    /// Returns the reason to end a run, or `None` if the run continues. Called before the run and
    /// before each step. It must not block.
    fn signal(&self, state: &AgentState) -> Option<StopSignal>;

    /// Receives the handle of a run before each check. A source that keeps it can end the run at
    /// once with [`RunHandle::cancel_with`], even during a model call or a tool call.
    fn watch(&self, _run: RunHandle) {}
}

/// Ends runs on request, even in the middle of a step. Clones share the request.
///
/// A request ends the active runs and their sub-agents. Without an active run, it ends the next run
/// before its first step. After that, the request is completed, and later runs are not affected.
#[derive(Clone, Default)]
pub struct Cancellation(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    request: Option<Request>,
    runs: Vec<RunHandle>,
}

struct Request {
    signal: StopSignal,
    /// Whether it has ended anything.
    was_heard: bool,
}

impl Cancellation {
    /// Creates a source without a request.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends runs with a reason; blank text means no reason.
    pub fn cancel(&self, message: impl Into<String>) {
        self.cancel_with::<String>(message, []);
    }

    /// Ends runs with a reason and details.
    pub fn cancel_with<K: Into<Cow<'static, str>>>(
        &self,
        message: impl Into<String>,
        context: impl IntoIterator<Item = (K, Value)>,
    ) {
        let message: String = message.into();
        let message = if message.trim().is_empty() { DEFAULT.to_owned() } else { message };
        let mut signal = StopSignal::user_requested(message);
        signal.context.extend(context.into_iter().map(|(key, value)| (key.into(), value)));
        let runs = {
            let mut inner = self.tidied();
            let was_heard = !inner.runs.is_empty();
            inner.request = Some(Request { signal: signal.clone(), was_heard });
            inner.runs.clone()
        };
        // A caller that is woken by it may ask this source.
        for run in &runs {
            run.cancel_with(signal.clone());
        }
    }

    /// Withdraws a request that has not ended a run yet.
    pub fn reset(&self) {
        self.tidied().request = None;
    }

    /// Returns `true` if a request is pending.
    pub fn is_requested(&self) -> bool {
        self.tidied().request.is_some()
    }

    /// Forgets runs that are over, and the request when it has ended all that it was meant for.
    fn tidied(&self) -> MutexGuard<'_, Inner> {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.runs.retain(|run| !run.is_finished());
        if inner.runs.is_empty() && inner.request.as_ref().is_some_and(|it| it.was_heard) {
            inner.request = None;
        }
        inner
    }
}

const DEFAULT: &str = "the run was cancelled on request";

impl CancellationSource for Cancellation {
    fn signal(&self, _state: &AgentState) -> Option<StopSignal> {
        let mut inner = self.tidied();
        let request = inner.request.as_mut()?;
        request.was_heard = true;
        Some(request.signal.clone())
    }

    fn watch(&self, run: RunHandle) {
        let mut inner = self.tidied();
        if !inner.runs.iter().any(|it| it.same_run(&run)) {
            inner.runs.push(run);
        }
    }
}

impl fmt::Debug for Cancellation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancellation")
            .field("is_requested", &self.is_requested())
            .finish_non_exhaustive()
    }
}
