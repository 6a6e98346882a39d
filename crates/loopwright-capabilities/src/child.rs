//! Sub-agents.
//!
//! A tool creates a [`ChildAgent`] from the agent that calls it, at the time of the call. The child
//! has what that agent has at that moment and nothing more, including tools from sources, whose
//! changes it does not follow. Tools can only be removed; guards and middleware stay; the budget is
//! the rest of the parent's budget; and the account, the cancellation, the events and the journal
//! are those of the parent.
//!
//! ```
//! use loopwright_capabilities::child::{ChildAgent, ChildError};
//! use loopwright_core::ToolCx;
//!
//! /// Asks a sub-agent that can only read.
//! async fn ask_a_reader(question: &str, cx: &ToolCx<'_>) -> Result<String, ChildError> {
//!     let child = ChildAgent::of(cx, "reader").keep_tools(|name| name == "read_file");
//!     let ended = child.run(question, |state| state.with_user_message(question)).await?;
//!     Ok(ended.answer()?.text)
//! }
//! ```
//!
//! A child keeps its changes in its own journal. If its tool is
//! [`SideEffects::Resumable`](loopwright_core::SideEffects::Resumable) and its call runs again
//! after a crash, the child continues where it stopped, without repeating or paying for completed
//! model calls. The tool returns errors of the child as converted by
//! [`ChildError::into_tool_error`].

mod defined;
pub(crate) mod detached;
mod ended;
mod inherit;
mod place;
mod run;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod waits;

use std::{fmt, sync::Arc};

use loopwright_agent::{AgentBuilder, BuildError, Capability, UseDriver, UseIfCallable};
use loopwright_core::{
    AgentLoop, AgentState, AnyTool, Budget, Failure, HookStack, Key, Reach, ReplayError, ToolCx,
    ToolError, ToolPause, ToolSet, ToolSources,
};

pub use self::{
    defined::{DefinedAgents, DefinedError},
    ended::{ChildAnswer, ChildOutcome},
    place::{IsolateAgents, IsolatedPlace},
};

/// The number of agents between an agent and the user. If the value is absent, the depth is 0.
pub const DEPTH: Key<u32> = Key::session("child", "depth");

/// The default maximum depth of sub-agents.
pub const MAX_DEPTH: u32 = 3;

/// A sub-agent that has not started yet.
#[must_use = "a child agent does nothing until it is run"]
pub struct ChildAgent<'a> {
    cx: ToolCx<'a>,
    name: Arc<str>,
    tools: ToolSet,
    /// What tools have to pass that capabilities bring.
    filters: Vec<Filter>,
    capabilities: Vec<Arc<dyn Capability>>,
    budget: Budget,
    max_depth: u32,
    /// The loop that was built of the capabilities of its place, if it has one.
    of_place: Option<AgentLoop>,
}

type Filter = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// The reason why a sub-agent gave no answer. The model sees its text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChildError {
    /// The sub-agent exceeds the maximum depth.
    #[error(
        "`{name}` cannot run here: sub-agents are nested {current} deep, and the limit is {max}; do the task yourself"
    )]
    TooDeep {
        /// The name.
        name: Arc<str>,
        /// The depth of the calling agent.
        current: u32,
        /// The maximum depth.
        max: u32,
    },
    /// The sub-agent cannot be built.
    #[error("`{name}` cannot be built")]
    Build {
        /// The name.
        name: Arc<str>,
        /// The reason.
        #[source]
        source: BuildError,
    },
    /// The journal of the sub-agent cannot be read or written. The run of the parent ends, and repeats the call when it
    /// resumes.
    #[error("the history of `{name}` cannot be read or saved: {failure}")]
    Journal {
        /// The name.
        name: Arc<str>,
        /// The reason.
        failure: Failure,
    },
    /// The sub-agent had started, but its journal is lost. It does not run again.
    #[error("`{name}` had started, but its history was lost; its effects are unknown")]
    Lost {
        /// The name.
        name: Arc<str>,
    },
    /// The journal of the sub-agent is inconsistent.
    #[error("the history of `{name}` is inconsistent")]
    Damaged {
        /// The name.
        name: Arc<str>,
        /// The reason.
        #[source]
        source: ReplayError,
    },
    /// The sub-agent failed.
    #[error("`{name}` failed after {steps} steps and {tokens} tokens: {reason}")]
    Failed {
        /// The name.
        name: Arc<str>,
        /// The number of its steps.
        steps: u32,
        /// The number of its tokens.
        tokens: u64,
        /// The reason.
        reason: String,
    },
    /// The sub-agent waits for a decision or an answer, so the call of its parent waits, too. This is not a failure: a
    /// tool returns it with [`into_tool_error`](ChildError::into_tool_error).
    #[error("`{name}` is waiting for a decision or an answer")]
    Waits {
        /// The name.
        name: Arc<str>,
        /// The question or the approval request.
        pause: Box<ToolPause>,
    },
}

