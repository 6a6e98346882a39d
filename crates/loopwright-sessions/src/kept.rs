//! Sessions that a process keeps in memory once it has used them.

use std::{
    collections::{BTreeMap, HashMap},
    fmt, io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use loopwright_core::ChangeRecord;
use sha2::{Digest as _, Sha256};

use crate::{
    error::SessionError,
    id::SessionId,
    session::AgentSession,
    store::{SessionStore, StoreError},
};

/// The limits of a [`SessionCache`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLimits {
    /// The maximum number of sessions; 64 by default. With 0, nothing is kept.
    pub sessions: usize,
    /// The maximum size of all their changes, as JSON, in bytes; 256 MiB by default.
    pub bytes: usize,
}

impl Default for CacheLimits {
    fn default() -> Self {
        Self { sessions: 64, bytes: 256 << 20 }
    }
}

/// The sessions of one store that a process used last, without their changes: it reads only what was written since, so that the
/// next action on a long session costs no more than on a short one. Clones are the same cache.
///
/// A kept session is used only if the store confirms that its branch is still the current one and continues where the kept
/// session ends; if not, all of it is loaded. So a write of another process, a rewind and a deletion are always seen.
#[derive(Clone, Default)]
pub struct SessionCache(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    limits: CacheLimits,
    sessions: HashMap<SessionId, (u64, KeptSession)>,
    /// The sessions in the order of their last use.
    order: BTreeMap<u64, SessionId>,
    /// The number of uses.
    uses: u64,
    bytes: usize,
}

/// A session, and how its history ends.
#[derive(Clone, Debug)]
pub(crate) struct KeptSession {
    pub(crate) session: AgentSession,
    pub(crate) end: HistoryEnd,
}

/// The end of a history, by which its continuation is recognized.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HistoryEnd {
    /// The hash of the last change; `None` without one.
    last: Option<[u8; 32]>,
    /// The size of all changes.
    bytes: usize,
}

impl SessionCache {
    /// Creates an empty cache. Use it for sessions of one store only.
    pub fn new(limits: CacheLimits) -> Self {
        Self(Arc::new(Mutex::new(Kept { limits, ..Kept::default() })))
    }

    /// Returns the number of sessions.
    pub fn len(&self) -> usize {
        self.kept().sessions.len()
    }

    /// Returns `true` if there are no sessions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the size of all their changes, as JSON, in bytes.
    pub fn bytes(&self) -> usize {
        self.kept().bytes
    }

    /// Returns a session as the store has it. Reads only what is new if the session is kept. A session that is not kept is loaded
    /// and not added.
    ///
    /// # Errors
    ///
    /// Returns an error if the session does not exist or cannot be read.
    pub async fn load(
        &self,
        store: &dyn SessionStore,
        id: &SessionId,
    ) -> Result<AgentSession, SessionError> {
        if let Some(kept) = self.updated(store, id).await? {
            let session = kept.session.clone();
            self.put(kept);
            return Ok(session);
        }
        Ok(loaded(store, id).await?.session)
    }

    /// Returns a session as the store has it, and keeps it for the action that follows. Reads only what is new if it is kept.
    ///
    /// # Errors
    ///
    /// As for [`load`](SessionCache::load).
    pub async fn open(
        &self,
        store: &dyn SessionStore,
        id: &SessionId,
    ) -> Result<AgentSession, SessionError> {
        let kept = self.take(store, id).await?;
        let session = kept.session.clone();
        self.put(kept);
        Ok(session)
    }

    /// Takes a session out of the cache, or loads it.
    pub(crate) async fn take(
        &self,
        store: &dyn SessionStore,
        id: &SessionId,
    ) -> Result<KeptSession, SessionError> {
        match self.updated(store, id).await? {
            Some(kept) => Ok(kept),
            None => loaded(store, id).await,
        }
    }

