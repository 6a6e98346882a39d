//! Delivery of events to listeners.

use std::{
    borrow::Cow,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use loopwright_messages::{AgentId, ExecutionId};

use crate::{
    clock::Clock,
    event::{AgentEvent, EventEnvelope, EventType},
};

/// Listens to events.
///
/// Called on the run's own task, in the order of events: it must not block. It cannot change or
/// fail the run, and its panics are contained. Put a slow listener behind a queue.
///
/// ```
/// use std::sync::Mutex;
///
/// use loopwright_core::{EventEnvelope, EventSink};
///
/// /// Counts events.
/// #[derive(Default)]
/// struct Counter(Mutex<usize>);
///
/// impl EventSink for Counter {
///     fn emit(&self, _envelope: &EventEnvelope) {
///         if let Ok(mut count) = self.0.lock() {
///             *count += 1;
///         }
///     }
/// }
/// ```
pub trait EventSink: Send + Sync {
    /// Handles an event.
    fn emit(&self, envelope: &EventEnvelope);
}

impl<F: Fn(&EventEnvelope) + Send + Sync> EventSink for F {
    fn emit(&self, envelope: &EventEnvelope) {
        self(envelope);
    }
}

/// Listeners, in the order they were attached.
///
/// ```
/// use loopwright_core::{EventSinks, events::StepCompleted};
///
/// let mut sinks = EventSinks::default();
/// sinks.on_event(|_step: &StepCompleted, envelope| println!("event {}", envelope.seq));
/// assert!(!sinks.is_empty());
/// ```
#[derive(Clone, Default)]
pub struct EventSinks {
    sinks: Vec<Arc<dyn EventSink>>,
    mode_label: Option<ModeLabel>,
}

/// Returns the permission mode that an event names.
type ModeLabel = Arc<dyn Fn() -> Option<&'static str> + Send + Sync>;

impl EventSinks {
    /// Attaches a listener to all events.
    pub fn wiretap(&mut self, sink: impl EventSink + 'static) {
        self.add(Arc::new(sink));
    }

    /// Attaches a listener that is shared with other owners.
    pub fn add(&mut self, sink: Arc<dyn EventSink>) {
        self.sinks.push(sink);
    }

    /// Attaches a listener to one event type.
    pub fn on_event<T: EventType + 'static>(
        &mut self,
        listen: impl Fn(&T, &EventEnvelope) + Send + Sync + 'static,
    ) {
        self.wiretap(move |envelope: &EventEnvelope| {
            if let Some(event) = T::of(&envelope.event) {
                listen(event, envelope);
            }
        });
    }

    /// Adds a function that returns the permission mode for the field
    /// [`permission_mode`](EventEnvelope::permission_mode) of each event. `None` means that the event names no mode. If there are
    /// several functions, such as those of an agent and of its parents, events name a mode only if all of them return one.
    pub fn add_mode_label(
        &mut self,
        label: impl Fn() -> Option<&'static str> + Send + Sync + 'static,
    ) {
        self.mode_label = Some(match self.mode_label.take() {
            Some(earlier) => Arc::new(move || earlier().and_then(|_| label())),
            None => Arc::new(label),
        });
    }

    /// Attaches all listeners of another list after these, and adds its mode labels.
    pub fn extend(&mut self, others: &Self) {
        self.sinks.extend(others.sinks.iter().cloned());
        if let Some(label) = others.mode_label.clone() {
            self.add_mode_label(move || label());
        }
    }

    /// Returns `true` if there is no listener.
    pub fn is_empty(&self) -> bool {
        self.sinks.is_empty()
    }

    fn permission_mode(&self) -> Option<&'static str> {
        self.mode_label.as_ref()?()
    }
}

impl fmt::Debug for EventSinks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sinks({})", self.sinks.len())
    }
}

/// Stamps and delivers the events of one run. Cheap to clone; costs nothing without listeners.
#[derive(Clone, Default)]
pub struct EventBus(Option<Arc<Bus>>);

struct Bus {
    sinks: EventSinks,
    clock: Arc<dyn Clock>,
    agent: AgentId,
    parent: Option<AgentId>,
    execution: ExecutionId,
    next: AtomicU64,
}

impl EventBus {
    pub(crate) fn new(
        sinks: &EventSinks,
        clock: &Arc<dyn Clock>,
        agent: AgentId,
        parent: Option<AgentId>,
        execution: ExecutionId,
    ) -> Self {
        if sinks.is_empty() {
            return Self(None);
        }
        let (sinks, clock) = (sinks.clone(), Arc::clone(clock));
        let next = AtomicU64::new(0);
        Self(Some(Arc::new(Bus { sinks, clock, agent, parent, execution, next })))
    }

    /// Returns `true` if any listener is attached.
    pub fn has_listeners(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the agent of these events. `None` without listeners.
    pub fn agent(&self) -> Option<&AgentId> {
        self.0.as_ref().map(|bus| &bus.agent)
    }

    /// Returns the parent of that agent. Returns `None` if it has no parent, or without listeners.
    pub fn parent(&self) -> Option<&AgentId> {
        self.0.as_ref()?.parent.as_ref()
    }

    /// Returns the permission mode that events name at present. Returns `None` if they name none, or without listeners.
    pub fn permission_mode(&self) -> Option<&'static str> {
        self.0.as_ref()?.sinks.permission_mode()
    }

    /// Returns the listeners, for the run of a sub-agent.
    pub fn sinks(&self) -> EventSinks {
        self.0.as_ref().map(|bus| bus.sinks.clone()).unwrap_or_default()
    }

    /// Delivers an event to all listeners. Creates it only if a listener is attached.
    pub fn emit<E: Into<AgentEvent>>(&self, event: impl FnOnce() -> E) {
        if let Some(bus) = &self.0 {
            bus.deliver(event().into());
        }
    }
}

impl Bus {
    fn deliver(&self, event: AgentEvent) {
        let envelope = EventEnvelope {
            seq: self.next.fetch_add(1, Relaxed),
            at: self.clock.now(),
            agent: self.agent.clone(),
            parent: self.parent.clone(),
            execution: self.execution.clone(),
            permission_mode: self.sinks.permission_mode().map(Cow::Borrowed),
            event,
        };
        for sink in &self.sinks.sinks {
            // A listener that panics hears of the next event all the same.
            let _contained = catch_unwind(AssertUnwindSafe(|| sink.emit(&envelope)));
        }
    }
}

impl fmt::Debug for EventBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Events({})", self.0.as_ref().map_or(0, |bus| bus.sinks.sinks.len()))
    }
}
