//! Agents as types, for programs whose workers make them anew from a name and a configuration.

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

/// A type of agent that describes itself and is made of a configuration, always in the same way: the same
/// configuration makes the same agent, in whichever process. Its fields are the configuration.
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
    /// Describes the agent.
    ///
    /// # Errors
    ///
    /// If the description is not complete.
    fn descriptor(&self) -> Result<AgentDescriptor, InvalidDescriptor>;

    /// Builds the agent. It is called once, when the agent is first used.
    ///
    /// # Errors
    ///
    /// If something is missing.
    fn build(&self) -> Result<AgentLoop, BuildError>;

    /// Makes it of a configuration.
    ///
    /// # Errors
    ///
    /// If the configuration does not fit.
    fn from_config(config: &Value) -> Result<Self, serde_json::Error> {
        Self::deserialize(config)
    }

    /// Returns the configuration that makes it again. It is stored: it holds references to secrets, never
    /// secrets.
    ///
    /// # Errors
    ///
    /// If it has no JSON form.
    fn serialize_config(&self) -> Result<Value, serde_json::Error> {
        serde_json::to_value(self)
    }
}

/// Makes agents of names and configurations.
pub trait AgentFactory: Send + Sync {
    /// Makes an agent. Nothing is built before it is used.
    ///
    /// # Errors
    ///
    /// If there is none of that name, or the configuration does not fit.
    fn create(&self, name: &str, config: &Value) -> Result<ContractAgent, ContractError>;
}

/// Why there is no such agent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContractError {
    /// None has that name.
    #[error("unknown agent `{name}`; available: {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// It cannot be made of that configuration.
    #[error("configuration of agent `{name}` is invalid")]
    Config {
        /// The name.
        name: String,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// It does not describe itself.
    #[error(transparent)]
    Descriptor(#[from] InvalidDescriptor),
}

/// An agent of some [`AgentContract`], with those who listen to it. Cheap to clone.
#[derive(Clone)]
pub struct ContractAgent {
    descriptor: AgentDescriptor,
    config: Value,
    build: Arc<dyn Fn() -> Result<AgentLoop, BuildError> + Send + Sync>,
    /// The agent without those who listen, once it was built.
    built: Arc<OnceLock<AgentLoop>>,
    listeners: EventSinks,
    handler: Option<Arc<dyn EventSink>>,
}

/// The metadata of a definition in which the configuration of an agent is kept.
const CONFIG: &str = "contract_config";

impl ContractAgent {
    /// Takes an agent of some type.
    ///
    /// # Errors
    ///
    /// If it does not describe itself, or its configuration has no JSON form.
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

    /// Returns what it says of itself.
    pub fn descriptor(&self) -> &AgentDescriptor {
        &self.descriptor
    }

    /// Returns the configuration that makes it again.
    pub fn config(&self) -> &Value {
        &self.config
    }

    /// Returns the definition to make sessions of: a [`ContractLoopFactory`] makes this agent of it again.
    pub fn definition(&self) -> AgentDefinition {
        let (name, description) = (self.descriptor.name(), self.descriptor.description());
        let mut definition = AgentDefinition::new(name, description, "");
        definition.metadata.insert(CONFIG.to_owned(), self.config.clone());
        definition
    }

    /// Tells all events to this handler, in the place of an earlier one. Listeners stay.
    #[must_use]
    pub fn with_event_handler(self, handler: Arc<dyn EventSink>) -> Self {
        Self { handler: Some(handler), ..self }
    }

    /// Adds a listener to everything. When this is called makes no difference.
    #[must_use]
    pub fn wiretap(mut self, listen: impl Fn(&EventEnvelope) + Send + Sync + 'static) -> Self {
        self.listeners.wiretap(listen);
        self
    }

    /// Adds a listener to one kind of event. When this is called makes no difference.
    #[must_use]
    pub fn on_event<T: EventType + 'static>(
        mut self,
        listen: impl Fn(&T, &EventEnvelope) + Send + Sync + 'static,
    ) -> Self {
        self.listeners.on_event(listen);
        self
    }

    /// Returns the agent itself, which is built when it is first asked for.
    ///
    /// # Errors
    ///
    /// If something is missing. It is tried again the next time.
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
    /// If the agent cannot be built. How the run went is part of the state.
    pub async fn run(&self, state: AgentState) -> Result<AgentState, BuildError> {
        Ok(self.agent()?.execute(state).await)
    }

    /// Takes the next step and returns the state after it, from which any process can take the next one.
    ///
    /// # Errors
    ///
    /// As of [`run`](ContractAgent::run).
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

    /// Returns `true` if there is a step left to take: the execution has not begun, or is in progress.
    pub fn has_next_step(state: &AgentState) -> bool {
        matches!(state.status(), ExecutionStatus::Pending | ExecutionStatus::InProgress)
    }

    /// Takes all steps that are left, if there are any.
    ///
    /// # Errors
    ///
    /// As of [`run`](ContractAgent::run).
    pub async fn final_step(&self, state: AgentState) -> Result<AgentState, BuildError> {
        if Self::has_next_step(&state) { self.run(state).await } else { Ok(state) }
    }

    /// Yields the state after each step, the final one included.
    ///
    /// # Errors
    ///
    /// As of [`run`](ContractAgent::run).
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