    /// Takes a session out of the cache, with what was written since then. Returns `None` if it is not kept, or has to be loaded.
    async fn updated(
        &self,
        store: &dyn SessionStore,
        id: &SessionId,
    ) -> Result<Option<KeptSession>, StoreError> {
        let kept = self.kept().remove(id);
        let Some(KeptSession { session, mut end }) = kept else { return Ok(None) };
        // The last known change is read again: it shows that what follows continues this history.
        let (branch, first) = (session.header.branch, session.header.length.saturating_sub(1));
        let Some((header, mut changes)) = store.load_from(id, branch, first).await? else {
            return Ok(None);
        };
        let is_same = header.created_at == session.header.created_at
            && header.version >= session.header.version;
        let rest = changes.split_off(changes.len().min(usize::from(session.header.length > 0)));
        if !is_same || HistoryEnd::of(&changes).last != end.last {
            return Ok(None);
        }
        end.extend(&rest);
        let AgentSession { definition, state, .. } = session;
        let Ok(state) = state.replay(rest) else { return Ok(None) };
        let (header, state) = (header.into(), state.into());
        Ok(Some(KeptSession { session: AgentSession { header, definition, state }, end }))
    }

    /// Keeps a session as it was saved. A version that is already older than the kept one is dropped.
    pub(crate) fn put(&self, kept: KeptSession) {
        let AgentSession { header, state, .. } = &kept.session;
        // What a store has leads to what is kept.
        if state.seq() == header.length && state.unsaved_changes().next().is_none() {
            self.kept().put(kept);
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn put(&mut self, kept: KeptSession) {
        let CacheLimits { sessions: most, bytes: largest } = self.limits;
        let (id, bytes) = (kept.session.header.id.clone(), kept.end.bytes);
        if let Some(newer) = self.remove(&id)
            && newer.session.header.version > kept.session.header.version
        {
            return self.put(newer);
        }
        if most == 0 || bytes > largest {
            return;
        }
        self.uses += 1;
        self.bytes += bytes;
        self.order.insert(self.uses, id.clone());
        self.sessions.insert(id, (self.uses, kept));
        while self.sessions.len() > most || self.bytes > largest {
            let Some((_, oldest)) = self.order.pop_first() else { return };
            self.remove(&oldest);
        }
    }

    fn remove(&mut self, id: &SessionId) -> Option<KeptSession> {
        let (used, kept) = self.sessions.remove(id)?;
        self.order.remove(&used);
        self.bytes -= kept.end.bytes;
        Some(kept)
    }
}

impl HistoryEnd {
    /// Returns the end of a history with these changes.
    pub(crate) fn of(changes: &[ChangeRecord]) -> Self {
        let mut end = Self::default();
        end.extend(changes);
        end
    }

    /// Adds changes.
    pub(crate) fn extend(&mut self, changes: &[ChangeRecord]) {
        let Some((last, before)) = changes.split_last() else { return };
        for record in before {
            let mut size = Size(0);
            // Nothing fails here that did not fail when it was stored.
            let _counted = serde_json::to_writer(&mut size, record);
            self.bytes += size.0;
        }
        let text = serde_json::to_vec(last).unwrap_or_default();
        self.bytes += text.len();
        self.last = Some(Sha256::digest(&text).into());
    }
}

/// Counts what is written to it.
struct Size(usize);

impl io::Write for Size {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

async fn loaded(store: &dyn SessionStore, id: &SessionId) -> Result<KeptSession, SessionError> {
    let loaded = store.load(id).await?.ok_or_else(|| StoreError::NotFound(id.clone()))?;
    let end = HistoryEnd::of(&loaded.changes);
    Ok(KeptSession { session: AgentSession::from_loaded(loaded)?, end })
}

impl fmt::Debug for SessionCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = self.kept();
        f.debug_struct("SessionCache")
            .field("limits", &kept.limits)
            .field("sessions", &kept.sessions.len())
            .field("bytes", &kept.bytes)
            .finish()
    }
}
