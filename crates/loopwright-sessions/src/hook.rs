//! Hooks around loading and saving.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use loopwright_core::{BoxError, Priority};

use crate::session::AgentSession;

/// The point at which a session hook is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SessionStage {
    /// A session is about to be created.
    BeforeCreate,
    /// A session was created. Changes made now are not saved.
    AfterCreate,
    /// A session was loaded.
    AfterLoad,
    /// An action has finished.
    AfterAction,
    /// A session is about to be saved.
    BeforeSave,
    /// A session was saved. Changes made now are not saved.
    AfterSave,
}

/// A hook that receives sessions and can change them.
#[async_trait]
pub trait SessionHook: Send + Sync {
    /// Receives a session and returns it, changed or unchanged.
    ///
    /// # Errors
    ///
    /// Returns an error to stop the operation. An error after a save does not undo the save. A
    /// panic becomes [`SessionError::Panicked`](crate::SessionError::Panicked).
    async fn on_stage(
        &self,
        stage: SessionStage,
        session: AgentSession,
    ) -> Result<AgentSession, BoxError>;
}

/// Hooks, highest priority first; among equal priorities, in the order they were added.
#[derive(Clone, Default)]
pub struct SessionHooks(Vec<(Priority, Arc<dyn SessionHook>)>);

impl SessionHooks {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a hook.
    #[must_use]
    pub fn with_hook(mut self, priority: Priority, hook: impl SessionHook + 'static) -> Self {
        let at = self.0.partition_point(|(other, _)| *other >= priority);
        self.0.insert(at, (priority, Arc::new(hook)));
        self
    }

    pub(crate) async fn pass(
        &self,
        stage: SessionStage,
        mut session: AgentSession,
    ) -> Result<AgentSession, BoxError> {
        for (_, hook) in &self.0 {
            session = hook.on_stage(stage, session).await?;
        }
        Ok(session)
    }
}

impl fmt::Debug for SessionHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionHooks({})", self.0.len())
    }
}
