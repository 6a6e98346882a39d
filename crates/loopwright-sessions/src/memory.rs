//! A store in memory.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use loopwright_agent::AgentDefinition;
use loopwright_core::{Seq, Stamped, Timestamp};

use crate::{
    header::{ForkPoint, SessionHeader, SessionList, SessionQuery},
    id::SessionId,
    status::SessionStatus,
    store::{Batch, Lease, Loaded, NewSession, SessionStore, StoreError, Wish, Write},
};

/// A store in memory: it lasts as long as the process. Clones are the same store.
///
/// It keeps what other stores keep, in the form in which they keep it, so that what does not survive
/// being stored is found out here as well.
#[derive(Clone, Default)]
pub struct MemoryStore(Arc<Mutex<Sessions>>);

type Sessions = BTreeMap<SessionId, Kept>;

struct Kept {
    header: SessionHeader,
    definition: String,
    lines: Vec<Line>,
    last: Option<LastWrite>,
    lease: Option<Lease>,
    leases: u64,
    wishes: Vec<Wish>,
}

/// Changes in a row, and where they leave another line.
#[derive(Default)]
struct Line {
    from: Option<ForkPoint>,
    changes: Vec<String>,
}

/// The last write: what it takes to tell whether a write is the same one.
struct LastWrite {
    expected: u64,
    first: Seq,
    changes: Vec<String>,
}

impl MemoryStore {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn kept_mut<'a>(sessions: &'a mut Sessions, id: &SessionId) -> Result<&'a mut Kept, StoreError> {
    let found = sessions.get_mut(id).filter(|it| it.header.status != SessionStatus::Deleted);
    found.ok_or_else(|| StoreError::NotFound(id.clone()))
}

fn stored(id: &SessionId, value: &impl serde::Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value)
        .map_err(|error| StoreError::Corrupt { id: id.clone(), reason: error.to_string() })
}

fn read<T: serde::de::DeserializeOwned>(id: &SessionId, text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text)
        .map_err(|error| StoreError::Corrupt { id: id.clone(), reason: error.to_string() })
}

/// Returns the changes of a line up to some number, those of the lines that it leaves first.
fn texts<'a>(sessions: &'a Sessions, header: &SessionHeader) -> Vec<&'a str> {
    let mut pieces = Vec::new();
    let mut place = (header.id.clone(), header.line, header.length);
    loop {
        let (id, line, until) = &place;
        let Some(line) = sessions.get(id).and_then(|it| it.lines.get(*line as usize)) else {
            break;
        };
        let base = line.from.as_ref().map_or(0, |from| from.at);
        let own = usize::try_from(until.saturating_sub(base)).unwrap_or(usize::MAX);
        pieces.push(&line.changes[..own.min(line.changes.len())]);
        let Some(from) = &line.from else { break };
        place = (from.session.clone(), from.line, from.at.min(*until));
    }
    pieces.iter().rev().flat_map(|piece| piece.iter().map(String::as_str)).collect()
}

impl Kept {
    /// Checks that a writer may write now.
    fn check_lease(&self, lease: Option<&Lease>, now: Timestamp) -> Result<(), StoreError> {
        let id = &self.header.id;
        match (&self.lease, lease) {
            (Some(held), Some(shown)) if held.number == shown.number => Ok(()),
            (_, Some(_)) => Err(StoreError::LeaseLost(id.clone())),
            (Some(held), None) if held.until > now => Err(busy(held)),
            (_, None) => Ok(()),
        }
    }

    fn check_version(&self, expected: u64) -> Result<(), StoreError> {
        let (id, found) = (self.header.id.clone(), self.header.version);
        if expected == found { Ok(()) } else { Err(StoreError::Conflict { id, expected, found }) }
    }
}

fn busy(held: &Lease) -> StoreError {
    let Lease { id, owner, until, .. } = held.clone();
    StoreError::Busy { id, owner, until }
}

#[async_trait]
impl SessionStore for MemoryStore {
    async fn create(&self, new: NewSession<'_>) -> Result<SessionHeader, StoreError> {
        let mut sessions = self.sessions();
        let mut header = new.header.clone();
        let id = header.id.clone();
        if sessions.contains_key(&id) {
            return Err(StoreError::Exists(id));
        }
        let mut base = 0;
        if let Some(from) = &header.from {
            let source = kept_mut(&mut sessions, &from.session)?;
            let has = from.line == source.header.line && from.at <= source.header.length;
            if !has {
                return Err(StoreError::NotFound(from.session.clone()));
            }
            base = from.at;
        }
        let changes = new.changes.iter().map(|it| stored(&id, it));
        let changes = changes.collect::<Result<Vec<_>, _>>()?;
        (header.version, header.line) = (1, 0);
        header.length = base + changes.len() as u64;
        let kept = Kept {
            definition: stored(&id, new.definition)?,
            lines: vec![Line { from: header.from.clone(), changes }],
            header: header.clone(),
            last: None,
            lease: None,
            leases: 0,
            wishes: Vec::new(),
        };
        sessions.insert(id, kept);
        Ok(header)
    }

    async fn header(&self, id: &SessionId) -> Result<Option<SessionHeader>, StoreError> {
        Ok(self.sessions().get(id).map(|it| it.header.clone()))
    }

