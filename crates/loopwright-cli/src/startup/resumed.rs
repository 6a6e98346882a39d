//! The session that a conversation resumes, or a copy of which it resumes.

use std::sync::Arc;

use loopwright_sessions::{AgentSession, SessionRepository, SessionStore};

use super::Startup;
use crate::args::session::{ForkRef, SessionArgs};
use crate::session::{SessionsError, find, latest};

/// The session that a conversation continues with.
pub(super) struct ResumedSession {
    pub(super) session: AgentSession,
    /// The copy that is made of it, if one is.
    pub(super) fork: Option<ForkRef>,
}

impl Startup {
    /// Finds the session that was typed. Returns `None` if the conversation begins a new one.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such session, or if the ID that a new one or a copy is to have is taken.
    pub(super) async fn found(
        &self,
        store: &Arc<dyn SessionStore>,
        typed: &SessionArgs,
    ) -> Result<Option<ResumedSession>, SessionsError> {
        if let Some(id) = &typed.session_id
            && store.header(id).await?.is_some()
        {
            return Err(SessionsError::Taken(id.clone()));
        }
        let origin = &typed.origin;
        let header = match (&origin.resume, &origin.fork) {
            (Some(id), _) => find(&**store, id).await?,
            (None, Some(fork)) => find(&**store, &fork.id).await?,
            (None, None) if origin.latest => latest(&**store, &self.config.workdir).await?,
            (None, None) => return Ok(None),
        };
        let session = SessionRepository::new(Arc::clone(store)).load(&header.id).await?;
        if origin.fork.is_none()
            && let Some(missing) = store.missing(&header.id).await?
        {
            return Err(SessionsError::Incomplete { id: header.id, problem: missing.problem });
        }
        let copied = || typed.fork_session.then(|| ForkRef { id: header.id.clone(), step: None });
        let fork = origin.fork.clone().or_else(copied);
        Ok(Some(ResumedSession { session, fork }))
    }
}
