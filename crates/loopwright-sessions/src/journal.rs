//! The journal of a run that belongs to a session.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use loopwright_agent::AgentDefinition;
use loopwright_core::{
    Change, ChangeRecord, Clock, Edit, IdempotencyKey, Journal, JournalError, Seq,
    messages::{Message, SectionName},
};

use crate::{
    error::SessionError,
    header::SessionHeader,
    id::SessionId,
    repository::SessionRepository,
    status::SessionStatus,
    store::{
        AppendRequest, ChangeBatch, ControlMessage, Lease, LoadedSession, NewSession, Posted,
        SessionStore, StoreError,
    },
    stored::written_at,
};

/// Keeps the changes of a run in a store, under a lease.
pub(crate) struct StoreJournal {
    store: Arc<dyn SessionStore>,
    clock: Arc<dyn Clock>,
    place: Mutex<Place>,
    /// Why the last append failed, in the store's own terms.
    failure: Mutex<Option<StoreError>>,
    received: Mutex<Received>,
}

/// Control messages that were collected. The store has them until a write handles them.
#[derive(Default)]
struct Received {
    /// The number of the last one.
    last: u64,
    /// Those that no write has handled, in their order.
    unhandled: VecDeque<(u64, HandledBy)>,
}

/// The write that handles a control message.
enum HandledBy {
    /// The one that keeps this message.
    Message(Message),
    /// A request to stop or cancel.
    Request {
        /// `true`: the one that keeps the end of the execution. `false`: the next one, since no run heeds the request.
        is_heeded: bool,
    },
    /// The next one.
    Any,
}

/// Where the next batch goes.
#[derive(Clone)]
struct Place {
    header: SessionHeader,
    lease: Option<Lease>,
    /// What the next write changes of the header.
    news: News,
    /// The agent, as long as the session is not created.
    definition: Option<AgentDefinition>,
}

/// What changes of a header; nothing is said of what stays as it was.
#[derive(Clone, Debug, Default)]
pub(crate) struct News {
    status: Option<SessionStatus>,
    title: Option<Arc<str>>,
    workdir: Option<Arc<str>>,
    parent: Option<SessionId>,
}

impl News {
    /// Compares a header with what is kept of it.
    pub(crate) fn of(header: &SessionHeader, kept: &SessionHeader) -> Self {
        fn new<T: Clone + PartialEq>(wanted: Option<&T>, kept: Option<&T>) -> Option<T> {
            wanted.filter(|_| wanted != kept).cloned()
        }
        Self {
            status: (header.status != kept.status).then_some(header.status),
            title: new(header.title.as_ref(), kept.title.as_ref()),
            workdir: new(header.workdir.as_ref(), kept.workdir.as_ref()),
            parent: new(header.parent.as_ref(), kept.parent.as_ref()),
        }
    }

    /// Changes a header.
    fn apply(self, header: &mut SessionHeader) {
        header.status = self.status.unwrap_or(header.status);
        header.title = self.title.or_else(|| header.title.take());
        header.workdir = self.workdir.or_else(|| header.workdir.take());
        header.parent = self.parent.or_else(|| header.parent.take());
    }
}

impl StoreJournal {
    /// Continues a session, or creates it with the first batch if the agent's definition is given.
    pub(crate) fn new(
        repository: &SessionRepository,
        header: SessionHeader,
        lease: Option<Lease>,
        definition: Option<AgentDefinition>,
    ) -> Self {
        let (store, clock) = (Arc::clone(&repository.store), Arc::clone(&repository.clock));
        let place = Place { header, lease, news: News::default(), definition };
        let (place, failure, received) = (Mutex::new(place), Mutex::default(), Mutex::default());
        Self { store, clock, place, failure, received }
    }

    /// Returns the header as it was written last.
    pub(crate) fn header(&self) -> SessionHeader {
        self.place().header.clone()
    }

    /// Returns the right to write, as it was renewed last.
    pub(crate) fn lease(&self) -> Option<Lease> {
        self.place().lease.clone()
    }

    pub(crate) fn set_lease(&self, lease: Lease) {
        self.place().lease = Some(lease);
    }

    /// Notes what the next write changes of the header.
    pub(crate) fn note(&self, news: News) {
        self.place().news = news;
    }

    /// Returns those of the collected control messages that are new. Requests among them are heeded by a run.
    pub(crate) fn receive(&self, mut posted: Vec<Posted>) -> Vec<Posted> {
        let mut received = self.received();
        posted.retain(|it| it.number > received.last);
        for Posted { number, wish } in &posted {
            let handled_by = match wish {
                ControlMessage::SendMessage(message) if message.is_empty() => HandledBy::Any,
                ControlMessage::SendMessage(message) => HandledBy::Message(message.clone()),
                ControlMessage::Stop | ControlMessage::Cancel => {
                    HandledBy::Request { is_heeded: true }
                }
            };
            received.last = *number;
            received.unhandled.push_back((*number, handled_by));
        }
        posted
    }