    async fn load(&self, id: &SessionId) -> Result<Option<Loaded>, StoreError> {
        let sessions = self.sessions();
        let Some(kept) = sessions.get(id) else { return Ok(None) };
        if kept.header.status == SessionStatus::Deleted {
            return Ok(None);
        }
        let changes = texts(&sessions, &kept.header).into_iter().map(|text| read(id, text));
        Ok(Some(Loaded {
            header: kept.header.clone(),
            definition: read::<AgentDefinition>(id, &kept.definition)?,
            changes: changes.collect::<Result<Vec<Stamped>, _>>()?,
        }))
    }

    async fn append(&self, write: Write<'_>) -> Result<u64, StoreError> {
        let mut sessions = self.sessions();
        let kept = kept_mut(&mut sessions, write.id)?;
        let Batch { first, changes } = write.batch;
        let changes = changes.iter().map(|it| stored(write.id, it));
        let changes = changes.collect::<Result<Vec<_>, _>>()?;
        kept.check_lease(write.lease, write.now)?;
        let is_again = kept.last.as_ref().is_some_and(|last| {
            last.expected == write.expected && last.first == first && last.changes == changes
        });
        if is_again && kept.header.version == write.expected + 1 {
            return Ok(kept.header.version);
        }
        kept.check_version(write.expected)?;
        if first != kept.header.length && !changes.is_empty() {
            let (id, expected) = (write.id.clone(), write.expected);
            return Err(StoreError::Conflict { id, expected, found: kept.header.version });
        }
        kept.header.length += changes.len() as u64;
        kept.header.version += 1;
        kept.header.updated_at = write.now;
        kept.header.status = write.status.unwrap_or(kept.header.status);
        if let Some(title) = write.title {
            kept.header.title = Some(Arc::clone(title));
        }
        if let Some(line) = kept.lines.last_mut() {
            line.changes.extend(changes.iter().cloned());
        }
        kept.last = Some(LastWrite { expected: write.expected, first, changes });
        Ok(kept.header.version)
    }

    async fn rewind(
        &self,
        id: &SessionId,
        expected: u64,
        at: Seq,
        lease: Option<&Lease>,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let mut sessions = self.sessions();
        let kept = kept_mut(&mut sessions, id)?;
        kept.check_lease(lease, now)?;
        kept.check_version(expected)?;
        if at > kept.header.length {
            return Err(StoreError::NotFound(id.clone()));
        }
        let from = ForkPoint { session: id.clone(), line: kept.header.line, at };
        kept.lines.push(Line { from: Some(from.clone()), changes: Vec::new() });
        kept.header.line += 1;
        kept.header.from = Some(from);
        kept.header.length = at;
        kept.header.version += 1;
        kept.header.updated_at = now;
        kept.last = None;
        Ok(kept.header.version)
    }

    async fn list(&self, query: &SessionQuery) -> Result<SessionList, StoreError> {
        let sessions = self.sessions();
        Ok(SessionList::of(query, sessions.values().map(|it| it.header.clone())))
    }

    async fn delete(&self, id: &SessionId, now: Timestamp) -> Result<(), StoreError> {
        let mut sessions = self.sessions();
        if let Ok(kept) = kept_mut(&mut sessions, id) {
            kept.header.status = SessionStatus::Deleted;
            kept.header.version += 1;
            kept.header.updated_at = now;
            kept.lease = None;
            kept.wishes.clear();
        }
        Ok(())
    }

    async fn lease(
        &self,
        id: &SessionId,
        owner: &str,
        now: Timestamp,
        lasts: Duration,
    ) -> Result<Lease, StoreError> {
        let mut sessions = self.sessions();
        let kept = kept_mut(&mut sessions, id)?;
        if let Some(held) = kept.lease.as_ref().filter(|held| held.until > now) {
            return Err(busy(held));
        }
        kept.leases += 1;
        let (id, number, until) = (id.clone(), kept.leases, now.plus(lasts));
        let lease = Lease { id, owner: owner.into(), number, until };
        kept.lease = Some(lease.clone());
        Ok(lease)
    }

    async fn renew(
        &self,
        lease: &Lease,
        now: Timestamp,
        lasts: Duration,
    ) -> Result<Lease, StoreError> {
        let lost = || StoreError::LeaseLost(lease.id.clone());
        let mut sessions = self.sessions();
        let kept = kept_mut(&mut sessions, &lease.id).map_err(|_| lost())?;
        let held = kept.lease.as_mut().filter(|held| held.number == lease.number);
        let held = held.ok_or_else(lost)?;
        held.until = now.plus(lasts);
        Ok(held.clone())
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        let mut sessions = self.sessions();
        if let Ok(kept) = kept_mut(&mut sessions, &lease.id) {
            kept.lease.take_if(|held| held.number == lease.number);
        }
        Ok(())
    }

    async fn post(&self, id: &SessionId, wish: &Wish) -> Result<(), StoreError> {
        let mut sessions = self.sessions();
        kept_mut(&mut sessions, id)?.wishes.push(wish.clone());
        Ok(())
    }

    async fn collect(&self, lease: &Lease) -> Result<Vec<Wish>, StoreError> {
        let lost = || StoreError::LeaseLost(lease.id.clone());
        let mut sessions = self.sessions();
        let kept = kept_mut(&mut sessions, &lease.id).map_err(|_| lost())?;
        if kept.lease.as_ref().is_none_or(|held| held.number != lease.number) {
            return Err(lost());
        }
        Ok(std::mem::take(&mut kept.wishes))
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryStore({} sessions)", self.sessions().len())
    }
}
