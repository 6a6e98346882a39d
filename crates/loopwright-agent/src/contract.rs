//! Agents as types, for programs whose workers create them again from a name and a configuration.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use futures_util::stream::Stream;
use loopwright_core::{
    AgentLoop, AgentState, EventEnvelope, EventSink, EventSinks, EventType, ExecutionStatus,
    RunOptions,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{capability::BuildError, definition::AgentDefinition};

mod descriptor;
mod factory;
mod registry;

pub use descriptor::{AgentDescriptor, InvalidDescriptor};
pub use factory::ContractLoopFactory;
pub use registry::AgentContractRegistry;

/// A type of agent with a description, created from a configuration. The same configuration creates
/// the same agent in every process. Its fields are the configuration.
///
/// ```
/// use loopwright_agent::{AgentBuilder, AgentContract, AgentDescriptor, BuildError, InvalidDescriptor};
/// use loopwright_core::AgentLoop;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Researcher {
///     sources: Vec<String>,
/// }
///
/// impl AgentContract for Researcher {
///     fn descriptor(&self) -> Result<AgentDescriptor, InvalidDescriptor> {
///         AgentDescriptor::new("researcher", "Looks things up.")
///     }
///
///     fn build(&self) -> Result<AgentLoop, BuildError> {
///         AgentBuilder::standard().build() // with a driver and tools for its sources
///     }
/// }
/// ```
pub trait AgentContract: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Returns the description of the agent.
    ///
    /// # Errors
    ///
    /// Returns an error if the description is incomplete.
    fn descriptor(&self) -> Result<AgentDescriptor, InvalidDescriptor>;

    /// Builds the agent. Called once, when the agent is first used.
    ///
    /// # Errors
    ///
    /// Returns an error if the agent cannot be built.
    fn build(&self) -> Result<AgentLoop, BuildError>;

    /// Creates the agent type from a configuration.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration does not match.
    fn from_config(config: &Value) -> Result<Self, serde_json::Error> {
        Self::deserialize(config)
    }

    /// Returns the configuration, from which the agent can be created again. It is stored, so it
    /// must contain references to secrets, never secrets.
    ///
    /// # Errors
    ///
    /// Returns an error if it has no JSON form.
    fn serialize_config(&self) -> Result<Value, serde_json::Error> {
        serde_json::to_value(self)
    }
}

/// Creates agents from names and configurations.
pub trait AgentFactory: Send + Sync {
    /// Creates an agent. It is built when it is first used.
    ///
    /// # Errors
    ///
    /// Returns an error if the name is unknown, or the configuration does not match.
    fn create(&self, name: &str, config: &Value) -> Result<ContractAgent, ContractError>;
}

