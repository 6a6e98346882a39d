//! Questions and answers: the shortest way to run a state.

use std::{fmt, ops::Deref, sync::Arc};

use loopwright_messages::Usage;

use crate::{
    agent::AgentLoop, execution::ExecutionStatus, failure::Failure, state::AgentState,
    stop::StopSignal,
};

/// The answer of a completed run, and the state after it. Dereferences to the text.
///
/// A reply is also the beginning of the next turn: pass it to [`AgentLoop::ask_in`].
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    text: String,
    state: AgentState,
}

impl Reply {
    /// Returns the text of the final answer. It is not blank.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the state after the run.
    pub fn state(&self) -> &AgentState {
        &self.state
    }

    /// Returns the state after the run, by value.
    pub fn into_state(self) -> AgentState {
        self.state
    }

    /// Returns the tokens of the run.
    pub fn usage(&self) -> Usage {
        self.state.usage()
    }
}

impl Deref for Reply {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl AsRef<str> for Reply {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl PartialEq<str> for Reply {
    fn eq(&self, other: &str) -> bool {
        self.text == other
    }
}

impl PartialEq<&str> for Reply {
    fn eq(&self, other: &&str) -> bool {
        self.text == *other
    }
}

impl From<Reply> for AgentState {
    fn from(reply: Reply) -> Self {
        reply.state
    }
}

/// A run that ended without a reply. Each variant carries the state, so that a run can resume.
///
/// ```
/// use loopwright_core::{AgentState, AskError, Budget};
/// use loopwright_testing::{FakeDriver, ScenarioStep, block_on, test_loop};
///
/// let agent = test_loop(FakeDriver::steps([ScenarioStep::tool("Working.")]));
/// let state = AgentState::new().with_budget(Budget::unlimited().with_steps(2));
/// match block_on(agent.ask_in(state, "Work.")) {
///     Err(AskError::Stopped { signal, state }) => {
///         assert_eq!((signal.reason.as_str(), state.step_count()), ("steps_limit", 2));
///     }
///     other => panic!("{other:?}"),
/// }
/// ```
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The run failed.
    #[error("run failed")]
    Failed {
        /// The failure.
        #[source]
        failure: Failure,
        /// The state after the run.
        state: Box<AgentState>,
    },
    /// A limit, hook, tool or user stopped the run.
    #[error("run stopped: {signal}")]
    Stopped {
        /// The signal.
        signal: StopSignal,
        /// The state after the run.
        state: Box<AgentState>,
    },
    /// Tool calls need approval; [`AgentState::pending`] lists them.
    #[error(
        "the run is paused; calls that wait for a decision: {}; decide with `AgentState::decide`",
        state.pending().len()
    )]
    Paused {
        /// The state after the run.
        state: Box<AgentState>,
    },
    /// The run ended, and the model wrote no text.
    #[error("the run has no answer: {}", state.explain_stop())]
    NoAnswer {
        /// The state after the run.
        state: Box<AgentState>,
    },
}

impl AskError {
    /// Returns the state after the run.
    pub fn state(&self) -> &AgentState {
        match self {
            Self::Failed { state, .. }
            | Self::Stopped { state, .. }
            | Self::Paused { state }
            | Self::NoAnswer { state } => state,
        }
    }

    /// Returns the state after the run, by value.
    pub fn into_state(self) -> AgentState {
        match self {
            Self::Failed { state, .. }
            | Self::Stopped { state, .. }
            | Self::Paused { state }
            | Self::NoAnswer { state } => *state,
        }
    }
}

/// Omits the state, so that a program that returns the error from `main` prints one line.
impl fmt::Debug for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed { failure, .. } => {
                f.debug_struct("Failed").field("failure", failure).finish_non_exhaustive()
            }
            Self::Stopped { signal, .. } => {
                f.debug_struct("Stopped").field("signal", signal).finish_non_exhaustive()
            }
            Self::Paused { .. } => f.debug_struct("Paused").finish_non_exhaustive(),
            Self::NoAnswer { .. } => f.debug_struct("NoAnswer").finish_non_exhaustive(),
        }
    }
}

impl From<AskError> for AgentState {
    fn from(error: AskError) -> Self {
        error.into_state()
    }
}

impl TryFrom<AgentState> for Reply {
    type Error = AskError;

    fn try_from(state: AgentState) -> Result<Self, AskError> {
        match state.status() {
            ExecutionStatus::Failed(failure) => {
                Err(AskError::Failed { failure: failure.clone(), state: Box::new(state) })
            }
            ExecutionStatus::Stopped(signal) => {
                Err(AskError::Stopped { signal: signal.clone(), state: Box::new(state) })
            }
            ExecutionStatus::Paused => Err(AskError::Paused { state: Box::new(state) }),
            _ if state.has_final_response() => Ok(Self { text: state.text(), state }),
            _ => Err(AskError::NoAnswer { state: Box::new(state) }),
        }
    }
}

/// Questions and answers.
impl AgentLoop {
    /// Sends a question to the agent in a new conversation, and returns its answer.
    ///
    /// [`execute`](AgentLoop::execute) is the same without the `Err`. The run starts when the
    /// future is first polled.
    ///
    /// # Errors
    ///
    /// Returns [`AskError`] with the state if the run fails, is stopped, pauses or has no answer.
    ///
    /// ```
    /// use loopwright_testing::{FakeDriver, block_on, test_loop};
    ///
    /// let agent = test_loop(FakeDriver::responses(["A harbour town."]));
    /// let reply = block_on(agent.ask("What is Piran?"))?;
    /// assert_eq!(reply, "A harbour town.");
    /// # Ok::<(), loopwright_core::AskError>(())
    /// ```
    pub fn ask<T: Into<Arc<str>>>(
        &self,
        text: T,
    ) -> impl Future<Output = Result<Reply, AskError>> + Send + use<T> {
        self.ask_in(AgentState::new(), text)
    }

    /// Sends a question to the agent in a conversation: after a [`Reply`], or in a state that you
    /// set up or stored.
    ///
    /// ```
    /// # use loopwright_core::{AgentLoop, AskError};
    /// # async fn two_turns(agent: &AgentLoop) -> Result<(), AskError> {
    /// let reply = agent.ask("What is Piran?").await?;
    /// let reply = agent.ask_in(reply, "How large is it?").await?;
    /// println!("{reply}");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// See [`ask`](AgentLoop::ask).
    pub fn ask_in<S: Into<AgentState>, T: Into<Arc<str>>>(
        &self,
        state: S,
        text: T,
    ) -> impl Future<Output = Result<Reply, AskError>> + Send + use<S, T> {
        let run = self.execute(state.into().with_user_message(text));
        async move { run.await.try_into() }
    }
}
