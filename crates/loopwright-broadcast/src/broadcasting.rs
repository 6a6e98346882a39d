//! Broadcasting of many executions to many listeners.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use loopwright_core::{AgentEvent, EventEnvelope, EventSink, Timestamp, messages::ExecutionId};

use crate::{
    broadcaster::Broadcaster,
    config::BroadcastConfig,
    frame::EncodedEnvelope,
    queue::{Receiver, Sender, queue},
    redact::Redactor,
    status::BroadcastStatus,
};

/// The default capacity of a listener's queue, in envelopes.
pub const CAPACITY: usize = 1024;

/// How many executions are remembered whose end was not told.
const REMEMBERED: usize = 1024;

/// Broadcasts the events of agents to listeners. Cheap to clone; clones share their listeners.
///
/// Attach it to an agent as an [`EventSink`]. Events of sub-agents are broadcast too, each with its
/// own execution ID: on the channel of the session if one is set, and otherwise on one named after
/// the agent's own ID. Without listeners, events are not encoded.
///
/// When the last clone is dropped, listeners get the waiting envelopes, and then the end.
#[derive(Clone)]
pub struct Broadcasting(Arc<Inner>);

struct Inner {
    config: BroadcastConfig,
    redaction: Redactor,
    session: Option<Arc<str>>,
    telling: Mutex<BroadcastState>,
    listeners: AtomicUsize,
}

#[derive(Default)]
struct BroadcastState {
    executions: HashMap<ExecutionId, Remembered>,
    listeners: Vec<Sender<EncodedEnvelope>>,
    /// Counts events, to know who was heard of last.
    heard: u64,
}

struct Remembered {
    broadcaster: Broadcaster,
    heard: u64,
}

impl Broadcasting {
    /// Creates a broadcasting without listeners.
    pub fn new(config: BroadcastConfig) -> Self {
        Self::of(config, None, Redactor::default())
    }

    /// Sets the session of all events. Earlier listeners are dropped.
    #[must_use]
    pub fn with_session(self, session: impl Into<Arc<str>>) -> Self {
        Self::of(self.0.config, Some(session.into()), self.0.redaction.clone())
    }

    /// Redacts secrets with this redactor. Earlier listeners are dropped.
    #[must_use]
    pub fn with_redaction(self, redaction: Redactor) -> Self {
        Self::of(self.0.config, self.0.session.clone(), redaction)
    }

    fn of(config: BroadcastConfig, session: Option<Arc<str>>, redaction: Redactor) -> Self {
        let (telling, listeners) = (Mutex::default(), AtomicUsize::new(0));
        Self(Arc::new(Inner { config, redaction, session, telling, listeners }))
    }

    /// Subscribes to events from now on. At most `capacity` envelopes wait, except those that are
    /// never dropped.
    pub fn subscribe(&self, capacity: usize) -> Subscription {
        let (entrance, exit) = queue(capacity);
        self.listen(entrance);
        Subscription::of(exit)
    }

    pub(crate) fn listen(&self, entrance: Sender<EncodedEnvelope>) {
        let mut telling = self.0.telling();
        telling.listeners.push(entrance);
        self.0.listeners.store(telling.listeners.len(), Relaxed);
    }

    /// Ends all subscriptions: listeners get the waiting envelopes, and then the end.
    pub fn close(&self) {
        let mut telling = self.0.telling();
        for listener in telling.listeners.drain(..) {
            listener.close();
        }
        self.0.listeners.store(0, Relaxed);
    }

    /// Publishes a status of an execution that no event reported.
    pub fn publish_status(&self, execution: &ExecutionId, status: BroadcastStatus, at: Timestamp) {
        let mut telling = self.0.telling();
        let told = telling
            .executions
            .get_mut(execution)
            .map(|it| it.broadcaster.publish_status(status, at));
        if let Some(frame) = told {
            self.0.publish(&mut telling, &frame);
        }
    }
}