impl ChildError {
    /// Converts the error to an error of the tool that ran the sub-agent. If the sub-agent waits, the call pauses. If its
    /// journal failed, the run ends. If its journal is lost or damaged, the outcome is unknown.
    pub fn into_tool_error(self) -> ToolError {
        match self {
            Self::Waits { pause, .. } => ToolError::Pause(pause),
            Self::Journal { failure, .. } => ToolError::Journal(failure),
            Self::Lost { .. } | Self::Damaged { .. } => ToolError::OutcomeUnknown,
            error => ToolError::Failed(error.into()),
        }
    }
}

impl<'a> ChildAgent<'a> {
    /// Creates a sub-agent of the calling agent, with its driver, tools and guards and the rest of its
    /// budget.
    pub fn of(cx: &ToolCx<'a>, name: impl Into<Arc<str>>) -> Self {
        Self {
            cx: *cx,
            name: name.into(),
            tools: cx.agent.tools().filter(|tool| !tool.is_withdrawn()),
            filters: Vec::new(),
            capabilities: Vec::new(),
            budget: cx.state.budget().remaining(cx.used()),
            max_depth: MAX_DEPTH,
            of_place: None,
        }
    }

    /// Keeps only the tools for which `keep` returns `true`, including tools of capabilities.
    pub fn keep_tools(mut self, keep: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.tools = self.tools.filter(|tool| keep(tool.name()));
        self.filters.push(Arc::new(keep));
        self
    }

    /// Adds tools that the parent does not have. Use it only for tools that the program chooses, never for tools that
    /// a model or a definition names.
    pub fn with_own_tools(mut self, tools: &ToolSet) -> Self {
        for tool in tools.iter() {
            if self.tools.get(tool.name()).is_none() {
                self.tools.add(tool.clone());
            }
        }
        self
    }

    /// Adds capabilities. Of their tools, the sub-agent gets those that reach only the agent itself
    /// ([`Reach::Agent`]). If the parent has a tool of the same name, the sub-agent gets that tool. A
    /// capability without any tool for the sub-agent adds no instructions.
    pub fn with_capabilities(
        mut self,
        capabilities: impl IntoIterator<Item = Arc<dyn Capability>>,
    ) -> Self {
        self.capabilities.extend(capabilities);
        self
    }

    /// Limits the budget to this one.
    pub fn cap(mut self, budget: &Budget) -> Self {
        self.budget = self.budget.capped_by(budget);
        self
    }

    /// Sets the maximum depth; [`MAX_DEPTH`] by default.
    pub fn with_max_depth(mut self, max: u32) -> Self {
        self.max_depth = max;
        self
    }

    /// Returns the tools of the sub-agent.
    pub fn tools(&self) -> &ToolSet {
        &self.tools
    }

    /// Returns the budget of the sub-agent.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Returns the depth of the sub-agent, which is 1 below an agent that the user talks to.
    pub fn depth(&self) -> u32 {
        self.cx.state.get(&DEPTH).unwrap_or_default().saturating_add(1)
    }

