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
mod ended;
mod inherit;
mod run;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod waits;

use std::{fmt, sync::Arc};

use loopwright_agent::{AgentBuilder, BuildError, Capability, NameList, UseDriver, UseIfCallable};
use loopwright_core::{
    AgentLoop, AgentState, AnyTool, Budget, Failure, HookStack, Key, Reach, ReplayError, ToolCx,
    ToolError, ToolPause, ToolSet, ToolSources,
};

pub use self::{
    defined::{DefinedAgents, DefinedError},
    ended::{ChildAnswer, ChildOutcome},
};

/// How deep an agent is below the one that a user talks to; nothing there counts as zero.
pub const DEPTH: Key<u32> = Key::session("child", "depth");

/// The tools that an agent is narrowed to for the time being; nothing there is no restriction. Whoever
/// narrows an agent for a while writes it, so that its children are narrowed as well.
pub const NARROWED: Key<NameList> = Key::execution("child", "narrowed");

/// How deep children may be by default.
pub const MAX_DEPTH: u32 = 3;

/// An agent that is about to work for the agent of a call.
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
}

type Filter = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Why a child did not answer; the model is told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChildError {
    /// It would be too deep.
    #[error(
        "`{name}` cannot run here: sub-agents are nested {current} deep, and the limit is {max}; do the task yourself"
    )]
    TooDeep {
        /// The name.
        name: Arc<str>,
        /// How deep the one is who asked.
        current: u32,
        /// How deep children may be.
        max: u32,
    },
    /// It cannot be put together.
    #[error("`{name}` cannot be built")]
    Build {
        /// The name.
        name: Arc<str>,
        /// The reason.
        #[source]
        source: BuildError,
    },
    /// What it did before an interruption cannot be read, or what it does cannot be kept. The run of its parent ends
    /// here, and makes the call again when it resumes.
    #[error("the history of `{name}` cannot be read or saved: {failure}")]
    Journal {
        /// The name.
        name: Arc<str>,
        /// The reason.
        failure: Failure,
    },
    /// It had begun, and what it did is gone: nothing of it is done again.
    #[error("`{name}` had started, but its history was lost; its effects are unknown")]
    Lost {
        /// The name.
        name: Arc<str>,
    },
    /// What it did before an interruption makes no sense.
    #[error("the history of `{name}` is inconsistent")]
    Damaged {
        /// The name.
        name: Arc<str>,
        /// The reason.
        #[source]
        source: ReplayError,
    },
    /// It failed.
    #[error("`{name}` failed after {steps} steps and {tokens} tokens: {reason}")]
    Failed {
        /// The name.
        name: Arc<str>,
        /// Steps it took.
        steps: u32,
        /// Tokens it used.
        tokens: u64,
        /// The reason.
        reason: String,
    },
    /// It waits for somebody: the call of its parent waits as well. Not a failure: a tool returns it as its error, as
    /// [`into_tool_error`](ChildError::into_tool_error) makes it.
    #[error("`{name}` is waiting for a decision or an answer")]
    Waits {
        /// The name.
        name: Arc<str>,
        /// What it waits for.
        pause: Box<ToolPause>,
    },
}

impl ChildError {
    /// Makes the error of the tool that ran the child: a child that waits pauses the call, a journal that failed ends
    /// the run, and of a child whose history is gone the outcome is unknown.
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
    /// Makes a child of the agent of a call: with its driver, its tools, its guards and what is left of
    /// its budget.
    pub fn of(cx: &ToolCx<'a>, name: impl Into<Arc<str>>) -> Self {
        let narrowed = cx.state.get(&NARROWED);
        let may: Filter =
            Arc::new(move |name| narrowed.as_ref().is_none_or(|it| it.contains(name)));
        Self {
            cx: *cx,
            name: name.into(),
            tools: cx.agent.tools().filter(|tool| !tool.is_withdrawn() && may(tool.name())),
            filters: vec![may],
            capabilities: Vec::new(),
            budget: cx.state.budget().remaining(cx.used()),
            max_depth: MAX_DEPTH,
        }
    }

    /// Takes away the tools that the test does not accept, those that capabilities bring included.
    pub fn keep_tools(mut self, keep: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.tools = self.tools.filter(|tool| keep(tool.name()));
        self.filters.push(Arc::new(keep));
        self
    }

    /// Gives it tools that its parent does not have. That is for the caller that sets an agent up, and never for
    /// what a model or a definition says.
    pub fn with_own_tools(mut self, tools: &ToolSet) -> Self {
        for tool in tools.iter() {
            if self.tools.get(tool.name()).is_none() {
                self.tools.add(tool.clone());
            }
        }
        self
    }

    /// Adds capabilities. Of the tools that they bring, the child has those that reach only itself
    /// ([`Reach::Agent`]). Where the parent has a tool of the same name, the child has the parent's. A
    /// capability that brings only tools that the child does not have adds no instructions.
    pub fn with_capabilities(
        mut self,
        capabilities: impl IntoIterator<Item = Arc<dyn Capability>>,
    ) -> Self {
        self.capabilities.extend(capabilities);
        self
    }

    /// Caps the budget.
    pub fn cap(mut self, budget: &Budget) -> Self {
        self.budget = self.budget.capped_by(budget);
        self
    }

    /// Sets how deep children may be.
    pub fn with_max_depth(mut self, max: u32) -> Self {
        self.max_depth = max;
        self
    }

    /// Returns what it may call.
    pub fn tools(&self) -> &ToolSet {
        &self.tools
    }

    /// Returns what it may use.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Returns how deep it is below the agent that a user talks to.
    pub fn depth(&self) -> u32 {
        self.cx.state.get(&DEPTH).unwrap_or_default().saturating_add(1)
    }

    /// Lets it work to its end, or to where it can go no further.
    ///
    /// `prompt` is what listeners are told; `begin` makes of an empty state with everything that is the
    /// parent's one that says what there is to do. When the call is entered again, the child continues and
    /// `begin` is not asked.
    ///
    /// # Errors
    ///
    /// Returns an error if it is too deep, cannot be put together, or what it did so far cannot be read. However it ends
    /// itself is not an error here: see [`ChildOutcome::answer`].
    pub async fn run(
        self,
        prompt: &str,
        begin: impl FnOnce(AgentState) -> AgentState + Send,
    ) -> Result<ChildOutcome, ChildError> {
        let (depth, max) = (self.depth(), self.max_depth);
        if depth > max {
            return Err(ChildError::TooDeep { name: self.name, current: depth - 1, max });
        }
        let name = &self.name;
        let agent = self
            .put_together()
            .map_err(|source| ChildError::Build { name: Arc::clone(name), source })?;
        self.work(agent, prompt, begin).await
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
