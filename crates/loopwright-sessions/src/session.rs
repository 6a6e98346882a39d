//! A loaded session.

use std::sync::Arc;

use loopwright_agent::{AgentDefinition, DefinitionStateFactory, StateFactory};
use loopwright_core::{AgentState, ExecutionStatus, Timestamp, messages::TurnBody};

use crate::{
    error::SessionError,
    header::SessionHeader,
    id::SessionId,
    repository::replay,
    status::{InvalidTransition, SessionStatus},
    store::LoadedSession,
};

/// A loaded session: its header, its agent, and its state.
///
/// It is a value: changes are stored when a runtime or a repository saves it. Only saving
/// increments the version.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentSession {
    // Boxed, because the futures that run an action hold several sessions, as long as it waits.
    pub(crate) header: Box<SessionHeader>,
    pub(crate) definition: Arc<AgentDefinition>,
    pub(crate) state: Box<AgentState>,
}

impl AgentSession {
    /// Makes a session of what a store has of it.
    ///
    /// # Errors
    ///
    /// Returns an error if its changes are inconsistent.
    pub fn from_loaded(loaded: LoadedSession) -> Result<Self, SessionError> {
        let LoadedSession { header, definition, changes } = loaded;
        let state = replay(&header.id, changes)?;
        Ok(Self { header: header.into(), definition: Arc::new(definition), state: state.into() })
    }

    /// Returns the header.
    pub fn header(&self) -> &SessionHeader {
        &self.header
    }

    /// Returns the ID.
    pub fn id(&self) -> &SessionId {
        &self.header.id
    }

    /// Returns the status.
    pub fn status(&self) -> SessionStatus {
        self.header.status
    }

    /// Checks that the session accepts messages.
    ///
    /// # Errors
    ///
    /// Returns an error if it is not active.
    pub fn require_active(&self) -> Result<(), SessionError> {
        let (id, status) = (self.id(), self.status());
        match status {
            SessionStatus::Active => Ok(()),
            _ => Err(SessionError::NotActive { id: id.clone(), status }),
        }
    }

    /// Returns the number of writes; 0 if it was never saved.
    pub fn version(&self) -> u64 {
        self.header.version
    }

    /// Returns the agent.
    pub fn definition(&self) -> &AgentDefinition {
        &self.definition
    }

    /// Returns the state.
    pub fn state(&self) -> &AgentState {
        &self.state
    }

    /// Returns `true` if the session can continue without another message: an execution that
    /// [resumes](AgentState::is_resumable), or a first message that no run has started to answer.
    pub fn is_unfinished(&self) -> bool {
        let last = self.state.transcript().last();
        let is_asked = last.is_some_and(|turn| matches!(turn.body(), TurnBody::Input(_)));
        let is_new = *self.state.status() == ExecutionStatus::Pending && is_asked;
        is_new || self.state.is_resumable()
    }

    /// Replaces the state, which must be derived from this session's own: saving appends the new
    /// changes.
    #[must_use]
    pub fn with_state(self, state: AgentState) -> Self {
        Self { state: state.into(), ..self }
    }

    /// Sets the title.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<Arc<str>>) -> Self {
        self.header.title = Some(title.into());
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn with_workdir(mut self, workdir: impl Into<Arc<str>>) -> Self {
        self.header.workdir = Some(workdir.into());
        self
    }

    /// Sets the parent session.
    #[must_use]
    pub fn with_parent(mut self, parent: SessionId) -> Self {
        self.header.parent = Some(parent);
        self
    }

    /// Suspends the session, which then accepts no messages.
    ///
    /// # Errors
    ///
    /// Returns an error if [`SessionStatus::transition_to`] does not allow the change.
    pub fn suspended(self) -> Result<Self, InvalidTransition> {
        self.with_status(SessionStatus::Suspended)
    }

    /// Activates the session, which then accepts messages again.
    ///
    /// # Errors
    ///
    /// Returns an error if it was deleted.
    pub fn resumed(self) -> Result<Self, InvalidTransition> {
        self.with_status(SessionStatus::Active)
    }

    /// Marks the session as completed.
    ///
    /// # Errors
    ///
    /// Returns an error unless it was active.
    pub fn completed(self) -> Result<Self, InvalidTransition> {
        self.with_status(SessionStatus::Completed)
    }

    /// Marks the session as failed.
    ///
    /// # Errors
    ///
    /// Returns an error unless it was active.
    pub fn failed(self) -> Result<Self, InvalidTransition> {
        self.with_status(SessionStatus::Failed)
    }

    /// Marks the session as deleted. Saving deletes it permanently.
    ///
    /// # Errors
    ///
    /// Returns an error if it was already deleted.
    pub fn deleted(self) -> Result<Self, InvalidTransition> {
        self.with_status(SessionStatus::Deleted)
    }

    fn with_status(mut self, status: SessionStatus) -> Result<Self, InvalidTransition> {
        self.header.status = self.header.status.transition_to(status)?;
        Ok(self)
    }
}

/// Creates sessions from agent definitions.
#[derive(Clone, Debug)]
pub struct SessionFactory<S = DefinitionStateFactory>(S);

impl SessionFactory {
    /// Creates a factory of sessions whose states have the data of the definition.
    pub fn new() -> Self {
        Self(DefinitionStateFactory)
    }
}

impl Default for SessionFactory {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: StateFactory> SessionFactory<S> {
    /// Creates a factory of sessions with a custom state factory.
    pub fn with_states(states: S) -> Self {
        Self(states)
    }

    /// Creates an unsaved session with a unique ID.
    pub fn create(&self, definition: AgentDefinition, now: Timestamp) -> AgentSession {
        self.create_from(definition, AgentState::new(), SessionId::generate(), now)
    }

    /// Creates an unsaved session with this ID and initial state.
    pub fn create_from(
        &self,
        definition: AgentDefinition,
        seed: AgentState,
        id: SessionId,
        now: Timestamp,
    ) -> AgentSession {
        let mut header = SessionHeader::new(id, definition.name.as_str(), now);
        header.agent_label = definition.label().into();
        let state = self.0.instantiate(&definition, seed);
        AgentSession {
            header: header.into(),
            definition: Arc::new(definition),
            state: state.into(),
        }
    }
}
