//! The journal of a run that belongs to a session.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use loopwright_agent::AgentDefinition;
use loopwright_core::{
    Change, ChangeRecord, Clock, Edit, IdempotencyKey, Journal, JournalError, Seq, Timestamp,
    messages::{Message, SectionName},
};

use crate::{
    error::SessionError,
    header::SessionHeader,
    id::SessionId,
    kept::HistoryEnd,
    owner::Owner,
    repository::SessionRepository,
    status::SessionStatus,
    store::{
        AppendRequest, ChangeBatch, ControlMessage, Lease, LoadedSession, NewSession, Posted,
        SessionStore, StoreError,
    },
    stored::written_at,
    subagents::SubagentLeases,
};

/// Keeps the changes of a run in a store, under a lease.
pub(crate) struct StoreJournal {
    store: Arc<dyn SessionStore>,
    clock: Arc<dyn Clock>,
    role: Role,
    place: Mutex<Place>,
    /// Why the last append failed, in the store's own terms.
    failure: Mutex<Option<StoreError>>,
    received: Mutex<Received>,
    /// The end of the history, if the session is to be kept in memory.
    end: Mutex<Option<HistoryEnd>>,
}

/// Whose changes a journal keeps.
enum Role {
    /// Those of the run, which may have sub-agents.
    Run(Option<Arc<SubagentLeases>>),
    /// Those of a sub-agent of the run.
    Subagent(Option<Arc<SubagentLeases>>),
}

impl Role {
    /// Returns the leases on the sessions of sub-agents, or `None` if the session of the run has no
    /// lease.
    fn leases(&self) -> Option<&Arc<SubagentLeases>> {
        match self {
            Self::Run(leases) | Self::Subagent(leases) => leases.as_ref(),
        }
    }
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
        let (role, end) = (Role::Run(None), Mutex::default());
        Self { store, clock, role, place, failure, received, end }
    }

    /// Takes leases on the sessions of sub-agents.
    pub(crate) fn with_subagents(self, leases: Arc<SubagentLeases>) -> Self {
        Self { role: Role::Run(Some(leases)), ..self }
    }

    /// Follows the end of the history from here on.
    pub(crate) fn with_end(self, end: Option<HistoryEnd>) -> Self {
        Self { end: Mutex::new(end), ..self }
    }

    /// Returns the end of the history as it was written last, if it is followed.
    pub(crate) fn end(&self) -> Option<HistoryEnd> {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the leases on the sessions of sub-agents for longer.
    pub(crate) async fn renew_subagents(&self, now: Timestamp) {
        if let Some(leases) = self.role.leases() {
            leases.renew(now).await;
        }
    }

    /// Returns the lease of a sub-agent's session, which is taken if need be.
    async fn subagent_lease(&self, id: &SessionId) -> Result<Option<Lease>, StoreError> {
        match &self.role {
            Role::Subagent(Some(leases)) => leases.lease(id).await.map(Some),
            _ => Ok(None),
        }
    }

    /// Gives the lease of a sub-agent's session back where its run ends.
    async fn release_at_end(&self, id: &SessionId, last: Option<&ChangeRecord>) {
        let ends = matches!(
            last.map(|it| &it.change),
            Some(Change::ExecutionEnded(_) | Change::ExecutionPaused)
        );
        if let (Role::Subagent(Some(leases)), true) = (&self.role, ends) {
            leases.release(id).await;
        }
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
        for Posted { number, control } in &posted {
            let handled_by = match control {
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
            let id = header.id.clone();
            *self.place() = Place { header, lease, news: News::default(), definition: None };
            self.subagent_lease(&id).await?;
            self.release_at_end(&id, batch.changes.last()).await;
            return Ok(());
        }
        let lease = match self.subagent_lease(&header.id).await? {
            Some(lease) => Some(lease),
            None => lease,
        };
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
        if let Some(end) = &mut *self.end.lock().unwrap_or_else(PoisonError::into_inner) {
            end.extend(batch.changes);
        }
        self.release_at_end(id, batch.changes.last()).await;
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

/// Says who uses the session of a sub-agent.
fn in_use(error: &StoreError) -> JournalError {
    let told = match error {
        StoreError::Busy { id, owner, until } => {
            let holder = Owner::describe(owner);
            format!("{holder} holds session `{id}` until at least {until}")
        }
        error => error.to_string(),
    };
    JournalError::InUse(told.into())
}

/// Returns the message of a change.
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
                StoreError::Busy { .. } if matches!(self.role, Role::Subagent(_)) => in_use(&error),
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
        match self.subagent_lease(&id).await {
            Err(error @ StoreError::Busy { .. }) => return Err(in_use(&error)),
            Err(StoreError::NotFound(_)) => return self.never_begun(&id).await,
            taken => taken.map_err(|error| JournalError::Unavailable(error.into()))?,
        };
        let loaded = self.store.load(&id).await;
        let loaded = loaded.map_err(|error| JournalError::Unavailable(error.into()))?;
        let Some(LoadedSession { header, changes, .. }) = loaded else {
            return self.never_begun(&id).await;
        };
        {
            let mut place = self.place();
            (place.header, place.definition) = (header, None);
        }
        self.release_at_end(&id, changes.last()).await;
        Ok(changes)
    }

    /// The session of a sub-agent is named after its parent and the call.
    fn child(&self, call: &IdempotencyKey) -> Arc<dyn Journal> {
        let (parent, call) = (self.header(), Arc::<str>::from(call.to_string()));
        let repository =
            SessionRepository { store: Arc::clone(&self.store), clock: Arc::clone(&self.clock) };
        let id = parent.subagent_id(&call);
        let new = SessionHeader::new(id, Arc::clone(&parent.agent_name), self.clock.now());
        let header = parent.subagent(&call, new);
        let journal = Self::new(&repository, header, None, Some(AgentDefinition::default()));
        Arc::new(Self { role: Role::Subagent(self.role.leases().cloned()), ..journal })
    }
}

impl StoreJournal {
    /// Returns that there are no changes of a session that cannot be loaded, unless it was deleted.
    async fn never_begun(&self, id: &SessionId) -> Result<Vec<ChangeRecord>, JournalError> {
        match self.store.header(id).await {
            Ok(None) => Ok(Vec::new()),
            Ok(Some(_)) => Err(JournalError::Lost),
            Err(error) => Err(JournalError::Unavailable(error.into())),
        }
    }
}

impl fmt::Debug for StoreJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreJournal").field("session", &self.header().id).finish_non_exhaustive()
    }
}
