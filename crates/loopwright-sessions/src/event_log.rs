//! Agent events, stored beside their sessions.

use std::{fmt, pin::pin, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::future::{Either, select};
use loopwright_broadcast::{
    BroadcastConfig, BroadcastTransport, Broadcasting, EncodedEnvelope, Subscription,
    envelope_types,
};
use loopwright_core::{BoxError, Clock, EventSink};
use tokio_util::sync::CancellationToken;

use crate::{
    id::SessionId,
    store::{SessionLog, SessionStore},
};

/// How many envelopes are kept, if nothing else is said.
const KEPT: u64 = 10_000;

/// How many envelopes wait to be kept.
const WAITING: usize = 16_384;

/// How many envelopes are kept at once.
const BATCH: usize = 512;

/// How long fragments are gathered before they are kept.
const GATHERED: Duration = Duration::from_millis(50);

/// How long a run that has ended waits for what it told to be kept.
const PATIENCE: Duration = Duration::from_secs(5);

/// Stores envelopes in the event log of a session. Each is a log entry with the envelope's JSON,
/// numbered by the envelope's sequence number.
///
/// Fragments of a response that follow each other within 50 ms are stored as one entry.
///
/// [`SessionRuntime::with_event_log`](crate::SessionRuntime::with_event_log) does this for every
/// run of a session; programs that run agents themselves can use it as a transport.
#[derive(Clone)]
pub struct EventLog {
    store: Arc<dyn SessionStore>,
    id: SessionId,
    keep: u64,
}

impl EventLog {
    /// Stores the events of this session, the latest 10,000 envelopes.
    pub fn new(store: Arc<dyn SessionStore>, id: SessionId) -> Self {
        Self { store, id, keep: KEPT }
    }

    /// Sets the number of envelopes to keep; older ones may be deleted.
    #[must_use]
    pub fn with_capacity(self, keep: u64) -> Self {
        Self { keep, ..self }
    }
}

#[async_trait]
impl BroadcastTransport for EventLog {
    async fn broadcast(&self, _channel: &str, envelope: &EncodedEnvelope) -> Result<(), BoxError> {
        self.broadcast_all(std::slice::from_ref(envelope)).await
    }

    async fn broadcast_all(&self, envelopes: &[EncodedEnvelope]) -> Result<(), BoxError> {
        let notes: Vec<Arc<[u8]>> =
            envelopes.iter().map(|it| Arc::clone(it.json()).into()).collect();
        self.store.append_log(&self.id, SessionLog::Events, &notes, Some(self.keep)).await?;
        Ok(())
    }
}

impl fmt::Debug for EventLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventLog").field("session", &self.id).finish_non_exhaustive()
    }
}

/// Stores events while other work is done, in the same task.
pub(crate) struct LogWriter<L = EventLog> {
    broadcasting: Broadcasting,
    subscription: Subscription,
    log: L,
    clock: Arc<dyn Clock>,
}

impl<L: BroadcastTransport> LogWriter<L> {
    pub(crate) fn new(
        config: BroadcastConfig,
        session: &SessionId,
        log: L,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let broadcasting = Broadcasting::new(config).with_session(session.as_str());
        let subscription = broadcasting.subscribe(WAITING);
        Self { broadcasting, subscription, log, clock }
    }

    pub(crate) fn sink(&self) -> impl EventSink + 'static {
        self.broadcasting.clone()
    }

    /// Does some work, and stores the events meanwhile. The work never waits, but when it has
    /// ended, and not for long.
    pub(crate) async fn beside<T>(self, work: impl Future<Output = T>) -> T {
        let Self { broadcasting, mut subscription, log, clock } = self;
        let ended = CancellationToken::new();
        let keeping = pin!(keep(&mut subscription, &log, &*clock, &ended));
        match select(pin!(work), keeping).await {
            Either::Left((done, keeping)) => {
                broadcasting.close();
                ended.cancel();
                select(keeping, clock.sleep(PATIENCE)).await;
                done
            }
            Either::Right(((), work)) => work.await,
        }
    }
}