    /// Runs the sub-agent to its end, or until it must wait.
    ///
    /// Listeners receive `prompt`. `begin` adds the task to a state without messages that inherits the
    /// parent's settings. If the call is repeated after an interruption, the sub-agent continues and `begin` is
    /// not called. Dropping the future interrupts the sub-agent.
    ///
    /// # Errors
    ///
    /// Returns an error if the sub-agent exceeds the maximum depth, cannot be built, or its journal cannot be read. A
    /// sub-agent that fails is not an error here: see [`ChildOutcome::answer`].
    pub async fn run(
        self,
        prompt: &str,
        begin: impl FnOnce(AgentState) -> AgentState + Send,
    ) -> Result<ChildOutcome, ChildError> {
        let agent = self.built()?;
        self.work(agent, prompt, begin).await
    }

    /// Runs a loop that has nothing of the parent, and whose steps call no model: its steps do not count.
    #[cfg(feature = "remote")]
    pub(crate) async fn run_loop(
        mut self,
        agent: AgentLoop,
        prompt: &str,
        begin: impl FnOnce(AgentState) -> AgentState + Send,
    ) -> Result<ChildOutcome, ChildError> {
        self.check_depth()?;
        self.budget.steps = None;
        self.work(agent, prompt, begin).await
    }

    /// Makes the loop, unless the sub-agent exceeds the maximum depth.
    fn built(&self) -> Result<AgentLoop, ChildError> {
        self.check_depth()?;
        self.put_together()
            .map_err(|source| ChildError::Build { name: Arc::clone(&self.name), source })
    }

    fn check_depth(&self) -> Result<(), ChildError> {
        let (depth, max) = (self.depth(), self.max_depth);
        if depth > max {
            let name = Arc::clone(&self.name);
            return Err(ChildError::TooDeep { name, current: depth - 1, max });
        }
        Ok(())
    }

    /// Makes the loop: the parent's driver and executor, no tools but those that are left, and of the
    /// parent's hooks those that bind its children.
    fn put_together(&self) -> Result<AgentLoop, BuildError> {
        let parent = self.cx.agent;
        let builder =
            AgentBuilder::base().with_capability(UseDriver::from_arc(parent.driver().clone()));
        let may_call = self.may_call();
        let capabilities = self.capabilities.iter().cloned();
        let capabilities = capabilities.map(|it| UseIfCallable::new(it, Arc::clone(&may_call)));
        let built = capabilities.fold(builder, AgentBuilder::with_capability).build()?;
        let tools = built.tools().filter(|tool| may_call(tool));
        let mut hooks = HookStack::default();
        inherit::binding(parent.interceptor(), &mut hooks);
        inherit::all(built.interceptor(), &mut hooks);
        if let Some(of_place) = &self.of_place {
            inherit::all(of_place.interceptor(), &mut hooks);
        }
        Ok(built.with(|parts| {
            parts.tools = self.tools.clone();
            // The child has what the sources of its parent listed by now, and follows none.
            parts.sources = ToolSources::default();
            for tool in tools.iter().filter(|tool| self.tools.get(tool.name()).is_none()) {
                parts.tools.add(tool.clone());
            }
            parts.instructions = parts.instructions.after_shared(parent.instructions());
            parts.interceptor = hooks.into_interceptor();
            parts.executor = parent.executor().clone();
            parts.profile.name = Arc::clone(&self.name);
            let mut layers = parent.layers().clone();
            layers.extend(&parts.layers);
            parts.layers = layers;
        }))
    }
}

impl ChildAgent<'_> {
    /// Returns `true` for the tools of capabilities that the child may call.
    fn may_call(&self) -> Arc<dyn Fn(&AnyTool) -> bool + Send + Sync> {
        let (tools, filters) = (self.tools.clone(), self.filters.clone());
        Arc::new(move |tool| {
            let name = tool.name();
            let reaches_itself = tool.options().reach == Reach::Agent;
            tools.get(name).is_some() || (reaches_itself && filters.iter().all(|keep| keep(name)))
        })
    }
}

impl fmt::Debug for ChildAgent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildAgent")
            .field("name", &self.name)
            .field("tools", &self.tools)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}