    /// Decides which of the collected requests to stop or cancel a run heeds: those after the control message with
    /// this number. They stay in the store until the end of the execution is kept.
    pub(crate) fn heed_after(&self, number: u64) {
        for (at, handled_by) in &mut self.received().unhandled {
            if let HandledBy::Request { is_heeded } = handled_by {
                *is_heeded = *at > number;
            }
        }
    }

    /// Returns how many control messages are handled once changes are kept, and the number of the last one.
    fn handled_by(&self, changes: &[ChangeRecord]) -> (usize, Option<u64>) {
        let has_ended = changes.iter().any(|it| matches!(it.change, Change::ExecutionEnded(_)));
        let mut kept = changes.iter().filter_map(|it| message_of(&it.change));
        let received = self.received();
        let is_handled = |(_, by): &&(u64, HandledBy)| match by {
            HandledBy::Message(message) => kept.any(|it| it == message),
            HandledBy::Request { is_heeded } => has_ended || !is_heeded,
            HandledBy::Any => true,
        };
        let handled = received.unhandled.iter().take_while(is_handled);
        handled.fold((0, None), |(count, _), (number, _)| (count + 1, Some(*number)))
    }

    /// Writes a batch, which may be empty, and what was noted.
    pub(crate) async fn write(&self, batch: ChangeBatch<'_>) -> Result<(), StoreError> {
        let Place { mut header, lease, news, definition } = self.place().clone();
        let now = self.clock.now();
        if let Some(definition) = &definition {
            news.apply(&mut header);
            let new = NewSession { header: &header, definition, changes: batch.changes };
            let header = self.store.create(new).await?;
            *self.place() = Place { header, lease, news: News::default(), definition: None };
            return Ok(());
        }
        let News { status, title, workdir, parent } = &news;
        let (status, title) = (*status, title.as_ref());
        let (workdir, parent) = (workdir.as_ref(), parent.as_ref());
        let (id, expected, lease) = (&header.id, header.version, lease.as_ref());
        let (count, handled) = self.handled_by(batch.changes);
        let write = AppendRequest {
            id,
            expected,
            batch,
            status,
            title,
            workdir,
            parent,
            handled,
            lease,
            now,
        };
        let version = self.store.append(write).await?;
        self.received().unhandled.drain(..count);
        let mut place = self.place();
        let place = &mut *place;
        place.header.version = version;
        place.header.length += batch.changes.len() as u64;
        place.header.updated_at = written_at(place.header.updated_at, now);
        std::mem::take(&mut place.news).apply(&mut place.header);
        Ok(())
    }

    /// Returns why an append failed.
    pub(crate) fn failed(&self, error: JournalError) -> SessionError {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        failure.map_or(SessionError::Journal(error), SessionError::Store)
    }

    fn received(&self) -> MutexGuard<'_, Received> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns what somebody says with a change.
fn message_of(change: &Change) -> Option<&Message> {
    match change {
        Change::MessageSteered(message) => Some(message),
        Change::StateEdited { edit: Edit::Append { section, message }, .. }
            if section.as_str() == SectionName::MESSAGES =>
        {
            Some(message)
        }
        _ => None,
    }
}

#[async_trait]
impl Journal for StoreJournal {
    async fn append(&self, first: Seq, changes: &[ChangeRecord]) -> Result<(), JournalError> {
        self.write(ChangeBatch { first, changes }).await.map_err(|error| {
            let told = match &error {
                StoreError::Conflict { .. } | StoreError::Exists(_) | StoreError::NotFound(_) => {
                    JournalError::Conflict
                }
                StoreError::LeaseLost(_) | StoreError::Busy { .. } => JournalError::LeaseLost,
                error => JournalError::Unavailable(error.to_string().into()),
            };
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            told
        })
    }

    /// Those of the session, which is found in the store if this journal did not create it.
    async fn load_changes(&self) -> Result<Vec<ChangeRecord>, JournalError> {
        let id = self.header().id;
        let loaded = self.store.load(&id).await;
        let loaded = loaded.map_err(|error| JournalError::Unavailable(error.into()))?;
        let Some(LoadedSession { header, changes, .. }) = loaded else { return Ok(Vec::new()) };
        let mut place = self.place();
        (place.header, place.definition) = (header, None);
        Ok(changes)
    }

    /// The session of a sub-agent is named after its parent and the call.
    fn child(&self, call: &IdempotencyKey) -> Arc<dyn Journal> {
        let parent = self.header();
        let repository =
            SessionRepository { store: Arc::clone(&self.store), clock: Arc::clone(&self.clock) };
        let id = SessionId::derived(&format!("{}/{call}", parent.id));
        let header = SessionHeader {
            parent: Some(parent.id),
            call: Some(call.to_string().into()),
            workdir: parent.workdir,
            ..SessionHeader::new(id, parent.agent_name, self.clock.now())
        };
        Arc::new(Self::new(&repository, header, None, Some(AgentDefinition::default())))
    }
}

impl fmt::Debug for StoreJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreJournal").field("session", &self.header().id).finish_non_exhaustive()
    }
}