/// Stores events until the end. Fragments are gathered until `ended`.
async fn keep(
    subscription: &mut Subscription,
    log: &dyn BroadcastTransport,
    clock: &dyn Clock,
    ended: &CancellationToken,
) {
    while let Some(batch) = subscription.recv_many(BATCH).await {
        let batch = EncodedEnvelope::join_fragments(batch);
        // What cannot be kept is not followed; the run is what matters.
        let _is_kept = log.broadcast_all(&batch).await;
        if batch.iter().all(|it| it.kind() == envelope_types::STREAM_CHUNK) {
            select(clock.sleep(GATHERED), pin!(ended.cancelled())).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use loopwright_core::AgentState;
    use loopwright_testing::{
        FakeModel, FrozenClock, ModelDriver, block_on, run_until_stuck, test_loop,
    };

    use super::*;

    /// Never comes back.
    struct Gone;

    #[async_trait]
    impl BroadcastTransport for Gone {
        async fn broadcast(
            &self,
            _channel: &str,
            _envelope: &EncodedEnvelope,
        ) -> Result<(), BoxError> {
            std::future::pending().await
        }
    }

    /// Keeps everything at once.
    struct Quick;

    #[async_trait]
    impl BroadcastTransport for Quick {
        async fn broadcast(
            &self,
            _channel: &str,
            _envelope: &EncodedEnvelope,
        ) -> Result<(), BoxError> {
            Ok(())
        }
    }

    /// Notes what it is given.
    #[derive(Clone, Default)]
    struct Noting(Arc<Mutex<Vec<Vec<String>>>>);

    #[async_trait]
    impl BroadcastTransport for Noting {
        async fn broadcast(&self, channel: &str, it: &EncodedEnvelope) -> Result<(), BoxError> {
            panic!("{channel} {it:?}")
        }

        async fn broadcast_all(&self, envelopes: &[EncodedEnvelope]) -> Result<(), BoxError> {
            let contents = envelopes
                .iter()
                .filter_map(|it| Some(it.envelope()?.payload.get("content")?.as_str()?.to_owned()));
            self.0.lock().unwrap().push(contents.collect());
            Ok(())
        }
    }

    #[test]
    fn fragments_that_wait_together_are_one_entry() {
        let (session, clock) = (SessionId::new("s").unwrap(), FrozenClock::manual());
        let noting = Noting::default();
        let (config, log) = (BroadcastConfig::standard(), noting.clone());
        let telling = LogWriter::new(config, &session, log, Arc::new(clock.clone()));
        let model = FakeModel::script(["hello"]).with_fragment_size(1).with_yields(2);
        let agent = test_loop(ModelDriver::new(model));
        let agent = agent.with_event_sink(Arc::new(telling.sink()));
        let run = agent.execute(AgentState::new().with_user_message("go"));
        assert!(run_until_stuck(telling.beside(run)).is_some());
        let noted = noting.0.lock().unwrap().clone();
        let texts: Vec<&str> = noted.iter().flatten().map(String::as_str).collect();
        assert_eq!(texts, ["hello", ""]);
    }

    #[test]
    fn a_run_that_is_over_does_not_wait_until_fragments_are_gathered() {
        let (session, clock) = (SessionId::new("s").unwrap(), FrozenClock::manual());
        let clock: Arc<dyn Clock> = Arc::new(clock);
        let telling =
            LogWriter::new(BroadcastConfig::standard(), &session, Quick, Arc::clone(&clock));
        let model = FakeModel::script(["hello"]).with_fragment_size(1).with_yields(2);
        let agent = test_loop(ModelDriver::new(model));
        let agent = agent.with_event_sink(Arc::new(telling.sink()));
        let run = agent.execute(AgentState::new().with_user_message("go"));
        let done = run_until_stuck(telling.beside(run)).map(|state| state.text());
        assert_eq!(done.as_deref(), Some("hello"));
    }

    #[test]
    fn a_log_that_never_answers_costs_the_run_nothing() {
        let (session, clock) = (SessionId::new("s").unwrap(), FrozenClock::new());
        let telling =
            LogWriter::new(BroadcastConfig::standard(), &session, Gone, Arc::new(clock.clone()));
        let agent = test_loop(ModelDriver::new(FakeModel::script(["hello"]).with_fragment_size(1)));
        let agent = agent.with_event_sink(Arc::new(telling.sink()));
        let run = agent.execute(AgentState::new().with_user_message("go"));
        assert_eq!(block_on(telling.beside(run)).text(), "hello");
        assert_eq!(clock.monotonic(), PATIENCE);
    }
}
