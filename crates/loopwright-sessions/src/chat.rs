//! A stored conversation as a handle: questions and answers.

mod stream;

use std::sync::Arc;

use loopwright_agent::AgentDefinition;
use loopwright_core::{AgentState, AskError, Reply};

use crate::{
    action::SessionAction,
    actions::{ContinueRun, SendMessage},
    error::SessionError,
    id::SessionId,
    runtime::SessionRuntime,
    session::{AgentSession, SessionFactory},
};

/// A stored conversation. Each step is durable before the next one starts, and another process can
/// open the conversation by its ID and continue it.
///
/// ```
/// use std::sync::Arc;
///
/// use loopwright_core::AgentLoop;
/// use loopwright_sessions::{ChatError, MemoryStore, SessionRuntime};
///
/// # async fn support(agent: AgentLoop) -> Result<(), ChatError> {
/// let runtime = SessionRuntime::new(Arc::new(MemoryStore::new()), agent);
/// let mut chat = runtime.open("support-42").await?;
/// let reply = chat.ask("My boat leaks.").await?;
/// println!("{reply}");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Chat {
    runtime: SessionRuntime,
    id: SessionId,
}

pub use self::stream::{ChatStream, ChatUpdate};

/// A turn of a conversation that ended without a reply.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChatError {
    /// The session could not be opened, run or saved.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The run failed, was stopped, paused or has no answer. The session is saved as the error's state shows it.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// A [stream](ChatStream) has already returned its last update.
    #[error("the turn has ended; call `Chat::stream` for the next one")]
    Ended,
}

impl Chat {
    /// Returns the ID of the session.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Loads the session.
    ///
    /// # Errors
    ///
    /// Returns an error if the session is deleted or cannot be loaded.
    pub async fn session(&self) -> Result<AgentSession, SessionError> {
        self.runtime.session(&self.id).await
    }

    /// Sends a question to the agent, and returns its answer when both are durable. If an execution
    /// was interrupted, it resumes first and answers the question too.
    ///
    /// # Errors
    ///
    /// Returns [`ChatError::Session`] if another process runs the session or the store fails, and
    /// [`ChatError::Ask`] if the run ends without a reply.
    pub async fn ask(&mut self, text: impl Into<Arc<str>> + Send) -> Result<Reply, ChatError> {
        self.run(&SendMessage::text(text)).await
    }

    /// Resumes an execution that was interrupted, and returns its answer.
    ///
    /// # Errors
    ///
    /// As for [`ask`](Chat::ask).
    pub async fn resume(&mut self) -> Result<Reply, ChatError> {
        self.run(&ContinueRun).await
    }

    /// Runs an action that leads to an answer of the agent, such as a
    /// [`DecideCall`](crate::DecideCall).
    ///
    /// # Errors
    ///
    /// As for [`ask`](Chat::ask).
    pub async fn run(&mut self, action: &dyn SessionAction) -> Result<Reply, ChatError> {
        let session = self.runtime.execute(&self.id, action).await?;
        Ok((*session.state).try_into()?)
    }
}

/// Conversations.
impl SessionRuntime {
    /// Opens the conversation with this ID, and creates it if it does not exist.
    ///
    /// The factory of this runtime creates the agent from a definition named `agent`. For another
    /// definition, use [`open_as`](SessionRuntime::open_as).
    ///
    /// # Errors
    ///
    /// Returns [`SessionError::Id`] if the ID is not valid, and [`SessionError::Store`] if the
    /// session is deleted or the store fails.
    pub async fn open(&self, id: impl Into<String> + Send) -> Result<Chat, SessionError> {
        self.open_as(id, AgentDefinition::new("agent", "", "")).await
    }

    /// Opens the conversation with this ID, and creates it with this definition if it does not
    /// exist. An existing session keeps its own definition.
    ///
    /// # Errors
    ///
    /// As for [`open`](SessionRuntime::open).
    pub async fn open_as(
        &self,
        id: impl Into<String> + Send,
        definition: AgentDefinition,
    ) -> Result<Chat, SessionError> {
        let id = SessionId::new(id)?;
        let (seed, now) = (AgentState::new(), self.now());
        let new = SessionFactory::new().create_from(definition, seed, id.clone(), now);
        self.open_or_create(new).await?;
        Ok(Chat { runtime: self.clone(), id })
    }
}
