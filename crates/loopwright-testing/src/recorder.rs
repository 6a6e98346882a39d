//! A recorder of events.

use std::sync::{Arc, Mutex, PoisonError};

use loopwright_core::{EventEnvelope, EventSink, EventType};

use crate::timeline::Timeline;

/// Records all events. Clones share the record.
#[derive(Clone, Debug, Default)]
pub struct EventRecorder {
    envelopes: Arc<Mutex<Vec<EventEnvelope>>>,
    timeline: Option<Timeline>,
}

impl EventRecorder {
    /// Creates an empty recorder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Also notes the names of events in a timeline, as `told <name>`.
    #[must_use]
    pub fn with_timeline(mut self, timeline: &Timeline) -> Self {
        self.timeline = Some(timeline.clone());
        self
    }

    /// Returns the recorder as event sinks for a loop.
    pub fn sink(&self) -> Arc<dyn EventSink> {
        Arc::new(self.clone())
    }

    /// Returns the events, oldest first.
    pub fn envelopes(&self) -> Vec<EventEnvelope> {
        self.envelopes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the names of the events, oldest first.
    pub fn names(&self) -> Vec<String> {
        self.envelopes().iter().map(|it| it.event.name().to_owned()).collect()
    }

    /// Returns the events of one kind, oldest first.
    pub fn events_of<T: EventType + Clone>(&self) -> Vec<T> {
        self.envelopes().iter().filter_map(|it| T::of(&it.event).cloned()).collect()
    }

    /// Clears the record.
    pub fn clear(&self) {
        self.envelopes.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl EventSink for EventRecorder {
    fn emit(&self, envelope: &EventEnvelope) {
        if let Some(timeline) = &self.timeline {
            timeline.note(format!("told {}", envelope.event.name()));
        }
        self.envelopes.lock().unwrap_or_else(PoisonError::into_inner).push(envelope.clone());
    }
}

#[cfg(test)]
mod tests {
    use loopwright_core::{AgentState, events::StepCompleted};

    use super::*;
    use crate::{FakeDriver, block_on, test_loop};

    #[test]
    fn a_recorder_keeps_events_in_order_and_finds_them_by_kind() {
        let (events, timeline) = (EventRecorder::new(), Timeline::new());
        let sink = events.clone().with_timeline(&timeline).sink();
        let agent = test_loop(FakeDriver::default()).with_event_sink(sink);
        drop(block_on(agent.execute(AgentState::new())));
        assert_eq!(events.events_of::<StepCompleted>().len(), 1);
        assert_eq!(events.names()[0], "ExecutionStarted");
        assert_eq!(timeline.notes()[0], "told ExecutionStarted");
        assert!(events.envelopes().iter().zip(0..).all(|(it, number)| it.seq == number));
        events.clear();
        assert_eq!(events.names(), [""; 0]);
    }
}
