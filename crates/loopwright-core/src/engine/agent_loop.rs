//! The agent loop.

use std::{fmt, sync::Arc};

use futures_util::stream::{self, Stream};
use loopwright_messages::{ResponseFormat, Transcript};

use crate::{
    agent::AgentLoop,
    compile::ContextCompiler,
    driver::Driver,
    event::{EventEnvelope, EventType},
    event_bus::{EventSink, EventSinks},
    executor::ToolExecutor,
    instructions::Instructions,
    interceptor::Interceptor,
    layer::ModelLayers,
    profile::AgentMeta,
    run::{Run, RunOptions},
    state::AgentState,
    tool::{IntoTool, ToolSet, ToolSourceError, ToolSources},
};

/// The parts of a loop.
///
/// ```
/// use std::sync::Arc;
///
/// use loopwright_core::{AgentLoop, AgentParts};
/// use loopwright_testing::{FakeDriver, FullTranscript};
///
/// let mut parts = AgentParts::new(Arc::new(FakeDriver::responses(["Hi."])), Arc::new(FullTranscript));
/// parts.profile.name = "greeter".into();
/// assert_eq!(&*AgentLoop::new(parts).profile().name, "greeter");
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct AgentParts {
    /// Produces the responses of steps.
    pub driver: Arc<dyn Driver>,
    /// Selects the input of the model.
    pub compiler: Arc<dyn ContextCompiler>,
    /// The tools that the model can call.
    pub tools: ToolSet,
    /// Tools that can change while the agent works.
    pub sources: ToolSources,
    /// Runs the calls.
    pub executor: ToolExecutor,
    /// The hooks.
    pub interceptor: Interceptor,
    /// Listeners to all runs.
    pub event_sinks: EventSinks,
    /// The instructions at the start of every request.
    pub instructions: Instructions,
    /// Turns before the conversation in every request.
    pub preamble: Transcript,
    /// The response format, if the state sets none.
    pub response_format: Option<ResponseFormat>,
    /// Middleware around model calls. The layer added last runs first.
    pub layers: ModelLayers,
    /// More data about the agent.
    pub profile: AgentMeta,
}

impl AgentParts {
    /// Creates an agent without tools, hooks, instructions and listeners.
    pub fn new(driver: Arc<dyn Driver>, compiler: Arc<dyn ContextCompiler>) -> Self {
        Self {
            driver,
            compiler,
            tools: ToolSet::new(),
            sources: ToolSources::default(),
            executor: ToolExecutor::default(),
            interceptor: Interceptor::default(),
            event_sinks: EventSinks::default(),
            instructions: Instructions::default(),
            preamble: Transcript::new(),
            response_format: None,
            layers: ModelLayers::default(),
            profile: AgentMeta::default(),
        }
    }
}

/// Running states.
impl AgentLoop {
    /// Creates a loop from its parts. `AgentBuilder` is the convenient way.
    pub fn new(parts: AgentParts) -> Self {
        Self(Arc::new(parts))
    }

    /// Runs to the end. A failure is part of the returned state, not an `Err`, so that no data is
    /// lost.
    ///
    /// The run starts when the future is first polled. Dropping the future ends the run.
    ///
    /// ```
    /// use loopwright_core::{AgentState, ExecutionStatus};
    /// use loopwright_testing::{FakeDriver, ScenarioStep, block_on, test_loop};
    ///
    /// let agent = test_loop(FakeDriver::steps([ScenarioStep::error("no connection")]));
    /// let state = block_on(agent.execute(AgentState::new().with_user_message("Hello.")));
    /// assert!(matches!(state.status(), ExecutionStatus::Failed(_)));
    /// assert!(state.explain_stop().contains("no connection"));
    /// ```
    pub fn execute(&self, state: AgentState) -> impl Future<Output = AgentState> + Send + use<> {
        self.start(state, RunOptions::default()).finish()
    }

