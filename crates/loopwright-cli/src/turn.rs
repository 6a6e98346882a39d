//! One turn of a conversation: a new message, or the continuation of an interrupted run.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use loopwright_capabilities::skills::INVOKED;
use loopwright_core::{AgentState, Budget, Edit, LlmConfig, messages::Message};
use loopwright_sessions::{
    ActionCx, AgentSession, ContinueRun, ControlMessage, SendMessage, SessionAction, SessionError,
};

use crate::chosen_rules::KeptPermissions;
use crate::conversation::title;
use crate::session::SessionsError;
use crate::session_budget::SessionBudget;
use crate::session_folder::SessionFolder;
use crate::snapshots::refuse_snapshots;

/// One turn of a conversation, under the limits of the process that takes it.
pub(crate) struct Turn<B> {
    /// What is said; nothing to resume what was interrupted.
    pub(crate) said: Option<Message>,
    /// Whether it is left to the process that runs the session, if there is one.
    pub(crate) steers: bool,
    /// The skill that is said, whose hooks run in the turn.
    pub(crate) skill: Option<String>,
    /// The model from now on.
    pub(crate) llm: LlmConfig,
    /// The session's own instructions from now on, if they change.
    pub(crate) system: Option<Arc<str>>,
    /// What the turn may use up.
    pub(crate) budget: Budget,
    /// What the session may use up across all its turns.
    pub(crate) session_budget: SessionBudget,
    /// The permissions that the session keeps from now on.
    pub(crate) kept: KeptPermissions,
    /// The folder in which the agent works. `None` leaves the record as it is.
    pub(crate) folder: Option<SessionFolder>,
    /// Called before the agent begins.
    pub(crate) begins: B,
}

#[async_trait]
impl<B: Fn(&AgentSession) + Send + Sync> SessionAction for Turn<B> {
    fn name(&self) -> Cow<'static, str> {
        if self.said.is_some() { "send_message".into() } else { "continue".into() }
    }

    async fn execute(
        &self,
        session: AgentSession,
        cx: &ActionCx<'_>,
    ) -> Result<AgentSession, SessionError> {
        session.require_active()?;
        // With the lease on the session, so that no worker can store snapshots from here on.
        let refused = refuse_snapshots(&**cx.store, session.header()).await;
        refused.map_err(|error| SessionError::Action(error.into()))?;
        if self.said.is_none() && !session.is_unfinished() && !cx.has_waiting_messages() {
            let nothing = SessionsError::NothingLeft(session.id().clone());
            return Err(SessionError::Action(nothing.into()));
        }
        let state = self.set_up(session.state().clone());
        let session = session.with_state(state);
        let session = match (&self.said, &session.header().title) {
            (Some(said), None) => session.with_title(title(said)),
            _ => session,
        };
        (self.begins)(&session);
        match &self.said {
            Some(said) => SendMessage::new(said.clone()).execute(session, cx).await,
            None => ContinueRun.execute(session, cx).await,
        }
    }

    fn if_busy(&self) -> Option<ControlMessage> {
        let said = self.said.as_ref().filter(|_| self.steers)?;
        Some(ControlMessage::SendMessage(said.clone()))
    }
}

impl<B> Turn<B> {
    /// Changes of the state what differs from what is wanted.
    fn set_up(&self, mut state: AgentState) -> AgentState {
        // The limits are those of a turn, and what was interrupted continues in a turn of its own.
        if state.is_resumable() {
            state = state.renew_budget();
        }
        state = self.kept.keep(self.session_budget.keep(state));
        if let Some(folder) = &self.folder {
            state = folder.keep(state);
        }
        let budget = self.session_budget.bound(self.budget, &state);
        if *state.budget() != budget {
            state = state.with_budget(budget);
        }
        // A turn without a message continues under the skill of the last one, or begins with the first one.
        let is_said = self.said.is_some() || self.skill.is_some();
        if is_said && state.get(&INVOKED) != self.skill {
            let skill = self.skill.clone().map(Into::into);
            state = state.edit(Edit::Set(INVOKED.slot(), skill));
        }
        if state.llm() != Some(&self.llm) {
            state = state.with_llm(self.llm.clone());
        }
        if let Some(system) = &self.system
            && state.context().system_prompt() != Some(system)
        {
            state = state.edit(Edit::SystemPrompt(Some(Arc::clone(system))));
        }
        state
    }
}
