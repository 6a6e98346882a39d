//! Loading and saving the sessions of a runtime.

use std::sync::Arc;

use crate::{
    error::SessionError,
    event::{SessionEvent, SessionSnapshot},
    hook::SessionStage,
    id::SessionId,
    journal::StoreJournal,
    kept::{HistoryEnd, KeptSession},
    runtime::SessionRuntime,
    session::AgentSession,
};

impl SessionRuntime {
    /// Returns a session.
    ///
    /// # Errors
    ///
    /// Returns an error if it does not exist or cannot be read.
    pub async fn session(&self, id: &SessionId) -> Result<AgentSession, SessionError> {
        self.load(id).await
    }

    pub(super) async fn load(&self, id: &SessionId) -> Result<AgentSession, SessionError> {
        let loaded = async {
            let session = self.repository.load(id).await?;
            self.pass(SessionStage::AfterLoad, session).await
        };
        let loaded = loaded.await;
        self.told_as_loaded(id, loaded)
    }

    /// Loads a session on which this runtime has a lease. Reads only what is new if the session is kept, and returns the end of its
    /// history if it is to be kept.
    pub(super) async fn load_leased(
        &self,
        id: &SessionId,
    ) -> Result<(AgentSession, Option<HistoryEnd>), SessionError> {
        let Some(cache) = &self.cache else { return Ok((self.load(id).await?, None)) };
        let mut history = None;
        let loaded = async {
            let KeptSession { session, end } = cache.take(&**self.store(), id).await?;
            history = Some(end);
            self.pass(SessionStage::AfterLoad, session).await
        };
        let loaded = loaded.await;
        Ok((self.told_as_loaded(id, loaded)?, history))
    }

    fn told_as_loaded(
        &self,
        id: &SessionId,
        loaded: Result<AgentSession, SessionError>,
    ) -> Result<AgentSession, SessionError> {
        match &loaded {
            Ok(session) => {
                self.tell(|| SessionEvent::Loaded(SessionSnapshot::of(&session.header)));
            }
            Err(error) => {
                let text: Arc<str> = error.to_string().into();
                self.tell(|| SessionEvent::LoadFailed { session: id.clone(), error: text });
            }
        }
        loaded
    }

    pub(super) async fn save_now(
        &self,
        session: AgentSession,
        journal: &StoreJournal,
    ) -> Result<AgentSession, SessionError> {
        let id = session.id().clone();
        let saved = self.repository.save_through(session, journal).await;
        let session = self.told_if_unsaved(&id, saved)?;
        if let (Some(cache), Some(end)) = (&self.cache, journal.end()) {
            cache.put(KeptSession { session: session.clone(), end });
        }
        self.told_as_saved(session, &[SessionStage::AfterSave]).await
    }
}