    /// Yields the state after each step, including the final state, which it yields once. The run
    /// starts when the stream is first polled.
    ///
    /// ```
    /// use std::pin::pin;
    ///
    /// use futures_util::StreamExt as _;
    /// use loopwright_core::AgentState;
    /// use loopwright_testing::{FakeDriver, ScenarioStep, block_on, test_loop};
    ///
    /// let steps = [ScenarioStep::tool("Working."), ScenarioStep::final_answer("Done.")];
    /// let agent = test_loop(FakeDriver::steps(steps));
    /// block_on(async {
    ///     let mut states = pin!(agent.iterate(AgentState::new()));
    ///     while let Some(state) = states.next().await {
    ///         println!("step {}", state.step_count());
    ///     }
    /// });
    /// ```
    pub fn iterate(&self, state: AgentState) -> impl Stream<Item = AgentState> + Send + use<> {
        stream::unfold(self.start(state, RunOptions::default()), |mut run| async move {
            let snapshot = run.next().await?.clone();
            Some((snapshot, run))
        })
    }

    /// Closes the [sources](crate::ToolSource::close) of the agent and of all its copies. Runs in
    /// progress keep their tools. Dropping an agent closes nothing. Dropping the future leaves
    /// unfinished sources open.
    ///
    /// # Errors
    ///
    /// Returns the error of the first source that fails. The other sources are still closed.
    pub async fn close(&self) -> Result<(), ToolSourceError> {
        self.sources().close().await
    }

    /// Starts a run that the caller advances, steers and cancels.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use loopwright_core::{AgentState, RunOptions};
    /// use loopwright_testing::{FakeDriver, MemoryJournal, block_on, test_loop};
    ///
    /// let journal = MemoryJournal::new();
    /// let options = RunOptions { journal: Some(Arc::new(journal.clone())), ..RunOptions::default() };
    /// let state = block_on(test_loop(FakeDriver::default()).start(AgentState::new(), options).finish());
    /// assert_eq!(journal.changes().len() as u64, state.seq());
    /// ```
    pub fn start(&self, state: AgentState, options: RunOptions) -> Run {
        Run::new(self.clone(), state, options)
    }
}

/// Accessors.
impl AgentLoop {
    fn parts(&self) -> &AgentParts {
        let Some(parts) = self.0.downcast_ref() else {
            unreachable!("`AgentLoop::new` is the only constructor, and it takes `AgentParts`")
        };
        parts
    }

    /// Returns the tools that the model can call: those of the agent itself. In tools and hooks of
    /// a run, also those that the run has from [sources](AgentLoop::sources).
    pub fn tools(&self) -> &ToolSet {
        &self.parts().tools
    }

    /// Returns the tool sources.
    pub fn sources(&self) -> &ToolSources {
        &self.parts().sources
    }

    /// Returns the driver.
    pub fn driver(&self) -> &Arc<dyn Driver> {
        &self.parts().driver
    }

    /// Returns the context compiler.
    pub fn compiler(&self) -> &Arc<dyn ContextCompiler> {
        &self.parts().compiler
    }

    /// Returns the tool executor.
    pub fn executor(&self) -> &ToolExecutor {
        &self.parts().executor
    }

    /// Returns the hooks.
    pub fn interceptor(&self) -> &Interceptor {
        &self.parts().interceptor
    }

    /// Returns the listeners to all runs.
    pub fn sinks(&self) -> &EventSinks {
        &self.parts().event_sinks
    }

    /// Returns the instructions.
    pub fn instructions(&self) -> &Instructions {
        &self.parts().instructions
    }

    /// Returns the turns before the conversation in every request.
    pub fn preamble(&self) -> &Transcript {
        &self.parts().preamble
    }

    /// Returns the response format that applies if the state sets none.
    pub fn response_format(&self) -> Option<&ResponseFormat> {
        self.parts().response_format.as_ref()
    }

    /// Returns the middleware around model calls.
    pub fn layers(&self) -> &ModelLayers {
        &self.parts().layers
    }

    /// Returns the metadata of the agent.
    pub fn profile(&self) -> &AgentMeta {
        &self.parts().profile
    }
}

