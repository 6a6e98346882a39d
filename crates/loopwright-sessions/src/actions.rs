//! The built-in actions on sessions.

use std::{borrow::Cow, sync::Arc};

use async_trait::async_trait;
use loopwright_agent::tasks::TaskList;
use loopwright_core::{
    ApprovalDecision, Budget, DecisionError, Edit, LlmConfig, PendingApproval, Seq,
    messages::{CacheBreak, Message, SectionName, Transcript},
};
use serde_json::Value;

use crate::{
    action::{ActionCx, SessionAction},
    error::SessionError,
    id::SessionId,
    repository::{fork, replay},
    session::AgentSession,
    store::ControlMessage,
};

/// Sends a message to the agent and runs it.
///
/// The agent is created from the session's definition. A failed execution is saved, and is not an
/// error. An execution without an answer resumes, with a renewed budget, and answers the message
/// too.
#[derive(Clone, Debug)]
pub struct SendMessage {
    message: Message,
    is_queued: bool,
}

impl SendMessage {
    /// Creates the action with a message.
    pub fn new(message: impl Into<Message>) -> Self {
        Self { message: message.into(), is_queued: false }
    }

    /// Creates the action with a user message.
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        Self::new(Message::user(text))
    }

    /// If the session is busy, sends the message to the process that runs it. By default, the
    /// action is then refused.
    #[must_use]
    pub fn steer_if_busy(self) -> Self {
        Self { is_queued: true, ..self }
    }
}

#[async_trait]
impl SessionAction for SendMessage {
    fn name(&self) -> Cow<'static, str> {
        "send_message".into()
    }

    async fn execute(
        &self,
        session: AgentSession,
        cx: &ActionCx<'_>,
    ) -> Result<AgentSession, SessionError> {
        let run = {
            let mut state = cx.with_waiting_messages(session.state().clone());
            if state.is_resumable() {
                state = state.renew_budget();
            }
            let session = match session.header.title {
                None => session.with_title(title_of(&self.message)),
                Some(_) => session,
            };
            cx.run(session, state.with_message(self.message.clone()))
        };
        run.await
    }

    fn if_busy(&self) -> Option<ControlMessage> {
        self.is_queued.then(|| ControlMessage::SendMessage(self.message.clone()))
    }
}

/// The maximum number of characters in a title.
const TITLE: usize = 80;

/// Returns the first words of a message, in one line.
fn title_of(message: &Message) -> String {
    let text = message.text();
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(TITLE) {
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
        None => line,
    }
}

/// Resumes an execution that was interrupted, waits, or stopped or failed before an answer. It adds
/// no message, except those that were sent and not received. Previous usage still counts against
/// the budget; see [`AgentState::is_resumable`](loopwright_core::AgentState::is_resumable). A
/// [finished](AgentSession::is_unfinished) session does not change.
#[derive(Clone, Copy, Debug, Default)]
pub struct ContinueRun;

#[async_trait]
impl SessionAction for ContinueRun {
    fn name(&self) -> Cow<'static, str> {
        "continue".into()
    }

    async fn execute(
        &self,
        session: AgentSession,
        cx: &ActionCx<'_>,
    ) -> Result<AgentSession, SessionError> {
        let run = {
            let state = session.state().clone();
            if session.is_unfinished() {
                cx.run(session, state)
            } else if cx.has_waiting_messages() {
                cx.run(session, cx.with_waiting_messages(state))
            } else {
                return Ok(session);
            }
        };
        run.await
    }
}

/// Suspends the session, which then accepts no messages.
#[derive(Clone, Copy, Debug, Default)]
pub struct SuspendSession;

/// Activates the session, which then accepts messages again.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResumeSession;

/// Clears the conversation and the execution. Metadata, instructions, model and budget stay.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClearSession;

/// Changes the model; `None` means that of the definition.
#[derive(Clone, Debug, Default)]
pub struct ChangeModel(pub Option<LlmConfig>);

/// Replaces the budget.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChangeBudget(pub Budget);

/// Replaces the session's instructions; the definition does not change.
#[derive(Clone, Debug, Default)]
pub struct ChangeSystemPrompt(pub Option<Arc<str>>);

/// Sets metadata values.
#[derive(Clone, Debug, Default)]
pub struct WriteMetadata(pub Vec<(Arc<str>, Value)>);

impl WriteMetadata {
    /// Sets one value.
    pub fn one(key: impl Into<Arc<str>>, value: impl Into<Value>) -> Self {
        Self(vec![(key.into(), value.into())])
    }
}

/// Replaces the tasks of the agent.
#[derive(Clone, Debug, Default)]
pub struct UpdateTask(pub TaskList);

/// Decides about a waiting call, or answers its question. The call belongs to the agent or a
/// sub-agent, and can be one that was interrupted and may have taken effect. A decision that does
/// not match is refused and not saved. The agent continues with the next [`ContinueRun`] or
/// [`SendMessage`]. A dialog, which another process can overtake, uses [`DecideShown`](crate::DecideShown).
#[derive(Clone, Debug)]
pub struct DecideCall {
    /// The [address](PendingApproval::address) of the call. `None` means the only waiting one.
    pub path: Option<Vec<u16>>,
    /// The decision or the answer.
    pub resolution: ApprovalDecision,
}