impl EventSink for Broadcasting {
    fn emit(&self, envelope: &EventEnvelope) {
        if self.0.listeners.load(Relaxed) == 0 {
            return;
        }
        // Held while it is told, so that all listeners hear the same order.
        let mut telling = self.0.telling();
        let frames = telling.hear(envelope, &self.0);
        for frame in &frames {
            self.0.publish(&mut telling, frame);
        }
    }
}

impl BroadcastState {
    fn hear(&mut self, envelope: &EventEnvelope, inner: &Inner) -> Vec<EncodedEnvelope> {
        self.heard += 1;
        if !self.executions.contains_key(&envelope.execution) {
            if matches!(envelope.event, AgentEvent::ExecutionCompleted(_)) {
                return Vec::new();
            }
            self.begin(envelope, inner);
        }
        let Some(remembered) = self.executions.get_mut(&envelope.execution) else {
            return Vec::new();
        };
        remembered.heard = self.heard;
        let frames = remembered.broadcaster.on_event(envelope);
        if matches!(envelope.event, AgentEvent::ExecutionCompleted(_)) {
            self.executions.remove(&envelope.execution);
        }
        frames
    }

    fn begin(&mut self, envelope: &EventEnvelope, inner: &Inner) {
        if self.executions.len() >= REMEMBERED {
            // Runs that were dropped never end.
            let eldest = self.executions.iter().min_by_key(|(_, it)| it.heard);
            if let Some(eldest) = eldest.map(|(id, _)| id.clone()) {
                self.executions.remove(&eldest);
            }
        }
        let session = inner.session.clone().unwrap_or_else(|| envelope.agent.as_str().into());
        let broadcaster = Broadcaster::for_agent(
            inner.config,
            inner.redaction.clone(),
            session,
            envelope.execution.clone(),
            envelope.parent.clone(),
        );
        let remembered = Remembered { broadcaster, heard: self.heard };
        self.executions.insert(envelope.execution.clone(), remembered);
    }
}

impl Inner {
    fn telling(&self) -> MutexGuard<'_, BroadcastState> {
        self.telling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, telling: &mut BroadcastState, frame: &EncodedEnvelope) {
        telling.listeners.retain(|it| it.push(frame.clone()));
        self.listeners.store(telling.listeners.len(), Relaxed);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for listener in &self.telling().listeners {
            listener.close();
        }
    }
}

impl fmt::Debug for Broadcasting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broadcasting")
            .field("config", &self.0.config)
            .field("session", &self.0.session)
            .field("listeners", &self.0.listeners.load(Relaxed))
            .finish_non_exhaustive()
    }
}

/// The envelopes for one listener, in order.
///
/// If its queue is full, the oldest fragment of a response is dropped, or without fragments the
/// oldest event of a step or tool. Statuses and the ends of responses are never dropped. An
/// envelope `agent.dropped` before the next ones reports the number of dropped envelopes. Dropping
/// the subscription ends it.
#[derive(Debug)]
pub struct Subscription {
    exit: Receiver<EncodedEnvelope>,
    ready: VecDeque<EncodedEnvelope>,
}

impl Subscription {
    pub(crate) fn of(exit: Receiver<EncodedEnvelope>) -> Self {
        Self { exit, ready: VecDeque::new() }
    }

    /// Waits for the next envelope; `None` at the end. Dropping the future loses no envelope.
    pub async fn recv(&mut self) -> Option<EncodedEnvelope> {
        if self.ready.is_empty() {
            self.ready = self.recv_many(64).await?.into();
        }
        self.ready.pop_front()
    }

    /// Waits for envelopes, and takes those that are available, about `most` at most; `None` at the
    /// end. Dropping the future loses no envelope.
    pub async fn recv_many(&mut self, most: usize) -> Option<Vec<EncodedEnvelope>> {
        if !self.ready.is_empty() {
            return Some(self.ready.drain(..).collect());
        }
        let taken = self.exit.take(most.max(1)).await?;
        let missing = taken.items.first().filter(|_| taken.dropped > 0);
        let missing = missing.map(|it| it.after_dropping(taken.dropped));
        Some(missing.into_iter().chain(taken.items).collect())
    }

    /// Returns the number of envelopes dropped so far.
    pub fn dropped(&self) -> u64 {
        self.exit.dropped()
    }
}
