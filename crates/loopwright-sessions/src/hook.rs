//! Hooks around loading and saving.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use loopwright_core::{BoxError, Priority};

use crate::session::AgentSession;

/// When a hook of sessions is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SessionStage {
    /// A session is about to be created.
    BeforeCreate,
    /// A session was created. What is changed now is not kept.
    AfterCreate,
    /// A session was loaded.
    AfterLoad,
    /// An action is done.
    AfterAction,
    /// A session is about to be saved.
    BeforeSave,
    /// A session was saved. What is changed now is not kept.
    AfterSave,
}

/// Sees sessions pass by, and may change them.
#[async_trait]
pub trait SessionHook: Send + Sync {
    /// Takes a session and gives it back, changed or not.
    ///
    /// # Errors
    ///
    /// Whatever keeps the session from going on. After a save it keeps nothing from having been saved. A panic
    /// becomes [`SessionError::Panicked`](crate::SessionError::Panicked) where the session is in use.
    async fn on_stage(
        &self,
        stage: SessionStage,
        session: AgentSession,
    ) -> Result<AgentSession, BoxError>;
}

/// Hooks, highest priority first; equal ones as they were added.
#[derive(Clone, Default)]
pub struct SessionHooks(Vec<(Priority, Arc<dyn SessionHook>)>);

impl SessionHooks {
    /// Has no hooks.
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
