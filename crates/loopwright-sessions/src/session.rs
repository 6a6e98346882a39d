//! A session as it is worked with.

use std::sync::Arc;

use loopwright_agent::{AgentDefinition, DefinitionStateFactory, StateFactory};
use loopwright_core::{AgentState, ExecutionStatus, Timestamp, messages::TurnBody};

use crate::{
    error::SessionError,
    header::SessionHeader,
    id::SessionId,
    status::{InvalidTransition, SessionStatus},
};

/// A session as it is worked with: what is known of it, its agent, and the state.
///
/// It is a value: nothing is kept before a runtime or a repository saves it. Saving is what raises the
/// version, nothing else.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentSession {
    pub(crate) header: SessionHeader,
    pub(crate) definition: Arc<AgentDefinition>,
    pub(crate) state: AgentState,
}

impl AgentSession {
    /// Returns what is known of it.
    pub fn header(&self) -> &SessionHeader {
        &self.header
    }

    /// Returns its name.
    pub fn id(&self) -> &SessionId {
        &self.header.id
    }

    /// Returns what may be done with it.
    pub fn status(&self) -> SessionStatus {
        self.header.status
    }

    /// Refuses if it takes no messages.
    ///
    /// # Errors
    ///
    /// If it is not active.
    pub fn require_active(&self) -> Result<(), SessionError> {
        let (id, status) = (self.id(), self.status());
        match status {
            SessionStatus::Active => Ok(()),
            _ => Err(SessionError::NotActive { id: id.clone(), status }),
        }
    }

    /// Returns how often it was written; 0 if it never was.
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

    /// Returns `true` if there is something to do without another message: an execution that
    /// [resumes](AgentState::is_resumable), or a first message that no run has begun to answer.
    pub fn is_unfinished(&self) -> bool {
        let last = self.state.transcript().last();
        let is_asked = last.is_some_and(|turn| matches!(turn.body(), TurnBody::Input(_)));
        let is_new = *self.state.status() == ExecutionStatus::Pending && is_asked;
        is_new || self.state.is_resumable()
    }

    /// Takes another state, which must be made of this session's own: saving appends what changed.
    #[must_use]
    pub fn with_state(self, state: AgentState) -> Self {
        Self { state, ..self }
    }

    /// Says what it is about.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<Arc<str>>) -> Self {
        self.header.title = Some(title.into());
        self
    }

    /// Says where it works.
    #[must_use]
    pub fn with_workdir(mut self, workdir: impl Into<Arc<str>>) -> Self {
        self.header.workdir = Some(workdir.into());
        self
    }

    /// Names the session that it works for.
    #[must_use]
    pub fn with_parent(mut self, parent: SessionId) -> Self {
        self.header.parent = Some(parent);
        self
    }

    /// Takes no messages from now on.
    ///
    /// # Errors
    ///
    /// As all changes of status: if [`SessionStatus::transition_to`] does not allow it.
    pub fn suspended(self) -> Result<Self, InvalidTransition> {
        self.with_status(SessionStatus::Suspended)
    }

    /// Takes messages again.
    ///
    /// # Errors
    ///
    /// If it was deleted.
    pub fn resumed(self) -> Result<Self, InvalidTransition> {
        self.with_status(SessionStatus::Active)
    }

    /// Is done.
    ///
    /// # Errors
    ///
    /// Unless it was active.
    pub fn completed(self) -> Result<Self, InvalidTransition> {
        self.with_status(SessionStatus::Completed)
    }

    /// Is given up.
    ///
    /// # Errors
    ///
    /// Unless it was active.
    pub fn failed(self) -> Result<Self, InvalidTransition> {
        self.with_status(SessionStatus::Failed)
    }

    /// Is gone for good, once it is saved.
    ///
    /// # Errors
    ///
    /// If it was deleted before.
    pub fn deleted(self) -> Result<Self, InvalidTransition> {
        self.with_status(SessionStatus::Deleted)
    }

    fn with_status(mut self, status: SessionStatus) -> Result<Self, InvalidTransition> {
        self.header.status = self.header.status.transition_to(status)?;
        Ok(self)
    }
}

/// Makes sessions of agents' definitions.
#[derive(Clone, Debug)]
pub struct SessionFactory<S = DefinitionStateFactory>(S);

impl SessionFactory {
    /// Makes states that carry what the definition says.
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
    /// Makes states in a way of one's own.
    pub fn with_states(states: S) -> Self {
        Self(states)
    }

    /// Makes a session that nothing is kept of yet, with a name that no one has.
    pub fn create(&self, definition: AgentDefinition, now: Timestamp) -> AgentSession {
        self.create_from(definition, AgentState::new(), SessionId::generate(), now)
    }

    /// Makes a session of this name, whose state begins with this one.
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
        AgentSession { header, definition: Arc::new(definition), state }
    }
}