/// An agent that could not be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContractError {
    /// The name is unknown.
    #[error("unknown agent `{name}`; available: {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The known names.
        known: String,
    },
    /// The configuration is invalid.
    #[error("configuration of agent `{name}` is invalid")]
    Config {
        /// The name.
        name: String,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
    /// The descriptor is invalid.
    #[error(transparent)]
    Descriptor(#[from] InvalidDescriptor),
}

/// An agent of an [`AgentContract`], with its listeners. Cheap to clone.
#[derive(Clone)]
pub struct ContractAgent {
    descriptor: AgentDescriptor,
    config: Value,
    build: Arc<dyn Fn() -> Result<AgentLoop, BuildError> + Send + Sync>,
    /// The agent without its listeners, once it is built.
    built: Arc<OnceLock<AgentLoop>>,
    listeners: EventSinks,
    handler: Option<Arc<dyn EventSink>>,
}

/// The metadata key of a definition that holds the configuration of an agent.
const CONFIG: &str = "contract_config";

impl ContractAgent {
    /// Creates an agent from an agent type.
    ///
    /// # Errors
    ///
    /// Returns an error if its descriptor is invalid, or its configuration has no JSON form.
    pub fn new(contract: impl AgentContract) -> Result<Self, ContractError> {
        let descriptor = contract.descriptor()?;
        let config = contract.serialize_config().map_err(|source| ContractError::Config {
            name: descriptor.name().to_owned(),
            source,
        })?;
        Ok(Self {
            descriptor,
            config,
            build: Arc::new(move || contract.build()),
            built: Arc::default(),
            listeners: EventSinks::default(),
            handler: None,
        })
    }

    /// Returns the descriptor.
    pub fn descriptor(&self) -> &AgentDescriptor {
        &self.descriptor
    }

    /// Returns the configuration.
    pub fn config(&self) -> &Value {
        &self.config
    }

    /// Returns the definition for sessions. A [`ContractLoopFactory`] creates this agent from it
    /// again.
    pub fn definition(&self) -> AgentDefinition {
        let (name, description) = (self.descriptor.name(), self.descriptor.description());
        let mut definition = AgentDefinition::new(name, description, "");
        definition.metadata.insert(CONFIG.to_owned(), self.config.clone());
        definition
    }

    /// Sends all events to this handler, which replaces an earlier one. Other listeners stay.
    #[must_use]
    pub fn with_event_handler(self, handler: Arc<dyn EventSink>) -> Self {
        Self { handler: Some(handler), ..self }
    }

    /// Adds a listener to all events. The position in the chain of calls does not matter.
    #[must_use]
    pub fn wiretap(mut self, listen: impl Fn(&EventEnvelope) + Send + Sync + 'static) -> Self {
        self.listeners.wiretap(listen);
        self
    }

    /// Adds a listener to one event type. The position in the chain of calls does not matter.
    #[must_use]
    pub fn on_event<T: EventType + 'static>(
        mut self,
        listen: impl Fn(&T, &EventEnvelope) + Send + Sync + 'static,
    ) -> Self {
        self.listeners.on_event(listen);
        self
    }

    /// Returns the agent, which is built on the first call.
    ///
    /// # Errors
    ///
    /// Returns an error if the agent cannot be built. The next call tries again.
    pub fn agent(&self) -> Result<AgentLoop, BuildError> {
        let built = if let Some(built) = self.built.get() {
            built
        } else {
            let built = (self.build)()?;
            self.built.get_or_init(|| built)
        };
        if self.listeners.is_empty() && self.handler.is_none() {
            return Ok(built.clone());
        }
        Ok(built.with(|parts| {
            parts.event_sinks.extend(&self.listeners);
            if let Some(handler) = &self.handler {
                parts.event_sinks.add(Arc::clone(handler));
            }
        }))
    }

    /// Runs to the end.
    ///
    /// # Errors
    ///
    /// Returns an error if the agent cannot be built. A failure of the run is part of the state.
    pub async fn run(&self, state: AgentState) -> Result<AgentState, BuildError> {
        Ok(self.agent()?.execute(state).await)
    }

    /// Takes the next step and returns the state after it, from which any process can take the next one.
    ///
    /// # Errors
    ///
    /// As for [`run`](ContractAgent::run).
    pub async fn next_step(&self, state: AgentState) -> Result<AgentState, BuildError> {
        let before = if state.is_interrupted() { state.step_count() } else { 0 };
        let mut run = self.agent()?.start(state, RunOptions::default());
        // What was handed on is handed out again before the next step begins.
        while let Some(state) = run.next().await {
            if state.step_count() > before {
                break;
            }
        }
        Ok(run.into_state())
    }

    /// Returns `true` if a step is left: the execution has not started, or is in progress.
    pub fn has_next_step(state: &AgentState) -> bool {
        matches!(state.status(), ExecutionStatus::Pending | ExecutionStatus::InProgress)
    }

    /// Takes all remaining steps.
    ///
    /// # Errors
    ///
    /// As for [`run`](ContractAgent::run).
    pub async fn final_step(&self, state: AgentState) -> Result<AgentState, BuildError> {
        if Self::has_next_step(&state) { self.run(state).await } else { Ok(state) }
    }

    /// Yields the state after each step, including the final state.
    ///
    /// # Errors
    ///
    /// As for [`run`](ContractAgent::run).
    pub fn iterator(
        &self,
        state: AgentState,
    ) -> Result<impl Stream<Item = AgentState> + Send + use<>, BuildError> {
        Ok(self.agent()?.iterate(state))
    }
}

impl fmt::Debug for ContractAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContractAgent")
            .field("descriptor", &self.descriptor)
            .field("listeners", &self.listeners)
            .finish_non_exhaustive()
    }
}