/// Edits the state without running the agent.
macro_rules! edits {
    ($action:ident, $name:literal, |$self:ident, $session:ident| $edited:expr) => {
        #[async_trait]
        impl SessionAction for $action {
            fn name(&self) -> Cow<'static, str> {
                $name.into()
            }

            async fn execute(
                &self,
                $session: AgentSession,
                _cx: &ActionCx<'_>,
            ) -> Result<AgentSession, SessionError> {
                let $self = self;
                $edited
            }
        }
    };
}

edits!(SuspendSession, "suspend_session", |_it, session| Ok(session.suspended()?));
edits!(ResumeSession, "resume_session", |_it, session| Ok(session.resumed()?));
edits!(ClearSession, "clear_session", |_it, session| {
    let state = session.state.clone().for_next_execution();
    let sections = state.context().sections().in_order();
    let written = sections.filter(|(_, turns)| !turns.is_empty());
    let names: Vec<SectionName> = written.map(|(name, _)| name.into()).collect();
    let state = names.into_iter().fold(state, |state, section| {
        let (turns, cause) = (Transcript::new(), CacheBreak::Compaction);
        state.edit(Edit::Replace { section, turns, cause })
    });
    Ok(session.with_state(state))
});
edits!(ChangeModel, "change_model", |it, session| {
    let llm = it.0.clone().or_else(|| session.definition.llm.clone());
    let state = session.state.clone().edit(Edit::Llm(llm.map(Arc::new)));
    Ok(session.with_state(state))
});
edits!(ChangeBudget, "change_budget", |it, session| {
    let state = session.state.clone().with_budget(it.0);
    Ok(session.with_state(state))
});
edits!(ChangeSystemPrompt, "change_system_prompt", |it, session| {
    let state = session.state.clone().edit(Edit::SystemPrompt(it.0.clone()));
    Ok(session.with_state(state))
});
edits!(WriteMetadata, "write_metadata", |it, session| {
    let state = it.0.iter().fold(session.state().clone(), |state, (key, value)| {
        state.with_metadata(Arc::clone(key), value.clone())
    });
    Ok(session.with_state(state))
});

edits!(UpdateTask, "update_task", |it, session| {
    let state = session.state.clone().edit(it.0.edit());
    Ok(session.with_state(state))
});
#[async_trait]
impl SessionAction for DecideCall {
    fn name(&self) -> Cow<'static, str> {
        "decide".into()
    }

    async fn execute(
        &self,
        session: AgentSession,
        cx: &ActionCx<'_>,
    ) -> Result<AgentSession, SessionError> {
        let pending = session.state.pending();
        let asked = match (&self.path, &pending[..]) {
            (None, [asked]) => Some(*asked),
            (None, _) => None,
            (Some(path), _) => pending.iter().find(|it| it.address() == *path).copied(),
        };
        let Some(asked) = asked else {
            let waiting = pending.iter().map(PendingApproval::address).collect();
            let (id, path) = (session.id().clone(), self.path.clone());
            return Err(SessionError::NotPending { id, path, waiting });
        };
        decide(&session, &asked, self.resolution.clone(), cx)
    }
}

/// Records a decision, checked by the schemas of the request.
pub(crate) fn decide(
    session: &AgentSession,
    asked: &PendingApproval<'_>,
    decision: ApprovalDecision,
    cx: &ActionCx<'_>,
) -> Result<AgentSession, SessionError> {
    let (path, state) = (asked.address(), session.state());
    if asked.question.is_expired(cx.env.clock.now()) {
        let tool = Arc::clone(&asked.call.name);
        return Err(DecisionError::Expired { tool }.into());
    }
    let state = state.try_decide(&path, decision)?;
    Ok(session.clone().with_state(state))
}

/// Creates another session that starts with the changes of this one so far, including its active
/// sub-agents. Copies nothing, and returns the new session.
#[derive(Clone, Debug, Default)]
pub struct ForkSession {
    id: Option<SessionId>,
    at: Option<Seq>,
}

impl ForkSession {
    /// Forks at the end, into a session with a unique ID.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the ID of the new session.
    #[must_use]
    pub fn with_session_id(self, id: SessionId) -> Self {
        Self { id: Some(id), ..self }
    }

    /// Forks after this number of changes; see [`step_end`](crate::step_end).
    #[must_use]
    pub fn at(self, at: Seq) -> Self {
        Self { at: Some(at), ..self }
    }
}

#[async_trait]
impl SessionAction for ForkSession {
    fn name(&self) -> Cow<'static, str> {
        "fork_session".into()
    }

    async fn execute(
        &self,
        session: AgentSession,
        cx: &ActionCx<'_>,
    ) -> Result<AgentSession, SessionError> {
        let (source, definition) = (&session.header, &session.definition);
        let at = self.at.unwrap_or(source.length);
        let now = cx.env.clock.now();
        let header = fork(&**cx.store, source, definition, self.id.clone(), at, now).await?;
        let state = if at == source.length {
            session.state().clone()
        } else {
            let loaded = cx.store.load(&header.id).await?;
            replay(&header.id, loaded.map(|it| it.changes).unwrap_or_default())?
        };
        Ok(AgentSession {
            header: header.into(),
            definition: Arc::clone(definition),
            state: state.into(),
        })
    }
}