/// Copies with one part changed. The original does not change.
impl AgentLoop {
    /// Changes any part.
    #[must_use]
    pub fn with(&self, change: impl FnOnce(&mut AgentParts)) -> Self {
        let mut parts = AgentParts::clone(self.parts());
        change(&mut parts);
        Self::new(parts)
    }

    /// Replaces all tools, those of sources included: the copy has no sources.
    #[must_use]
    pub fn with_tools(&self, tools: ToolSet) -> Self {
        self.with(|parts| (parts.tools, parts.sources) = (tools, ToolSources::default()))
    }

    /// Adds a tool, or replaces the one with the same name.
    ///
    /// ```
    /// use loopwright_core::{BoxError, NoArgs, tool_fn};
    /// use loopwright_testing::{FakeDriver, test_loop};
    ///
    /// let agent = test_loop(FakeDriver::default());
    /// let clock = tool_fn("clock", "Returns the time.", |_: NoArgs| async { Ok::<_, BoxError>("12:00") });
    /// let larger = agent.with_tool(clock);
    /// assert_eq!((agent.tools().len(), larger.tools().len()), (1, 2));
    /// ```
    #[must_use]
    pub fn with_tool(&self, tool: impl IntoTool) -> Self {
        self.with(|parts| parts.tools.add(tool))
    }

    /// Replaces the driver.
    #[must_use]
    pub fn with_driver(&self, driver: Arc<dyn Driver>) -> Self {
        self.with(|parts| parts.driver = driver)
    }

    /// Replaces the tool executor.
    #[must_use]
    pub fn with_executor(&self, executor: ToolExecutor) -> Self {
        self.with(|parts| parts.executor = executor)
    }

    /// Replaces all hooks.
    #[must_use]
    pub fn with_interceptor(&self, interceptor: Interceptor) -> Self {
        self.with(|parts| parts.interceptor = interceptor)
    }

    /// Adds a listener.
    #[must_use]
    pub fn with_event_sink(&self, sink: Arc<dyn EventSink>) -> Self {
        self.with(|parts| parts.event_sinks.add(sink))
    }

    /// Adds a listener to all events.
    ///
    /// ```
    /// use std::sync::{Arc, atomic::{AtomicUsize, Ordering::Relaxed}};
    ///
    /// use loopwright_core::AgentState;
    /// use loopwright_testing::{FakeDriver, block_on, test_loop};
    ///
    /// let count = Arc::new(AtomicUsize::new(0));
    /// let counted = Arc::clone(&count);
    /// let agent = test_loop(FakeDriver::responses(["Hi."])).wiretap(move |_event| {
    ///     counted.fetch_add(1, Relaxed);
    /// });
    /// block_on(agent.execute(AgentState::new()));
    /// assert!(count.load(Relaxed) > 0);
    /// ```
    #[must_use]
    pub fn wiretap(&self, listen: impl Fn(&EventEnvelope) + Send + Sync + 'static) -> Self {
        self.with_event_sink(Arc::new(listen))
    }

    /// Adds a listener to one event type.
    ///
    /// ```
    /// use loopwright_core::{AgentState, events::StepCompleted};
    /// use loopwright_testing::{FakeDriver, block_on, test_loop};
    ///
    /// let agent = test_loop(FakeDriver::responses(["Hi."]))
    ///     .on_event(|_step: &StepCompleted, envelope| println!("a step ended at {}", envelope.at));
    /// block_on(agent.execute(AgentState::new()));
    /// ```
    #[must_use]
    pub fn on_event<T: EventType + 'static>(
        &self,
        listen: impl Fn(&T, &EventEnvelope) + Send + Sync + 'static,
    ) -> Self {
        self.with(|parts| parts.event_sinks.on_event(listen))
    }
}

impl fmt::Debug for AgentLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentLoop")
            .field("driver", &self.parts().driver.name())
            .field("tools", &self.parts().tools)
            .field("interceptor", &self.parts().interceptor)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for AgentParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentParts").field("tools", &self.tools).finish_non_exhaustive()
    }
}
