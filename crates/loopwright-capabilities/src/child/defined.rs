//! Sub-agents from definitions.

use std::{fmt, sync::Arc};

use loopwright_agent::{
    AgentDefinition, BuildError, Capability, CapabilityRegistry, DefinitionError,
    DefinitionStateFactory, Definitions, StateFactory,
};
use loopwright_core::{AgentState, BoxError, StartedAgent, ToolCx};
use tokio_util::sync::CancellationToken;

use crate::child::detached::DetachedChild;
use crate::child::{ChildAgent, ChildError, ChildOutcome, IsolateAgents, IsolatedPlace};
#[cfg(all(feature = "skills", target_os = "linux"))]
use crate::skills::{SkillLibrary, SkillStateFactory};

/// Definitions of agents, and what is needed to create sub-agents from them.
#[derive(Clone)]
#[must_use]
pub struct DefinedAgents {
    definitions: Arc<dyn Definitions>,
    capabilities: Arc<CapabilityRegistry>,
    states: Arc<dyn StateFactory>,
    isolation: Option<Arc<dyn IsolateAgents>>,
    #[cfg(all(feature = "skills", target_os = "linux"))]
    skills: Option<SkillLibrary>,
}

/// An error of a sub-agent from a definition, for the model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DefinedError {
    /// The definition names a capability that is unknown or cannot be used.
    #[error(transparent)]
    Capability(#[from] BuildError),
    /// The definition names unknown skills.
    #[error("`{agent}` cannot start: unknown skills {skills}; do the task yourself")]
    Skills {
        /// The agent.
        agent: String,
        /// The names.
        skills: String,
    },
    /// The agent works in a place of its own, which it cannot have here.
    #[error("`{agent}` cannot start")]
    Isolation {
        /// The agent.
        agent: String,
        /// The reason.
        #[source]
        source: BoxError,
    },
    /// The sub-agent returned no answer.
    #[error(transparent)]
    Child(#[from] ChildError),
}

impl DefinedAgents {
    /// Creates the value from shared definitions.
    pub fn from_arc(definitions: Arc<dyn Definitions>) -> Self {
        Self {
            definitions,
            capabilities: Arc::default(),
            states: Arc::new(DefinitionStateFactory),
            isolation: None,
            #[cfg(all(feature = "skills", target_os = "linux"))]
            skills: None,
        }
    }

    /// Sets the registry of the capabilities that definitions name.
    pub fn with_capabilities(mut self, capabilities: Arc<CapabilityRegistry>) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// Sets the factory of initial states. The budget is capped in any case.
    pub fn with_states(mut self, states: Arc<dyn StateFactory>) -> Self {
        self.states = states;
        self
    }

    /// Sets what gives agents their own places. Without it, agents whose definition has an isolation do not start.
    pub fn with_isolation(mut self, isolation: Arc<dyn IsolateAgents>) -> Self {
        self.isolation = Some(isolation);
        self
    }

    #[cfg(all(feature = "skills", target_os = "linux"))]
    /// Sets the library of the skills that definitions name. Their texts become part of the
    /// instructions.
    pub fn with_skills(mut self, skills: SkillLibrary) -> Self {
        self.skills = Some(skills);
        self
    }

    /// Returns the definitions.
    pub fn definitions(&self) -> &Arc<dyn Definitions> {
        &self.definitions
    }

    /// Returns a definition.
    ///
    /// # Errors
    ///
    /// Returns an error if the name is unknown.
    pub fn find(&self, name: &str) -> Result<Arc<AgentDefinition>, DefinitionError> {
        self.definitions.get(name)
    }

    /// Returns a definition's agent as a call declares that it starts it: with its skills.
    pub(crate) fn started(definition: &AgentDefinition) -> StartedAgent {
        StartedAgent::new(&*definition.name).with_skills(definition.skills.iter())
    }

    /// Creates a sub-agent of the calling agent, with the tools, the capabilities and the budget of
    /// the definition, as far as its parent has them.
    ///
    /// # Errors
    ///
    /// Returns [`BuildError::Unknown`] if the definition names an unknown capability, or has rules for calls
    /// or hooks and the capabilities do not include `use_permissions` or `use_command_hooks`.
    pub fn child<'a>(
        &self,
        definition: &Arc<AgentDefinition>,
        name: impl Into<Arc<str>>,
        cx: &ToolCx<'a>,
    ) -> Result<ChildAgent<'a>, BuildError> {
        let configured = |name| self.capabilities.configured(name, definition.config_of(name));
        let found = definition.capabilities.iter().map(configured);
        let capabilities: Vec<Arc<dyn Capability>> = found.collect::<Result<_, _>>()?;
        let restrictions = definition.restrictions(&self.capabilities)?;
        let rules = Arc::clone(definition);
        Ok(ChildAgent::of(cx, name)
            .keep_tools(move |name| rules.allows_tool(name))
            .with_capabilities(capabilities.into_iter().chain(restrictions))
            .cap(&definition.budget.unwrap_or_default()))
    }

    /// Runs a sub-agent with a prompt. `prepare` changes the state from the definition before the
    /// prompt is added.
    ///
    /// # Errors
    ///
    /// Returns an error if the definition names unknown skills, or the sub-agent cannot run.
    pub async fn run(
        &self,
        definition: &Arc<AgentDefinition>,
        child: ChildAgent<'_>,
        prompt: &str,
        prepare: impl FnOnce(AgentState) -> AgentState + Send,
    ) -> Result<ChildOutcome, DefinedError> {
        #[cfg(all(feature = "skills", target_os = "linux"))]
        let states = self.states_for(definition).await?;
        #[cfg(not(all(feature = "skills", target_os = "linux")))]
        let states = &self.states;
        let place = self.place(definition, &child).await?;
        let mut ended = match placed(child, place.as_deref(), prompt) {
            Ok((child, task)) => {
                let begin =
                    |seed| prepare(states.instantiate(definition, seed)).with_user_message(task);
                child.run(prompt, begin).await
            }
            Err(error) => Err(error),
        };
        let is_over = match &ended {
            Ok(ended) => ended.state.status().is_terminal(),
            // The call is repeated, in the same place.
            Err(error) => !matches!(error, ChildError::Journal { .. }),
        };
        if let Some(place) = place.filter(|_| is_over) {
            let left = place.leave().await;
            ended = ended.map(|ended| ChildOutcome { left, ..ended });
        }
        Ok(ended?)
    }

    /// Returns the place of a sub-agent; `None` if it works where its parent works.
    async fn place(
        &self,
        definition: &AgentDefinition,
        child: &ChildAgent<'_>,
    ) -> Result<Option<Box<dyn IsolatedPlace>>, DefinedError> {
        if definition.isolation.is_none() {
            return Ok(None);
        }
        let place = match &self.isolation {
            Some(isolation) => isolation.enter(definition, &child.cx).await,
            None => Err("this program does not provide git worktrees; do the task yourself".into()),
        };
        let agent = &definition.name;
        place.map(Some).map_err(|source| DefinedError::Isolation { agent: agent.clone(), source })
    }

    /// Begins a sub-agent with a prompt that does not need its call; see [`ChildAgent::detach`].
    ///
    /// # Errors
    ///
    /// Returns an error if the definition names unknown skills, or the sub-agent cannot begin.
    pub(crate) async fn detach(
        &self,
        definition: &Arc<AgentDefinition>,
        child: ChildAgent<'_>,
        prompt: &str,
        stop: CancellationToken,
    ) -> Result<DetachedChild, DefinedError> {
        #[cfg(all(feature = "skills", target_os = "linux"))]
        let states = self.states_for(definition).await?;
        #[cfg(not(all(feature = "skills", target_os = "linux")))]
        let states = &self.states;
        let place = self.place(definition, &child).await?;
        let begun = placed(child, place.as_deref(), prompt).and_then(|(child, task)| {
            let begin = |seed| states.instantiate(definition, seed).with_user_message(task);
            child.detach(prompt, stop, begin)
        });
        match (begun, place) {
            (Ok(child), place) => Ok(child.in_place(place)),
            (Err(error), place) => {
                if let Some(place) = place {
                    // Nothing was done there.
                    let _nothing = place.leave().await;
                }
                Err(error.into())
            }
        }
    }

    #[cfg(all(feature = "skills", target_os = "linux"))]
    /// Returns the factory of the states of a definition, with the skills that it names.
    async fn states_for(
        &self,
        definition: &Arc<AgentDefinition>,
    ) -> Result<Arc<dyn StateFactory>, DefinedError> {
        let Some(library) = self.skills.clone().filter(|_| !definition.skills.is_empty()) else {
            return Ok(Arc::clone(&self.states));
        };
        let named = Arc::clone(definition);
        let find = move || {
            let found: Vec<_> =
                named.skills.iter().map(|name| (name.to_owned(), library.get(name))).collect();
            let missing = found.iter().filter(|(_, skill)| skill.is_none());
            let missing: loopwright_agent::NameList =
                missing.map(|(name, _)| name.as_str()).collect();
            let skills = found.into_iter().filter_map(|(_, skill)| skill);
            let own = SkillLibrary::default();
            (missing, skills.fold(own, |own, skill| own.with((*skill).clone())))
        };
        // Files are read away from the threads that answer.
        let (missing, own) = match tokio::runtime::Handle::try_current() {
            Err(_) => find(),
            Ok(runtime) => {
                let found = runtime.spawn_blocking(find).await;
                found.unwrap_or_else(|_| (definition.skills.clone(), SkillLibrary::default()))
            }
        };
        if !missing.is_empty() {
            let agent = definition.name.clone();
            let skills = missing.iter().map(|it| format!("`{it}`")).collect::<Vec<_>>().join(", ");
            return Err(DefinedError::Skills { agent, skills });
        }
        Ok(Arc::new(SkillStateFactory::new(own).with_inner(Arc::clone(&self.states))))
    }
}

/// Returns a sub-agent with the tools of its place, and its task behind the description of the place.
fn placed<'a>(
    child: ChildAgent<'a>,
    place: Option<&dyn IsolatedPlace>,
    prompt: &str,
) -> Result<(ChildAgent<'a>, String), ChildError> {
    let Some(place) = place else { return Ok((child, prompt.to_owned())) };
    let name = Arc::clone(&child.name);
    let child = child.in_place(place).map_err(|source| ChildError::Build { name, source })?;
    Ok((child, format!("{}\n\n{prompt}", place.describe())))
}

impl fmt::Debug for DefinedAgents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("DefinedAgents");
        debug.field("definitions", &self.definitions.names());
        #[cfg(all(feature = "skills", target_os = "linux"))]
        debug.field("skills", &self.skills);
        debug.finish_non_exhaustive()
    }
}
